//! Callers, a network that loses, delays and repeats, a clock, a sweeper: what can happen next.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};

use super::cell::{Cell, CellState, LEASE, LONG_LEASE, RETENTION, Token, asked, token};
use super::ghost::{Ghost, Seen};
use super::rules::{Mutant, Rules, Write, Written};
use super::scenarios::Scenario;
use crate::world::Ask;

/// What a caller is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    pub(super) owner: u8,
    pub(super) body: u8,
    pub(super) marks: bool,
    pub(super) policy: Policy,
    pub(super) does: Does,
    pub(super) heartbeats: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Below(u32),
    Never,
    /// It lists lapsed records, and claims with `Only`.
    Reconciles,
}

/// What a caller does once it holds the claim. Each can also stop for ever, at any place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// One effect elsewhere, then the reply.
    Acts,
    /// One effect elsewhere, a recovery point for it, then the reply.
    ActsAndRecords,
    /// Frees the key; where that is refused it stores the rejection.
    Rejects,
    /// Marks that it began, then tries to free the key all the same.
    RejectsLate,
    /// Gives the lease up.
    GivesUp,
}

/// A record as a reconciler listed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) life: u8,
    attempt: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    stage: Stage,
    point: u8,
    acted: bool,
    created: u8,
    heartbeats: u8,
}

impl Worker {
    /// What it knew makes no difference any more.
    fn end(&mut self) {
        *self = Self { stage: Stage::Over, point: 0, acted: false, created: 0, heartbeats: 0 };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Start,
    Found(Listed),
    Holding(Token),
    Over,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Message {
    Claim { worker: usize, listed: Option<Listed> },
    Write { under: Token, write: Write },
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// Answered, and a copy of it is still under way.
    Repeated,
    ReplyLost,
    /// Under way until it is delivered, or for ever; the caller knows nothing.
    Late,
}

/// One state of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    now: u8,
    record: Option<Cell>,
    lives: u8,
    workers: Vec<Worker>,
    late: Vec<Message>,
    faults: u8,
    ghost: Ghost,
}

/// What happens between two states. A trace is a list of them.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)] // Its parts are read by `Debug`, in a trace.
pub(super) enum Action {
    Start,
    Tick,
    Sweep,
    Delivered(Message),
    Lists { worker: usize },
    Acts { worker: usize },
    Sends { worker: usize, fate: Fate, message: Message },
}

/// What came of an action: the next state, or the promise that it broke.
type Next = Result<Node, &'static str>;

enum Answer {
    Claimed(Box<Claimed>),
    Written(Written),
}

pub(super) struct Model {
    scenario: &'static Scenario,
    rules: Rules,
}

impl Model {
    pub(super) fn of(scenario: &'static Scenario, without: Option<Mutant>) -> Self {
        Self { scenario, rules: Rules(without) }
    }

    pub(super) fn start(&self) -> Node {
        let worker = |role: &Role| Worker {
            stage: Stage::Start,
            point: 0,
            acted: false,
            created: 0,
            heartbeats: role.heartbeats,
        };
        Node {
            now: 0,
            record: None,
            lives: 0,
            workers: self.scenario.roles.iter().map(worker).collect(),
            late: Vec::new(),
            faults: self.scenario.faults,
            ghost: Ghost::default(),
        }
    }

    /// Everything that can happen next, with a name.
    pub(super) fn actions(&self, node: &Node) -> Vec<(Action, Next)> {
        let mut all = Vec::new();
        if node.now < self.scenario.ticks {
            let mut next = Node { now: node.now + 1, ..node.clone() };
            next.ghost.tick(next.now);
            all.push((Action::Tick, Ok(next)));
        }
        if let Some(cell) = node.record.filter(|cell| self.rules.sweeps(cell, node.now)) {
            let mut next = Node { record: None, ..node.clone() };
            let kept = next.ghost.swept(&cell, node.now);
            all.push((Action::Sweep, kept.map(|()| next)));
        }
        for index in 0..node.late.len() {
            let mut next = node.clone();
            let message = next.late.remove(index);
            let next = self.serve(next, message).map(|(next, _)| next);
            all.push((Action::Delivered(message), next));
        }
        for worker in 0..node.workers.len() {
            self.actions_of(node, worker, &mut all);
        }
        all
    }

    fn actions_of(&self, node: &Node, index: usize, all: &mut Vec<(Action, Next)>) {
        let role = &self.scenario.roles[index];
        let worker = &node.workers[index];
        match worker.stage {
            Stage::Start if role.policy == Policy::Reconciles => {
                if let Some(listed) = self.listed(node) {
                    let mut next = node.clone();
                    next.workers[index].stage = Stage::Found(listed);
                    all.push((Action::Lists { worker: index }, Ok(next)));
                }
            }
            Stage::Start => {
                self.send(node, index, Message::Claim { worker: index, listed: None }, all);
            }
            Stage::Found(listed) => {
                let listed = Some(listed);
                self.send(node, index, Message::Claim { worker: index, listed }, all);
            }
            Stage::Holding(under) => {
                match self.next_write(role, worker) {
                    Some(write) => self.send(node, index, Message::Write { under, write }, all),
                    None => {
                        all.push((Action::Acts { worker: index }, self.act(node, index, under)))
                    }
                }
                for lease in [LEASE, LONG_LEASE] {
                    if worker.heartbeats > 0 {
                        let write = Write::Renew { ticks: lease };
                        self.send(node, index, Message::Write { under, write }, all);
                    }
                }
            }
            Stage::Over => {}
        }
    }

    /// The write that comes next; `None` when it is time to act.
    fn next_write(&self, role: &Role, worker: &Worker) -> Option<Write> {
        match role.does {
            Does::GivesUp => Some(Write::Renew { ticks: 0 }),
            Does::Rejects if !worker.acted => Some(Write::Release),
            Does::RejectsLate if !worker.acted && worker.point > 0 => Some(Write::Release),
            _ if !worker.acted => {
                let marks = role.marks && !self.rules.lack(Mutant::ActsBeforeItBegan);
                (marks && worker.point == 0).then_some(Write::Point(1))
            }
            Does::ActsAndRecords if worker.point == 1 => Some(Write::Point(2)),
            _ => Some(Write::Complete),
        }
    }

    fn act(&self, node: &Node, index: usize, under: Token) -> Next {
        let mut next = node.clone();
        let worker = &mut next.workers[index];
        worker.acted = true;
        let created = worker.created;
        if node.now >= created + RETENTION && !self.rules.lack(Mutant::ActsAtAnyAge) {
            worker.end();
            return Ok(next);
        }
        next.ghost.acted(under.life, created, node.now)?;
        Ok(next)
    }

    fn listed(&self, node: &Node) -> Option<Listed> {
        let cell = node.record?;
        let CellState::Held { until, point, .. } = cell.state else { return None };
        let began = point > 0 || self.rules.lack(Mutant::ReconcilesWhatNeverBegan);
        let Token { life, attempt, .. } = cell.under;
        (until <= node.now && began).then_some(Listed { life, attempt })
    }

    /// A request and each fate that it can have.
    fn send(&self, node: &Node, index: usize, message: Message, all: &mut Vec<(Action, Next)>) {
        for fate in [Fate::Answered, Fate::Repeated, Fate::ReplyLost, Fate::Late] {
            if fate != Fate::Answered && node.faults == 0 {
                continue;
            }
            let next = self.sent(node.clone(), index, message, fate);
            all.push((Action::Sends { worker: index, fate, message }, next));
        }
    }

    fn sent(&self, mut node: Node, index: usize, message: Message, fate: Fate) -> Next {
        if fate != Fate::Answered {
            node.faults -= 1;
        }
        if let Message::Write { write: Write::Renew { ticks: 1.. }, .. } = message {
            node.workers[index].heartbeats -= 1;
        }
        if matches!(fate, Fate::Repeated | Fate::Late) {
            node.late.push(message);
            node.late.sort_unstable();
        }
        if fate == Fate::Late {
            return Ok(node);
        }
        let (mut node, answer) = self.serve(node, message)?;
        if fate != Fate::ReplyLost {
            self.told(&mut node, index, message, answer);
        }
        Ok(node)
    }

    /// The store serves a request.
    fn serve(&self, mut node: Node, message: Message) -> Result<(Node, Answer), &'static str> {
        let before = node.record;
        let answer = match message {
            Message::Claim { worker, listed } => {
                let role = &self.scenario.roles[worker];
                let ask = ask_of(role, listed);
                let fresh = node.lives + 1;
                let (claimed, after) = self.rules.claim(before.as_ref(), &ask, node.now, fresh);
                let seen = Seen { before: before.as_ref(), after: after.as_ref(), now: node.now };
                node.ghost.claimed(role, listed, &claimed, seen)?;
                node.record = after;
                node.lives = node.lives.max(after.map_or(0, |cell| cell.under.life));
                Answer::Claimed(Box::new(claimed))
            }
            Message::Write { under, write } => {
                let (told, after) = self.rules.write(before.as_ref(), under, write, node.now);
                let seen = Seen { before: before.as_ref(), after: after.as_ref(), now: node.now };
                node.ghost.wrote(under, write, told, seen)?;
                node.record = after;
                Answer::Written(told)
            }
        };
        Ok((node, answer))
    }

    /// What the caller makes of the answer.
    fn told(&self, node: &mut Node, index: usize, message: Message, answer: Answer) {
        let now = node.now;
        let worker = &mut node.workers[index];
        worker.stage = match (answer, message) {
            (Answer::Claimed(claimed), _) => match *claimed {
                Claimed::Acquired(acquired) => {
                    worker.point =
                        acquired.recovery.map_or(0, |point| u8::try_from(point.number).unwrap());
                    worker.acted = worker.point > 1;
                    worker.created = now - whole_ticks(acquired.age);
                    Stage::Holding(token(&acquired.fence))
                }
                _ => Stage::Over,
            },
            (Answer::Written(Written::FenceLost), _) => Stage::Over,
            (Answer::Written(told), Message::Write { under, write }) => match (write, told) {
                (Write::Renew { ticks: 0 } | Write::Complete, _) => Stage::Over,
                (Write::Release, Written::Ok) => Stage::Over,
                (Write::Release, _) => {
                    worker.acted = true; // Nothing is done; the rejection is its reply.
                    Stage::Holding(under)
                }
                (Write::Point(number), Written::Ok) => {
                    worker.point = number;
                    Stage::Holding(under)
                }
                _ => Stage::Holding(under),
            },
            (Answer::Written(_), Message::Claim { .. }) => unreachable!(),
        };
        if worker.stage == Stage::Over {
            worker.end();
        }
    }
}

fn ask_of(role: &Role, listed: Option<Listed>) -> Ask {
    let ask = asked(role.owner, role.body, role.marks);
    match (role.policy, listed) {
        (_, Some(Listed { life, attempt })) => {
            ask.only(&super::cell::fence(Token { life, attempt, owner: role.owner }))
        }
        (Policy::Never, _) => ask.policy(Takeover::Never),
        (Policy::Below(attempts), _) => ask.policy(Takeover::Below {
            attempts,
            younger_than: Duration::from_secs(u64::from(RETENTION)),
        }),
        (Policy::Reconciles, None) => unreachable!("a reconciler claims what it listed"),
    }
}

fn whole_ticks(age: Duration) -> u8 {
    u8::try_from(age.as_secs()).unwrap()
}
