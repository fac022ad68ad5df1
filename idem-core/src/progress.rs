//! How far an execution got: the content of a record's recovery point.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{Label, LabelError, check_text};

/// The most steps that one execution may have.
pub const MAX_STEPS: usize = 1_000;

/// The recovery point of an execution: that it began (a progress exists at all, R26), and its
/// steps in the order in which they were started.
///
/// A progress is a value: what adds to it returns a new one, so that a checkpoint which fails
/// leaves nothing to undo.
///
/// ```
/// use idem_core::progress::Progress;
///
/// let begun = Progress::begun();
/// let failed_once = begun.with_generation("charge", 1)?;
/// let charged = failed_once.with_result("charge", 1, "ch_7")?;
/// assert_eq!(charged.step("charge").unwrap().result().unwrap(), "ch_7");
/// assert!(begun.step("charge").is_none());
/// # Ok::<(), idem_core::progress::ProgressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    steps: Vec<Step>,
}

impl Progress {
    /// The execution began, and no step of it was started.
    pub fn begun() -> Self {
        Self::default()
    }

    /// The steps in the order in which they were started.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step of this name, where it was started.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name() == name)
    }

    /// This progress with the step standing at `generation`, not done.
    ///
    /// A generation is checkpointed before it is used: one that was kept in memory only would be
    /// forgotten by a crash, and the next attempt would call the downstream under an older key
    /// (R20).
    ///
    /// # Errors
    /// [`ProgressError`] when the name is not 1 to 255 bytes, the step is done or stands at a
    /// later generation, or there are too many steps.
    pub fn with_generation(&self, name: &str, generation: u32) -> Result<Self, ProgressError> {
        let (mut next, at) = self.with_step(name)?;
        let step = &mut next.steps[at];
        if step.result.is_some() {
            return Err(ProgressError::StepDone);
        }
        if generation < step.generation {
            return Err(ProgressError::GenerationWentBack {
                stands: step.generation,
                asked: generation,
            });
        }
        step.generation = generation;
        Ok(next)
    }

    /// This progress with the step done under `generation`, with this result. Saying the same
    /// again changes nothing.
    ///
    /// # Errors
    /// [`ProgressError`] when the name is not 1 to 255 bytes, the step does not stand at
    /// `generation` (a step that was not started stands at 0), it is done with another result,
    /// or there are too many steps.
    pub fn with_result(
        &self,
        name: &str,
        generation: u32,
        result: impl Into<Bytes>,
    ) -> Result<Self, ProgressError> {
        let (mut next, at) = self.with_step(name)?;
        let step = &mut next.steps[at];
        if step.generation != generation {
            return Err(ProgressError::OtherGeneration {
                stands: step.generation,
                asked: generation,
            });
        }
        let result = result.into();
        match &step.result {
            Some(stored) if *stored != result => return Err(ProgressError::StepDone),
            _ => step.result = Some(result),
        }
        Ok(next)
    }

    /// A copy that has the step, and where it stands.
    fn with_step(&self, name: &str) -> Result<(Self, usize), ProgressError> {
        check_text(Label::Step, name)?;
        let mut next = self.clone();
        let at = match self.steps.iter().position(|step| step.name() == name) {
            Some(at) => at,
            None if self.steps.len() >= MAX_STEPS => return Err(ProgressError::TooManySteps),
            None => {
                next.steps.push(Step { name: name.into(), generation: 0, result: None });
                self.steps.len()
            }
        };
        Ok((next, at))
    }

    /// From steps that the codec has read and checked.
    pub(crate) fn from_steps(steps: Vec<Step>) -> Self {
        Self { steps }
    }
}

/// One step of an execution.
///
/// `Debug` shows the size of the result only (R24).
#[derive(Clone, PartialEq, Eq)]
pub struct Step {
    name: Arc<str>,
    generation: u32,
    result: Option<Bytes>,
}

impl Step {
    /// Its name, 1 to 255 bytes, once in a progress.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which try, after definite failures of the downstream, it stands at; 0 is the first.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What it gave, or `None` while it was started and is not done.
    pub fn result(&self) -> Option<&Bytes> {
        self.result.as_ref()
    }

    pub(crate) fn from_parts(
        name: &str,
        generation: u32,
        result: Option<Bytes>,
    ) -> Result<Self, LabelError> {
        check_text(Label::Step, name)?;
        Ok(Self { name: name.into(), generation, result })
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("name", &self.name)
            .field("generation", &self.generation)
            .field("result_bytes", &self.result.as_ref().map(Bytes::len))
            .finish()
    }
}

/// Why a progress was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// The step's name is empty or too long.
    #[error(transparent)]
    Name(#[from] LabelError),
    /// The step is done, and what was asked would change that.
    #[error("the step is done")]
    StepDone,
    /// A generation never goes back.
    #[error("the step stands at generation {stands}, which is later than {asked}")]
    GenerationWentBack {
        /// Where it stands.
        stands: u32,
        /// What was asked.
        asked: u32,
    },
    /// A result of a generation that is not the one on record.
    #[error("the step stands at generation {stands}, not {asked}")]
    OtherGeneration {
        /// Where it stands.
        stands: u32,
        /// What was asked.
        asked: u32,
    },
    /// One more step than [`MAX_STEPS`].
    #[error("an execution may have at most {MAX_STEPS} steps")]
    TooManySteps,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_the_order_in_which_they_were_started() {
        let progress = Progress::begun()
            .with_generation("ship", 0)
            .and_then(|progress| progress.with_result("charge", 0, "ch_1"))
            .and_then(|progress| progress.with_result("ship", 0, ""))
            .unwrap();
        let names: Vec<_> = progress.steps().iter().map(Step::name).collect();
        assert_eq!(names, ["ship", "charge"]);
        assert_eq!(progress.step("ship").unwrap().result().unwrap(), "");
        assert_eq!(progress.step("Ship"), None);
    }

    #[test]
    fn a_result_needs_its_generation_on_record() {
        let begun = Progress::begun();
        let error = begun.with_result("charge", 1, "ch").unwrap_err();
        assert_eq!(error, ProgressError::OtherGeneration { stands: 0, asked: 1 });
        let second = begun.with_generation("charge", 1).unwrap();
        let error = second.with_result("charge", 0, "ch").unwrap_err();
        assert_eq!(error, ProgressError::OtherGeneration { stands: 1, asked: 0 });
        assert!(second.with_result("charge", 1, "ch").is_ok());
    }

    #[test]
    fn a_generation_never_goes_back_and_a_done_step_stays_done() {
        let third = Progress::begun().with_generation("charge", 2).unwrap();
        let error = third.with_generation("charge", 1).unwrap_err();
        assert_eq!(error, ProgressError::GenerationWentBack { stands: 2, asked: 1 });
        assert_eq!(third.with_generation("charge", 2).unwrap(), third);

        let done = third.with_result("charge", 2, "ch").unwrap();
        assert_eq!(done.with_generation("charge", 3).unwrap_err(), ProgressError::StepDone);
        assert_eq!(done.with_result("charge", 2, "x").unwrap_err(), ProgressError::StepDone);
        assert_eq!(done.with_result("charge", 2, "ch").unwrap(), done);
    }

    #[test]
    fn steps_and_names_are_bounded() {
        let mut progress = Progress::begun();
        for step in 0..MAX_STEPS {
            progress = progress.with_generation(&step.to_string(), 0).unwrap();
        }
        let error = progress.with_result("one more", 0, "").unwrap_err();
        assert_eq!(error, ProgressError::TooManySteps);
        assert!(progress.with_result("999", 0, "").is_ok());
        for bad in [String::new(), "s".repeat(256)] {
            let error = Progress::begun().with_generation(&bad, 0).unwrap_err();
            assert!(matches!(error, ProgressError::Name(_)));
        }
    }

    #[test]
    fn debug_shows_no_result() {
        let progress = Progress::begun().with_result("charge", 0, "hunter2").unwrap();
        let shown = format!("{progress:?}");
        assert!(!shown.contains("hunter2") && shown.contains("result_bytes: Some(7)"), "{shown}");
    }
}
