//! A store and the model, move by move.

use idem_core::admin::{Admin, Filter};
use idem_core::claim::Takeover;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Owner};
use idem_core::store::{MAX_PAGE, Store};
use idem_core::time::{MAX_DURATION, Timestamp};

use super::compare::Compare;
use super::{Bend, Model, Move, Policy, Span, Which};
use crate::ask::{ALWAYS, Ask, print, recovery, sealed};
use crate::capability::Capability;
use crate::context::{Context, acquire, key, present};
use crate::failure::{CaseResult, Failure, equal, that};
use crate::listing::{lapsed_of, locked_until, sweep_all};
use crate::peer::Peer;

/// Runs moves on both, and compares every answer and every record.
pub(crate) struct Lockstep {
    cx: Context,
    peers: Vec<Peer>,
    model: Model,
    compare: Compare,
    scope: Scope,
    owners: Vec<Owner>,
    /// The store's fences, in the order of their acquisition.
    held: Vec<Fence>,
    /// Nobody else's records are in the store, and this one's can be taken out again.
    alone: bool,
    moves: usize,
}

impl Lockstep {
    /// With an empty scope of its own, called `label`.
    pub(crate) async fn start(cx: &Context, peers: &[Peer], label: &str) -> Result<Self, Failure> {
        let exact = cx.steps_clock();
        let now = if exact { now(cx, &peers[0]).await? } else { Timestamp::from_unix_micros(0) };
        let has = |capability| cx.capabilities().has(capability);
        Ok(Self {
            cx: cx.clone(),
            peers: peers.to_vec(),
            model: Model::at(now),
            compare: Compare::new(exact),
            scope: cx.scope(label),
            owners: (0..4).map(|_| cx.owner()).collect(),
            held: Vec::new(),
            alone: has(Capability::Isolated) && has(Capability::Admin),
            moves: 0,
        })
    }

    /// Runs all of `moves`, and takes the records out of the store again.
    pub(crate) async fn run(mut self, moves: &[Move]) -> CaseResult {
        let mut result = Ok(());
        for (index, step) in moves.iter().enumerate() {
            result = self
                .step(step)
                .await
                .map_err(|failure| failure.at(format_args!("move {} of {moves:?}", index + 1)));
            if result.is_err() {
                break;
            }
        }
        result.and(self.finish().await)
    }

    /// Runs one move.
    pub(crate) async fn step(&mut self, step: &Move) -> CaseResult {
        self.moves += 1;
        // The connections take turns: none of them may know more than the store.
        let peer = self.peers[self.moves % self.peers.len()].clone();
        match *step {
            Move::Claim { key, .. } => {
                let ask = self.ask(step);
                let store = peer.claim(&ask.claim()).await;
                let mut of_model = ask.clone();
                if let Takeover::Only { incarnation, attempt, younger_than } = ask.takeover {
                    let incarnation = self.incarnation_in_model(incarnation);
                    of_model.takeover = Takeover::Only { incarnation, attempt, younger_than };
                }
                let model = self.model.claim(&of_model.claim());
                if let Some(held) = self.compare.claimed(store, model)? {
                    self.held.push(held.fence);
                }
                self.check(&peer, key).await
            }
            Move::Renew { which, lease } => {
                let Some((fence, of_model)) = self.fence(which) else { return Ok(()) };
                let lease = lease.duration(self.cx.brief());
                let store = peer.renew(&fence, lease).await;
                self.compare.renewed(store, self.model.renew(&of_model, lease))?;
                self.check_fence(&peer, &fence).await
            }
            Move::Checkpoint { which, number, payload, lease } => {
                let Some((fence, of_model)) = self.fence(which) else { return Ok(()) };
                let (point, lease) = (recovery(number, [payload]), lease.duration(self.cx.brief()));
                let store = peer.checkpoint(&fence, &point, lease).await;
                self.compare.leased(store, self.model.checkpoint(&of_model, &point, lease))?;
                self.check_fence(&peer, &fence).await
            }
            Move::Complete { which, reply } => {
                let Some((fence, of_model)) = self.fence(which) else { return Ok(()) };
                let reply = sealed([reply]);
                let store = peer.complete(&fence, &reply).await;
                self.compare.done(store, self.model.complete(&of_model, &reply))?;
                self.check_fence(&peer, &fence).await
            }
            Move::Release { which } => {
                let Some((fence, of_model)) = self.fence(which) else { return Ok(()) };
                let store = peer.release(&fence).await;
                self.compare.done(store, self.model.release(&of_model))?;
                self.check_fence(&peer, &fence).await
            }
            Move::Remove { which } => self.remove(&peer, which).await,
            Move::Forget => self.forget(&peer).await,
            Move::Sweep { limit } => self.sweep(&peer, limit).await,
            Move::Page { limit } => self.page(&peer, limit).await,
            Move::Pass { time } => self.pass(time).await,
            Move::Lapse { key: number } => {
                let ask = Ask::new(self.scope.clone(), label(number), self.owners[0]);
                if self.compare.exact {
                    return self.pass(Span::Brief).await;
                }
                self.cx.lapse(&peer, &ask).await?;
                self.model.pass(self.cx.brief());
                Ok(())
            }
        }
    }

    async fn pass(&mut self, time: Span) -> CaseResult {
        let time = time.duration(self.cx.brief());
        self.model.pass(time);
        self.cx.pass(time).await
    }

    fn ask(&self, step: &Move) -> Ask {
        let &Move::Claim {
            key,
            caller,
            request,
            operation,
            marks,
            input,
            lease,
            retention,
            policy,
        } = step
        else {
            unreachable!("only a claim asks");
        };
        let owner = self.owners[usize::from(caller) % self.owners.len()];
        let mut ask = Ask::new(self.scope.clone(), label(key), owner)
            .print(print(request))
            .lease(lease.duration(self.cx.brief()))
            .retention(retention.retention(self.cx.brief()))
            .takeover(self.policy(policy));
        if operation {
            ask = ask.operation("refund");
        }
        if input {
            ask = ask.input([caller]);
        }
        ask.marks_begun = marks;
        ask
    }

    fn policy(&self, policy: Policy) -> Takeover {
        let below = |attempts, younger_than| Takeover::Below { attempts, younger_than };
        match policy {
            Policy::Never => Takeover::Never,
            Policy::Always => ALWAYS,
            Policy::Below(attempts) => below(attempts, MAX_DURATION),
            Policy::Younger(span) => below(u32::MAX, span.duration(self.cx.brief())),
            Policy::Only(which) => {
                let nothing = (Incarnation::from_bytes([0; 16]), 1);
                let (incarnation, attempt) = self
                    .fence(which)
                    .map_or(nothing, |(fence, _)| (fence.incarnation, fence.attempt));
                Takeover::Only { incarnation, attempt, younger_than: None }
            }
        }
    }

    /// A fence that was held, bent as it is asked, as the store and as the model know it.
    fn fence(&self, which: Which) -> Option<(Fence, Fence)> {
        if self.held.is_empty() {
            return None;
        }
        let mut fence = self.held[usize::from(which.held) % self.held.len()].clone();
        match which.bend {
            Bend::Straight => {}
            Bend::Attempt => fence.attempt += 1,
            Bend::Owner => fence.owner = Owner::from_bytes([0xee; 16]),
            Bend::Incarnation => fence.incarnation = Incarnation::from_bytes([0xee; 16]),
        }
        let of_model = self.compare.to_model(&fence);
        Some((fence, of_model))
    }

    fn incarnation_in_model(&self, incarnation: Incarnation) -> Incarnation {
        let fence = Fence {
            scope: self.scope.clone(),
            key: label(0),
            incarnation,
            attempt: 1,
            owner: self.owners[0],
        };
        self.compare.to_model(&fence).incarnation
    }

    async fn remove(&mut self, peer: &Peer, which: Which) -> CaseResult {
        let Some((fence, of_model)) = self.fence(which) else { return Ok(()) };
        if !self.alone {
            return Ok(());
        }
        // An expired record that was not swept yet may still be there for the store alone: the
        // answer is only known where a reader sees the record.
        let known = self.model.get(&fence.scope, &fence.key).is_some();
        let store = peer.admin()?.remove(&fence).await;
        let model = self.model.remove(&of_model);
        if known {
            self.compare.done(store, model)?;
        }
        self.check_fence(peer, &fence).await
    }

    async fn forget(&mut self, peer: &Peer) -> CaseResult {
        if !self.alone {
            return Ok(());
        }
        let forgotten = peer.admin()?.forget(&self.scope, MAX_PAGE).await?;
        let (visible, in_progress) = self.model.forget(&self.scope);
        equal("what is in progress", forgotten.in_progress, in_progress)?;
        that(forgotten.deleted >= visible, "every reply to be forgotten", forgotten)?;
        self.check_all(peer).await
    }

    async fn sweep(&mut self, peer: &Peer, limit: u32) -> CaseResult {
        let deleted = sweep_all(peer, limit).await?;
        let expected = self.model.sweep();
        if self.alone {
            equal("how many were swept", deleted, expected)?;
        }
        self.check_all(peer).await
    }

    async fn page(&mut self, peer: &Peer, limit: u32) -> CaseResult {
        let seen = lapsed_of(peer, &self.scope, limit).await?;
        let mut expected = self.model.lapsed();
        expected.sort_by_key(|record| (locked_until(record), record.key.clone()));
        if self.compare.exact {
            let seen: Vec<&[u8]> = seen.iter().map(|seen| seen.record.key.as_bytes()).collect();
            let expected: Vec<&[u8]> =
                expected.iter().map(|record| record.key.as_bytes()).collect();
            return equal("the lapsed keys, oldest lease first", seen, expected);
        }
        equal("how many are lapsed", seen.len(), expected.len())
    }

    async fn check(&self, peer: &Peer, number: u8) -> CaseResult {
        let key = label(number);
        let seen = peer.get(&self.scope, &key).await?;
        if self.compare.exact && seen.as_ref().is_some_and(|seen| seen.now != self.model.now) {
            let stands = format!("{:?}", seen.map(|seen| seen.now));
            return Err(Failure::new(
                format!("the clock to stand at {:?}", self.model.now),
                stands,
            ));
        }
        let seen = seen.as_ref().map(|seen| &seen.record);
        self.compare.record(seen, self.model.get(&self.scope, &key))
    }

    async fn check_fence(&self, peer: &Peer, fence: &Fence) -> CaseResult {
        let seen = peer.get(&fence.scope, &fence.key).await?;
        let seen = seen.as_ref().map(|seen| &seen.record);
        self.compare.record(seen, self.model.get(&fence.scope, &fence.key))
    }

    async fn check_all(&self, peer: &Peer) -> CaseResult {
        for number in 0..KEYS {
            self.check(peer, number).await?;
        }
        Ok(())
    }

    /// Empties the scope, so that the next run in this store starts from nothing.
    async fn finish(self) -> CaseResult {
        if !self.alone {
            return Ok(());
        }
        let admin = self.peers[0].admin()?;
        let page = admin.list(&Filter::all().scope(self.scope.clone()), None, MAX_PAGE).await?;
        let expected = self.model.visible().count();
        for seen in &page.records {
            admin.remove(&seen.record.fence()).await?;
        }
        sweep_all(&self.peers[0], MAX_PAGE).await?;
        equal("how many records are listed", page.records.len(), expected)
    }
}

/// How many keys the moves are about.
const KEYS: u8 = 3;

fn label(number: u8) -> Key {
    key(&format!("k{}", number % KEYS))
}

/// The store's time, off a record that is taken away again.
async fn now(cx: &Context, peer: &Peer) -> Result<Timestamp, Failure> {
    let ask = Ask::new(cx.scope("now"), key("now"), cx.owner());
    let held = acquire(peer, &ask).await?;
    let now = present(peer, &ask).await?.now;
    peer.release(&held.fence).await?;
    Ok(now)
}
