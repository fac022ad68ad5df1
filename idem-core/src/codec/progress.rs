//! The payload of a recovery point.

use std::collections::HashSet;

use super::error::CodecError;
use super::wire::{Reader, Writer};
use crate::progress::{MAX_STEPS, Progress, Step};

/// About how many bytes the payload takes.
pub(super) fn room(progress: &Progress) -> usize {
    let steps = progress.steps().iter();
    4 + steps
        .map(|step| 13 + step.name().len() + step.result().map_or(0, |result| result.len()))
        .sum::<usize>()
}

pub(super) fn write(writer: &mut Writer, progress: &Progress) -> Result<(), CodecError> {
    writer.count(progress.steps().len(), MAX_STEPS, "steps")?;
    for step in progress.steps() {
        writer.bytes(step.name().as_bytes())?;
        writer.word(step.generation())?;
        writer.optional(step.result(), |writer, result| writer.bytes(result))?;
    }
    Ok(())
}

pub(super) fn read(reader: &mut Reader) -> Result<Progress, CodecError> {
    let count = reader.count(MAX_STEPS, "list of steps")?;
    let mut steps = Vec::new();
    for _ in 0..count {
        let name = reader.text("step name")?;
        let generation = reader.word("generation")?;
        let result = reader.optional("result", Reader::bytes)?;
        steps.push(Step::from_parts(&name, generation, result)?);
    }
    let mut names = HashSet::with_capacity(steps.len());
    if !steps.iter().all(|step| names.insert(step.name())) {
        return Err(CodecError::Malformed { part: "list of steps" });
    }
    Ok(Progress::from_steps(steps))
}
