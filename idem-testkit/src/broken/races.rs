//! Stores that read first and write later, and stores that forget who went away.

use idem_core::claim::{Acquired, Claim, Claimed};
use idem_core::error::Verb;
use idem_core::record::{Incarnation, Record, State};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Decision};

use super::BrokenStore;
use super::rules::{Async, Rules};

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "claim-reads-then-inserts",
            "looks whether the key is there, and inserts in a second step",
            "R1, R2",
            "races::one_winner",
            ReadsThenWrites(Verb::Claim),
        ),
        BrokenStore::new(
            "takeover-reads-then-writes",
            "inserts in one step, and takes over in two",
            "R2, R8",
            "races::one_taker_of_a_dead_claim",
            TakesOverInTwoSteps,
        ),
        BrokenStore::new(
            "complete-checks-then-writes",
            "checks the fence, and stores the reply in a second step",
            "R8",
            "races::complete_against_takeover",
            ReadsThenWrites(Verb::Complete),
        ),
        BrokenStore::new(
            "checkpoint-checks-then-writes",
            "checks the fence, and writes the recovery point in a second step",
            "R8",
            "races::checkpoint_against_takeover",
            ReadsThenWrites(Verb::Checkpoint),
        ),
        BrokenStore::new(
            "release-checks-then-deletes",
            "checks the fence, and deletes by key in a second step",
            "R2, R8",
            "races::release_against_takeover",
            ReadsThenWrites(Verb::Release),
        ),
        BrokenStore::new(
            "heartbeat-writes-back-the-whole-record",
            "a renewal reads the record and writes all of it back",
            "R8",
            "races::heartbeat_against_complete",
            ReadsThenWrites(Verb::Renew),
        ),
        BrokenStore::new(
            "sweep-deletes-by-key-what-it-listed",
            "a sweep lists what is over, and deletes those keys later without looking again",
            "R10, R11",
            "races::sweep_against_reclaim",
            ReadsThenWrites(Verb::Sweep),
        ),
        BrokenStore::new(
            "sweep-rebuilds-the-table",
            "a sweep takes everything out and puts back what it keeps",
            "R11",
            "races::sweep_against_replays",
            Drops(Async::SweepsByRebuilding),
        ),
        BrokenStore::new(
            "live-claims-are-joined",
            "whoever asks the same while it runs is told Acquired, under the first fence",
            "R2",
            "races::one_winner",
            JoinsLiveClaims,
        ),
        BrokenStore::new(
            "permit-lost-with-a-dropped-call",
            "a call that is dropped half-way never gives its permit back",
            "R25",
            "drops::claim",
            Drops(Async::LeaksPermits),
        )
        .hanging(),
        BrokenStore::new(
            "reply-in-two-writes",
            "marks the record completed first, and writes the reply a moment later",
            "R25",
            "drops::complete",
            Drops(Async::CompletesInTwoWrites),
        ),
    ]
}

struct ReadsThenWrites(Verb);

impl Rules for ReadsThenWrites {
    fn is_atomic(&self, verb: Verb) -> bool {
        verb != self.0
    }
}

/// Inserts in one step. A takeover is decided on what a moment ago was lapsed.
struct TakesOverInTwoSteps;

impl Rules for TakesOverInTwoSteps {
    fn is_atomic(&self, verb: Verb) -> bool {
        verb != Verb::Claim
    }

    fn is_atomic_on(&self, found: Option<&Record>) -> bool {
        found.is_none()
    }
}

struct JoinsLiveClaims;

impl Rules for JoinsLiveClaims {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut decision = transition::claim(found, claim, now, fresh);
        if let Ok(Claimed::InProgress { remaining }) = decision.outcome
            && let Some(record) = found
            && matches!(record.state, State::InProgress { .. })
        {
            let joined = Acquired::held(record.fence(), remaining, record.fingerprint);
            decision.outcome = Ok(Claimed::Acquired(joined));
        }
        decision
    }
}

struct Drops(Async);

impl Rules for Drops {
    fn asynchrony(&self) -> Async {
        self.0
    }
}
