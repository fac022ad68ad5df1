//! Random requests over a network that may deliver any of them again, at any later time. A lost
//! request is one that a sequence does not hold; a lost reply is one that nobody looks at.

use std::time::Duration;

use idem_core::claim::{Claimed, Takeover};
use idem_core::record::Fence;
use proptest::prelude::*;

use crate::judge::{Judge, Seen};
use crate::world::{Ask, LEASE, RETENTION, SECOND, World, ask, point};

/// What happens next. Numbers choose among what there is by then.
#[derive(Debug, Clone)]
enum Step {
    Claim {
        owner: u8,
        body: u8,
        marks: bool,
        policy: usize,
    },
    Write {
        fence: usize,
        write: Write,
    },
    /// A copy of an earlier request arrives.
    Again {
        request: usize,
    },
    Pass {
        seconds: u16,
    },
    ClockBack {
        seconds: u16,
    },
    Sweep,
}

#[derive(Debug, Clone)]
enum Write {
    Renew { seconds: u64 },
    Checkpoint { number: u32, text: &'static str },
    Complete { reply: &'static str },
    Release,
}

#[derive(Debug, Clone)]
enum Request {
    Claim(Ask),
    Write(Fence, Write),
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        (0..20_u64).prop_map(|seconds| Write::Renew { seconds }),
        (0..4_u32, prop_oneof![Just("x"), Just("y")])
            .prop_map(|(number, text)| Write::Checkpoint { number, text }),
        prop_oneof![Just("ok"), Just("no")].prop_map(|reply| Write::Complete { reply }),
        Just(Write::Release),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let claim = (0..4_u8, 1..3_u8, any::<bool>(), 0..4_usize)
        .prop_map(|(owner, body, marks, policy)| Step::Claim { owner, body, marks, policy });
    let write = (any::<usize>(), write()).prop_map(|(fence, write)| Step::Write { fence, write });
    prop_oneof![
        4 => claim,
        6 => write,
        4 => any::<usize>().prop_map(|request| Step::Again { request }),
        3 => (1..=10_u16).prop_map(|seconds| Step::Pass { seconds }),
        1 => Just(Step::Pass { seconds: 100 }),
        1 => (1..30_u16).prop_map(|seconds| Step::ClockBack { seconds }),
        1 => Just(Step::Sweep),
    ]
}

/// Everything that was ever sent, and every fence that was ever won.
#[derive(Default)]
struct Network {
    sent: Vec<Request>,
    fences: Vec<Fence>,
    judge: Judge,
}

impl Network {
    fn take(&mut self, world: &mut World, step: &Step) {
        match step {
            Step::Claim { owner, body, marks, policy } => {
                let mut ask = ask(*owner).body(*body).policy(self.policy(*policy));
                ask.marks_begun = *marks;
                self.send(world, Request::Claim(ask));
            }
            Step::Write { fence, write } => {
                if let Some(fence) = choose(&self.fences, *fence) {
                    self.send(world, Request::Write(fence, write.clone()));
                }
            }
            Step::Again { request } => {
                if let Some(request) = choose(&self.sent, *request) {
                    self.deliver(world, &request);
                }
            }
            Step::Pass { seconds } => world.pass(SECOND * u32::from(*seconds)),
            Step::ClockBack { seconds } => world.step_back(SECOND * u32::from(*seconds)),
            Step::Sweep => {
                let before = world.record.clone();
                world.sweep();
                let seen = seen(before.as_ref(), world);
                self.judge.after_any(&seen);
            }
        }
    }

    fn policy(&self, policy: usize) -> Takeover {
        match (policy, self.fences.last()) {
            (0, _) => Takeover::Never,
            (1, Some(listed)) => ask(0).only(listed).takeover,
            (2, _) => Takeover::Below { attempts: 3, younger_than: RETENTION },
            _ => Takeover::Below { attempts: 2, younger_than: LEASE * 2 },
        }
    }

    fn send(&mut self, world: &mut World, request: Request) {
        self.deliver(world, &request);
        self.sent.push(request);
    }

    fn deliver(&mut self, world: &mut World, request: &Request) {
        let before = world.record.clone();
        match request {
            Request::Claim(ask) => {
                let answer = world.claim(ask);
                self.judge.after_claim(ask, &answer, &seen(before.as_ref(), world));
                if let Ok(Claimed::Acquired(acquired)) = answer
                    && !self.fences.contains(&acquired.fence)
                {
                    self.fences.push(acquired.fence);
                }
            }
            Request::Write(fence, write) => {
                let prolongs = apply(world, fence, write);
                let seen = seen(before.as_ref(), world);
                if prolongs {
                    self.judge.after_prolonging(fence, &seen);
                } else {
                    self.judge.after_write(fence, &seen);
                }
            }
        }
    }
}

/// Serves a write; says whether it is one that may only prolong the lease.
fn apply(world: &mut World, fence: &Fence, write: &Write) -> bool {
    match write {
        Write::Renew { seconds } => {
            let _ = world.renew(fence, Duration::from_secs(*seconds));
            *seconds > 0
        }
        Write::Checkpoint { number, text } => {
            let _ = world.checkpoint(fence, &point(*number, text));
            true
        }
        Write::Complete { reply } => {
            let _ = world.complete(fence, reply);
            false
        }
        Write::Release => {
            let _ = world.release(fence);
            false
        }
    }
}

fn seen<'a>(before: Option<&'a idem_core::record::Record>, world: &'a World) -> Seen<'a> {
    Seen { before, after: world.record.as_ref(), now: world.now }
}

fn choose<T: Clone>(from: &[T], number: usize) -> Option<T> {
    from.get(number.checked_rem(from.len())?).cloned()
}

proptest! {
    // A failure prints the shortest sequence; it needs no file of seeds beside the source.
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_that_arrives_late_breaks_a_promise(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut world = World::new();
        let mut network = Network::default();
        for step in &steps {
            network.take(&mut world, step);
        }
    }
}
