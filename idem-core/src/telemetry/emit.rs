//! Emitting: one function for each thing that happens, so that no caller spells a name.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{counter, gauge, histogram};

use super::*;
use crate::claim::Claimed;
use crate::error::StoreError;
use crate::housekeeping::Reconciled;
use crate::operation::Operation;
use crate::store::Swept;

/// A call was answered.
pub(crate) fn answered(operation: &Operation, outcome: &'static str, took: Duration) {
    counter!(CALLS, OPERATION => label(operation), OUTCOME => outcome).increment(1);
    histogram!(CALL_DURATION, OPERATION => label(operation), OUTCOME => outcome).record(took);
}

/// What the store made of a claim.
pub(crate) fn claim_answer(claimed: Option<&Claimed>) -> &'static str {
    let Some(claimed) = claimed else { return "failed" };
    match claimed {
        Claimed::Acquired(acquired) if acquired.fence.attempt > 1 => "taken_over",
        Claimed::Acquired(_) => "acquired",
        Claimed::InProgress { .. } => "in_progress",
        Claimed::Lapsed(_) => "lapsed",
        Claimed::Completed(_) => "completed",
        Claimed::Mismatch { .. } => "mismatch",
        Claimed::Gone => "gone",
    }
}

/// A claim was answered, or failed.
pub(crate) fn claimed(operation: &Operation, claimed: Option<&Claimed>, took: Duration) {
    let answer = claim_answer(claimed);
    counter!(CLAIMS, OPERATION => label(operation), ANSWER => answer).increment(1);
    histogram!(CLAIM_DURATION, OPERATION => label(operation)).record(took);
    if let Some(Claimed::Acquired(acquired)) = claimed {
        if acquired.fence.attempt > 1 {
            counter!(TAKEOVERS, OPERATION => label(operation)).increment(1);
        }
        if acquired.replaced {
            counter!(CLAIMS_REPLACED, OPERATION => label(operation)).increment(1);
        }
    }
}

/// A handler ended.
pub(crate) fn handled(operation: &Operation, end: &'static str, took: Duration) {
    histogram!(HANDLER_DURATION, OPERATION => label(operation), END => end).record(took);
}

/// A reply was stored.
pub(crate) fn completed(operation: &Operation, took: Duration) {
    histogram!(COMPLETION_DURATION, OPERATION => label(operation)).record(took);
}

/// A reply could not be stored in time.
pub(crate) fn not_stored(operation: &Operation) {
    counter!(REPLIES_NOT_STORED, OPERATION => label(operation)).increment(1);
}

/// A tombstone was stored in place of a reply.
pub(crate) fn not_kept(operation: &Operation) {
    counter!(REPLIES_NOT_KEPT, OPERATION => label(operation)).increment(1);
}

/// An execution lost its lease to another one.
pub(crate) fn fence_lost(operation: &Operation) {
    counter!(FENCES_LOST, OPERATION => label(operation)).increment(1);
}

/// A renewal failed, and is tried again.
pub(crate) fn heartbeat_failed(operation: &Operation) {
    counter!(HEARTBEATS_FAILED, OPERATION => label(operation)).increment(1);
}

/// A commit was not acknowledged.
pub(crate) fn commit_unacknowledged(operation: &Operation) {
    counter!(COMMITS_UNACKNOWLEDGED, OPERATION => label(operation)).increment(1);
}

/// Counts an execution while it lives.
pub(crate) struct InFlight(Operation);

impl InFlight {
    pub(crate) fn enter(operation: &Operation) -> Self {
        gauge!(EXECUTIONS_IN_FLIGHT, OPERATION => label(operation)).increment(1.0);
        Self(operation.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        gauge!(EXECUTIONS_IN_FLIGHT, OPERATION => label(&self.0)).decrement(1.0);
    }
}

/// A pass of the reconciler ended.
pub(crate) fn reconciled(pass: &Result<Reconciled, StoreError>) {
    counter!(RECONCILER_PASSES, RESULT => result_of(pass)).increment(1);
    let Ok(done) = pass else { return };
    for (fate, records) in [
        ("resumed", done.resumed),
        ("not_begun", done.not_begun),
        ("held", done.held),
        ("not_resumable", done.not_resumable),
        ("gone", done.gone),
        ("failed", done.failed),
        ("waiting", done.waiting),
    ] {
        counter!(RECONCILER_RECORDS, FATE => fate).increment(records);
    }
    gauge!(RECONCILER_LAST_PASS).set(unix_time());
}

/// A batch of the sweeper ended.
pub(crate) fn swept(batch: &Result<Swept, StoreError>, took: Duration) {
    counter!(SWEEPS, RESULT => result_of(batch)).increment(1);
    histogram!(SWEEP_DURATION).record(took);
    let Ok(swept) = batch else { return };
    counter!(SWEPT).increment(u64::from(swept.deleted));
    if !swept.more {
        gauge!(SWEEPER_LAST_CLEAN).set(unix_time());
    }
}

/// How many records are lapsed, and for how long the oldest that began.
pub(crate) fn lapsed(begun: u64, not_begun: u64, oldest: Option<Duration>) {
    gauge!(LAPSED_RECORDS, BEGUN => "true").set(as_f64(begun));
    gauge!(LAPSED_RECORDS, BEGUN => "false").set(as_f64(not_begun));
    gauge!(OLDEST_LAPSE).set(oldest.unwrap_or_default());
}

/// A count as gauges take it: exact below 2^53, which no count here comes near.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

fn label(operation: &Operation) -> String {
    operation.name().as_str().to_owned()
}

fn result_of<T, E>(result: &Result<T, E>) -> &'static str {
    if result.is_ok() { "ok" } else { "failed" }
}

/// For dashboards only: nothing in idem is judged by this clock (R6).
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
