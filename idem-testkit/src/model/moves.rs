//! The moves of a random run: verbs on a few keys, by names that survive shrinking.

use std::time::Duration;

use idem_core::record::Retention;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::ask::{KEPT, LONG};

/// One thing to do. Indexes are taken modulo what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Move {
    Claim {
        key: u8,
        caller: u8,
        request: u8,
        operation: bool,
        marks: bool,
        input: bool,
        lease: Span,
        retention: Kept,
        policy: Policy,
    },
    Renew {
        which: Which,
        lease: Span,
    },
    Checkpoint {
        which: Which,
        number: u32,
        payload: u8,
        lease: Span,
    },
    Complete {
        which: Which,
        reply: u8,
    },
    Release {
        which: Which,
    },
    Remove {
        which: Which,
    },
    Forget,
    Sweep {
        limit: u32,
    },
    Page {
        limit: u32,
    },
    Pass {
        time: Span,
    },
    /// Waits until the leases that are brief are over.
    Lapse {
        key: u8,
    },
}

/// The fence of an earlier acquisition, and how it is falsified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Which {
    pub(crate) held: u8,
    pub(crate) bend: Bend,
}

impl Which {
    /// The fence of acquisition number `held`, as it is.
    pub(crate) const fn straight(held: u8) -> Self {
        Self { held, bend: Bend::Straight }
    }
}

/// What is changed in a fence before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bend {
    Straight,
    Attempt,
    Owner,
    Incarnation,
}

/// A duration by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    Zero,
    Micro,
    Brief,
    Long,
    Huge,
}

impl Span {
    /// On a clock that is stepped.
    pub(crate) fn duration(self, brief: Duration) -> Duration {
        match self {
            Self::Zero => Duration::ZERO,
            Self::Micro => Duration::from_nanos(1_000_500),
            Self::Brief => brief,
            Self::Long => LONG,
            Self::Huge => Duration::MAX,
        }
    }
}

/// How long a reply is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    NotAtAll,
    Brief,
    BriefAtLeast,
    Long,
    Forever,
}

impl Kept {
    pub(crate) fn retention(self, brief: Duration) -> Retention {
        match self {
            Self::NotAtAll => Retention::of(Duration::ZERO),
            Self::Brief => Retention::of(brief),
            Self::BriefAtLeast => Retention::at_least(Duration::ZERO, brief),
            Self::Long => Retention::of(KEPT),
            Self::Forever => Retention::Forever,
        }
    }
}

/// What a claim does about a lapsed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Never,
    Always,
    Below(u32),
    Younger(Span),
    /// Names the incarnation and attempt of an earlier acquisition.
    Only(Which),
}

/// Sequences of moves. On real time only those whose outcome does not depend on how fast the
/// test runs: leases end by being given up, and replies expire at once or not at all.
pub(crate) fn sequences(stepped: bool, length: usize) -> impl Strategy<Value = Vec<Move>> {
    vec(one(stepped), 1..length)
}

fn one(stepped: bool) -> impl Strategy<Value = Move> {
    let pass = if stepped { 4 } else { 0 };
    let always = prop_oneof![
        10 => claim(stepped),
        3 => (which(), lease(stepped)).prop_map(|(which, lease)| Move::Renew { which, lease }),
        2 => which().prop_map(|which| Move::Renew { which, lease: Span::Zero }),
        5 => (which(), 0..4_u32, 0..3_u8, lease(stepped)).prop_map(
            |(which, number, payload, lease)| Move::Checkpoint { which, number, payload, lease }
        ),
        4 => (which(), 0..3_u8).prop_map(|(which, reply)| Move::Complete { which, reply }),
        2 => which().prop_map(|which| Move::Release { which }),
        1 => which().prop_map(|which| Move::Remove { which }),
        1 => prop_oneof![Just(1), Just(2), Just(1_000)].prop_map(|limit| Move::Sweep { limit }),
        1 => (1..4_u32).prop_map(|limit| Move::Page { limit }),
        1 => Just(Move::Forget),
    ];
    if pass == 0 {
        return always.boxed();
    }
    let time = prop_oneof![Just(Span::Micro), Just(Span::Brief), Just(Span::Long)];
    prop_oneof![6 => always, 1 => time.prop_map(|time| Move::Pass { time })].boxed()
}

fn claim(stepped: bool) -> impl Strategy<Value = Move> {
    let who = (0..3_u8, 0..4_u8, 0..4_u8, any::<bool>(), any::<bool>(), any::<bool>());
    (who, lease(stepped), retention(stepped), policy(stepped)).prop_map(
        |((key, caller, request, operation, marks, input), lease, retention, policy)| {
            Move::Claim {
                key,
                caller,
                // Most callers under a key ask for the same.
                request: request.saturating_sub(2),
                operation: operation && request == 3,
                marks,
                input,
                lease,
                retention,
                policy,
            }
        },
    )
}

fn which() -> impl Strategy<Value = Which> {
    let bend = prop_oneof![
        6 => Just(Bend::Straight),
        1 => Just(Bend::Attempt),
        1 => Just(Bend::Owner),
        1 => Just(Bend::Incarnation),
    ];
    (any::<u8>(), bend).prop_map(|(held, bend)| Which { held, bend })
}

fn lease(stepped: bool) -> impl Strategy<Value = Span> {
    if stepped {
        let spans = [Span::Zero, Span::Micro, Span::Brief, Span::Long, Span::Huge];
        proptest::sample::select(spans.to_vec())
    } else {
        proptest::sample::select(vec![Span::Long, Span::Huge])
    }
}

fn retention(stepped: bool) -> impl Strategy<Value = Kept> {
    if stepped {
        let kept = [Kept::NotAtAll, Kept::Brief, Kept::BriefAtLeast, Kept::Long, Kept::Forever];
        proptest::sample::select(kept.to_vec())
    } else {
        proptest::sample::select(vec![Kept::NotAtAll, Kept::Long, Kept::Forever])
    }
}

fn policy(stepped: bool) -> impl Strategy<Value = Policy> {
    let ages = if stepped {
        vec![Span::Zero, Span::Brief, Span::Long, Span::Huge]
    } else {
        vec![Span::Zero, Span::Long, Span::Huge]
    };
    prop_oneof![
        2 => Just(Policy::Never),
        4 => Just(Policy::Always),
        2 => (0..4_u32).prop_map(Policy::Below),
        1 => proptest::sample::select(ages).prop_map(Policy::Younger),
        2 => which().prop_map(Policy::Only),
    ]
}
