//! Every verb in every state, against the model: the answer and the record are the rules'.

use crate::capability::Capability;
use crate::case::Case;
use crate::context::Context;
use crate::failure::CaseResult;
use crate::model::{Bend, Kept, Lockstep, Move, Policy, Span, Which};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for verb in VERBS {
        for state in STATES {
            let name = format!("verbs::{}_when_{}", verb.name, state.name);
            let about =
                format!("{} when {}: answer and record as the rules say", verb.name, state.is);
            let run = move |cx| try_each(cx, *verb, *state);
            cases.push(Case::new(name, verb.rules, about, run).needing(verb.needs));
        }
    }
    cases
}

#[derive(Clone, Copy)]
struct Verb {
    name: &'static str,
    rules: &'static str,
    needs: &'static [Capability],
    /// Moves, each tried in a fresh copy of the state. `held` is the fence that is asked about.
    variants: fn(held: u8) -> Vec<Move>,
}

#[derive(Clone, Copy)]
struct State {
    name: &'static str,
    is: &'static str,
    /// Which acquisition's fence is asked about.
    held: u8,
    setup: fn() -> Vec<Move>,
}

/// Each variant in a scope of its own, once for the answer and once more for its repeat (R5).
async fn try_each(cx: Context, verb: Verb, state: State) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    for (index, variant) in (verb.variants)(state.held).into_iter().enumerate() {
        let lockstep = Lockstep::start(&cx, &peers, &format!("v{index}")).await?;
        let mut moves = (state.setup)();
        moves.push(variant.clone());
        moves.push(variant);
        lockstep.run(&moves).await?;
    }
    Ok(())
}

const VERBS: &[Verb] = &[
    Verb { name: "claim", rules: "R2, R4, R5, R8", needs: &[], variants: claims },
    Verb { name: "renew", rules: "R7, R8, R9", needs: &[], variants: renewals },
    Verb { name: "checkpoint", rules: "R7, R8, R9", needs: &[], variants: checkpoints },
    Verb { name: "complete", rules: "R5, R7, R8, R9", needs: &[], variants: completions },
    Verb { name: "release", rules: "R5, R8, R9, R14", needs: &[], variants: releases },
    Verb { name: "sweep", rules: "R10, R11", needs: &[], variants: sweeps },
    Verb { name: "lapsed", rules: "R10", needs: &[], variants: pages },
    Verb {
        name: "remove",
        rules: "R8, R20",
        needs: &[Capability::Admin, Capability::Isolated],
        variants: removals,
    },
    Verb {
        name: "forget",
        rules: "R10",
        needs: &[Capability::Admin, Capability::Isolated],
        variants: |_| vec![Move::Forget],
    },
];

const STATES: &[State] = &[
    State { name: "released", is: "it was released", held: 0, setup: released },
    State { name: "live", is: "it is live", held: 0, setup: live },
    State { name: "live_and_begun", is: "it is live and began", held: 0, setup: begun },
    State { name: "lapsed", is: "it is lapsed", held: 0, setup: lapsed },
    State { name: "lapsed_and_begun", is: "it began and is lapsed", held: 0, setup: lapsed_begun },
    State {
        name: "lapsed_unbegun",
        is: "it marks begun, did not and is lapsed",
        held: 0,
        setup: unbegun,
    },
    State { name: "given_up", is: "its lease was given up", held: 0, setup: given_up },
    State { name: "taken_over", is: "somebody took it over", held: 0, setup: taken_over },
    State {
        name: "taken_over_by_oneself",
        is: "it is held at attempt 2",
        held: 1,
        setup: taken_over,
    },
    State { name: "replaced", is: "another request replaced it", held: 0, setup: replaced },
    State { name: "completed", is: "it is completed", held: 0, setup: completed },
    State { name: "completed_by_a_taker", is: "a taker completed it", held: 0, setup: by_a_taker },
    State { name: "expired", is: "it is expired", held: 0, setup: expired },
    State { name: "in_a_new_life", is: "the key was claimed anew", held: 0, setup: new_life },
    State {
        name: "in_a_new_life_of_the_same_owner",
        is: "a copy of the first claim recreated it",
        held: 0,
        setup: own_new_life,
    },
];

fn claim(caller: u8, lease: Span, retention: Kept) -> Move {
    Move::Claim {
        key: 0,
        caller,
        request: 1,
        operation: false,
        marks: false,
        input: true,
        lease,
        retention,
        policy: Policy::Always,
    }
}

fn marked(caller: u8, request: u8, lease: Span) -> Move {
    Move::Claim {
        key: 0,
        caller,
        request,
        operation: false,
        marks: true,
        input: true,
        lease,
        retention: Kept::Long,
        policy: Policy::Always,
    }
}

const OWN: Which = Which::straight(0);

fn checkpoint(number: u32, lease: Span) -> Move {
    Move::Checkpoint { which: OWN, number, payload: 1, lease }
}

fn released() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::Long), Move::Release { which: OWN }]
}

fn live() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::Long)]
}

fn begun() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::Long), checkpoint(1, Span::Long)]
}

fn lapsed() -> Vec<Move> {
    vec![claim(0, Span::Brief, Kept::Long), Move::Lapse { key: 0 }]
}

fn lapsed_begun() -> Vec<Move> {
    vec![claim(0, Span::Brief, Kept::Long), checkpoint(1, Span::Brief), Move::Lapse { key: 0 }]
}

fn unbegun() -> Vec<Move> {
    vec![marked(0, 1, Span::Brief), Move::Lapse { key: 0 }]
}

fn given_up() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::Long), Move::Renew { which: OWN, lease: Span::Zero }]
}

fn taken_over() -> Vec<Move> {
    [lapsed(), vec![claim(1, Span::Long, Kept::Forever)]].concat()
}

fn replaced() -> Vec<Move> {
    [unbegun(), vec![marked(1, 2, Span::Long)]].concat()
}

fn completed() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::Long), Move::Complete { which: OWN, reply: 1 }]
}

fn by_a_taker() -> Vec<Move> {
    [taken_over(), vec![Move::Complete { which: Which::straight(1), reply: 1 }]].concat()
}

fn expired() -> Vec<Move> {
    vec![claim(0, Span::Long, Kept::NotAtAll), Move::Complete { which: OWN, reply: 1 }]
}

fn new_life() -> Vec<Move> {
    [expired(), vec![claim(1, Span::Long, Kept::Long)]].concat()
}

fn own_new_life() -> Vec<Move> {
    [expired(), vec![claim(0, Span::Long, Kept::Long)]].concat()
}

fn bent(held: u8) -> [Which; 4] {
    [Bend::Straight, Bend::Attempt, Bend::Owner, Bend::Incarnation].map(|bend| Which { held, bend })
}

fn claims(held: u8) -> Vec<Move> {
    let policies = [
        Policy::Always,
        Policy::Never,
        Policy::Below(1),
        Policy::Below(2),
        Policy::Younger(Span::Zero),
        Policy::Younger(Span::Long),
        Policy::Only(Which::straight(held)),
        Policy::Only(Which { held, bend: Bend::Attempt }),
        Policy::Only(Which { held, bend: Bend::Incarnation }),
    ];
    let mut variants = Vec::new();
    for policy in policies {
        for (caller, request, operation) in
            [(0, 1, false), (2, 1, false), (2, 2, false), (2, 1, true)]
        {
            variants.push(Move::Claim {
                key: 0,
                caller,
                request,
                operation,
                marks: true,
                input: false,
                lease: Span::Long,
                retention: Kept::Forever,
                policy,
            });
        }
    }
    variants
}

fn renewals(held: u8) -> Vec<Move> {
    let of = |lease| bent(held).map(|which| Move::Renew { which, lease });
    [of(Span::Long), of(Span::Huge), of(Span::Zero)].concat()
}

fn checkpoints(held: u8) -> Vec<Move> {
    let mut variants = Vec::new();
    for which in bent(held) {
        for (number, payload) in [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1), (u32::MAX, 1)] {
            variants.push(Move::Checkpoint { which, number, payload, lease: Span::Long });
        }
    }
    variants
}

fn completions(held: u8) -> Vec<Move> {
    let of = |reply| bent(held).map(|which| Move::Complete { which, reply });
    [of(1), of(2)].concat()
}

fn releases(held: u8) -> Vec<Move> {
    bent(held).map(|which| Move::Release { which }).to_vec()
}

fn removals(held: u8) -> Vec<Move> {
    bent(held).map(|which| Move::Remove { which }).to_vec()
}

fn sweeps(_: u8) -> Vec<Move> {
    vec![Move::Sweep { limit: 1 }, Move::Sweep { limit: 1_000 }]
}

fn pages(_: u8) -> Vec<Move> {
    vec![Move::Page { limit: 1 }, Move::Page { limit: 1_000 }]
}
