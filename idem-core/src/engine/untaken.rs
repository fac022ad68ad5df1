//! Steps on record that a resumed execution has not come to.
//!
//! An attempt skips the steps that an earlier one has done. Where the handler was changed in
//! between, such a step may have another name by now, or be gone: what is then run under the new
//! name would act a second time. So nothing new is done, and no reply is stored, while a step on
//! record was not asked for.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::progress::Progress;

/// Steps of one handler may run side by side: so long one waits for the others to be asked for.
const SIDE_BY_SIDE: Duration = Duration::from_secs(1);

/// The steps on record do not go with the handler: it was changed while the record was under way.
///
/// Nothing was done on a guess. The record stays as it is until a release knows its steps again,
/// or a person settles it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepsChanged {
    /// The handler went on, or ended, without steps that an earlier attempt has taken.
    #[error("the handler did not come to steps that are on record: {}", steps.join(", "))]
    NotTaken {
        /// Their names.
        steps: Vec<String>,
    },
    /// The result of a step is on record, and not of the type that the handler wants.
    #[error("the result on record of the step {step} is not of the type that is asked for")]
    OtherResult {
        /// Its name.
        step: String,
    },
}

pub(super) struct Untaken(watch::Sender<Vec<String>>);

impl Untaken {
    pub(super) fn of(progress: &Progress) -> Self {
        let steps = progress.steps().iter().map(|step| step.name().to_owned());
        Self(watch::Sender::new(steps.collect()))
    }

    /// The handler has come to this step.
    pub(super) fn take(&self, name: &str) {
        self.0.send_if_modified(|steps| {
            let before = steps.len();
            steps.retain(|step| step != name);
            steps.len() < before
        });
    }

    /// Whether the handler has come to all of them.
    pub(super) fn check(&self) -> Result<(), StepsChanged> {
        match &*self.0.borrow() {
            steps if steps.is_empty() => Ok(()),
            steps => Err(StepsChanged::NotTaken { steps: steps.clone() }),
        }
    }

    /// As [`check`](Self::check), once those that run side by side had their turn.
    pub(super) async fn check_before_acting(&self) -> Result<(), StepsChanged> {
        let mut steps = self.0.subscribe();
        // What it waited for is looked at below.
        let _ = timeout(SIDE_BY_SIDE, steps.wait_for(Vec::is_empty)).await;
        self.check()
    }
}
