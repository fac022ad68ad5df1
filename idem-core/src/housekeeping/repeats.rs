//! What a rerun may do again.

use crate::codec::{Codec, CodecError};
use crate::record::{Observed, State};

/// What may happen a second time when a record is removed and its key is used again.
///
/// A step's downstream call is repeated under the same downstream key when the same request comes
/// again, so a downstream that still remembers the key does nothing twice. After a
/// [generation](crate::engine::Execution::next_generation) above 0 the keys start again at 0.
#[derive(Debug)]
#[non_exhaustive]
pub enum MayRepeat {
    /// Nothing: its operation marks what began, and nothing did (R26).
    Nothing,
    /// Anything that the operation does: it does not mark what began.
    Anything,
    /// Everything after the mark "begun", these steps among it.
    Steps(Vec<RepeatedStep>),
    /// Its reply stands; the whole operation would run again.
    Completed,
    /// Anything: its recovery point cannot be read.
    Unreadable(CodecError),
}

/// A step on record that a rerun would take again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedStep {
    /// Its name.
    pub name: String,
    /// Under which generation it stands.
    pub generation: u32,
    /// Whether its result is on record; otherwise it was started, and may have been done.
    pub done: bool,
}

/// What a rerun may do again.
pub fn may_repeat(codec: &Codec, seen: &Observed) -> MayRepeat {
    let record = &seen.record;
    let recovery = match &record.state {
        State::Completed { .. } => return MayRepeat::Completed,
        State::InProgress { recovery: None, .. } if record.marks_begun => {
            return MayRepeat::Nothing;
        }
        State::InProgress { recovery: None, .. } => return MayRepeat::Anything,
        State::InProgress { recovery: Some(recovery), .. } => recovery,
    };
    match codec.decode_progress(&recovery.payload, &record.scope, &record.key) {
        Ok(progress) => {
            let steps = progress.steps().iter().map(|step| RepeatedStep {
                name: step.name().to_owned(),
                generation: step.generation(),
                done: step.result().is_some(),
            });
            MayRepeat::Steps(steps.collect())
        }
        Err(error) => MayRepeat::Unreadable(error),
    }
}
