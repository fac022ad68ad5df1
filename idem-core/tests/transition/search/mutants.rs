//! The search finds the counterexample when a rule is switched off: otherwise a search that
//! finds nothing would say nothing.

use super::model::Model;
use super::rules::Mutant::{self, *};
use super::{scenarios, search};

/// Each rule that can be left out, and a word of the promise that is then broken.
const MUTANTS: &[(Mutant, &str)] = &[
    (IncarnationIgnored, "stale fence"),
    (AttemptIgnored, "stale fence"),
    (AttemptNotCounted, "two hold"),
    (ReleasedAtAnyAttempt, "freed"),
    (ReleasedAfterARecoveryPoint, "deleted"),
    (HeartbeatsShorten, "taken over before the end"),
    (HeartbeatsRevive, "came back"),
    (InProgressSwept, "swept"),
    (OwnClaimKeepsItsLease, "over when it was given"),
    (RecoveryPointsNotNumbered, "moved back"),
    (OnlyIgnoresIncarnation, "did not list"),
    (OnlyInserts, "did not list"),
    (BegunIsReplaced, "what began was replaced"),
    (RequestsNotCompared, "another request got this reply"),
    (NeverIgnored, "held"),
    (MarkOutlivesTakeover, "freed"),
    (ActsBeforeItBegan, "freed"),
    (ActsAtAnyAge, "past its window"),
    (ReconcilesWhatNeverBegan, "never began"),
];

#[test]
fn each_rule_that_is_left_out_breaks_its_promise() {
    for (mutant, word) in MUTANTS {
        let violation = scenarios::all()
            .iter()
            .find_map(|scenario| search(&Model::of(scenario, Some(*mutant))).violation)
            .unwrap_or_else(|| panic!("{mutant:?}: no scenario shows what it breaks"));
        println!("{mutant:?}: {violation}");
        assert!(violation.broken.contains(word), "{mutant:?} breaks something else: {violation}");
    }
}
