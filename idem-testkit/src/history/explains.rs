//! Whether what a caller was told is what the rules say. Instants are left out: they are known
//! within bounds only.

use idem_core::claim::{Acquired, Claimed};
use idem_core::error::Refusal;
use idem_core::record::{Observed, Record, State as Stored};

use super::operation::Answer;

/// Whether the rules' answer is the one that was told, by `same` where both are answers.
pub(super) fn explains<T>(
    told: &Answer,
    ours: &Result<T, Refusal>,
    same: impl Fn(&Answer, &T) -> bool,
) -> bool {
    match (told, ours) {
        (Answer::Unknown, _) => true,
        (Answer::Refused(kind), Err(refusal)) => *kind == refusal.kind,
        (told, Ok(ours)) => same(told, ours),
        _ => false,
    }
}

/// The same of a claim.
pub(super) fn explains_claim(told: &Answer, ours: &Result<Claimed, Refusal>) -> bool {
    explains(told, ours, |told, ours| match (told, ours) {
        (Answer::Claimed(Claimed::Acquired(told)), Claimed::Acquired(ours)) => {
            is_same_acquisition(told, ours)
        }
        (Answer::Claimed(Claimed::InProgress { .. }), Claimed::InProgress { .. }) => true,
        (Answer::Claimed(Claimed::Lapsed(told)), Claimed::Lapsed(ours)) => {
            told.attempt == ours.attempt
        }
        (Answer::Claimed(Claimed::Completed(told)), Claimed::Completed(ours)) => {
            told.reply == ours.reply && told.fence == ours.fence
        }
        (Answer::Claimed(told), ours) => told == ours,
        _ => false,
    })
}

fn is_same_acquisition(told: &Acquired, ours: &Acquired) -> bool {
    told.fence == ours.fence
        && told.recovery == ours.recovery
        && told.input == ours.input
        && told.fingerprint == ours.fingerprint
        && told.replaced == ours.replaced
}

/// Whether a reader was shown this record, instants aside.
pub(super) fn is_same_record(told: Option<&Observed>, ours: Option<&Record>) -> bool {
    let (Some(told), Some(ours)) = (told, ours) else { return told.is_none() && ours.is_none() };
    let told = &told.record;
    let same_state = match (&told.state, &ours.state) {
        (
            Stored::InProgress { given_up, recovery, .. },
            Stored::InProgress { given_up: ours_given_up, recovery: ours_recovery, .. },
        ) => given_up == ours_given_up && recovery == ours_recovery,
        (Stored::Completed { reply, .. }, Stored::Completed { reply: ours, .. }) => reply == ours,
        _ => false,
    };
    same_state
        && told.fence() == ours.fence()
        && told.operation == ours.operation
        && told.fingerprint == ours.fingerprint
        && told.input == ours.input
        && told.retention == ours.retention
        && told.marks_begun == ours.marks_begun
}
