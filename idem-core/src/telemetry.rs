//! What can be seen from outside: the names of metrics and spans, all in one place.
//!
//! Metrics go through the `metrics` facade, spans and events through `tracing`. A program that
//! installs neither a recorder nor a subscriber pays next to nothing. No name, label or attribute
//! ever holds a key, an input, a reply or a password (R24): a key shows as its
//! [`KeyHash`](crate::log_hash::KeyHash), in spans and events only.
//!
//! The page on observability repeats [`METRICS`] and [`LABEL_VALUES`] as tables.

mod backlog;
mod emit;
mod lapsed;
mod relay;
pub(crate) mod spans;

use std::fmt;

use metrics::Unit;

pub use backlog::BacklogMeter;
pub(crate) use emit::*;
pub use lapsed::LapsedMeter;
pub use relay::{Delivery, delivered, delivery_span, outbox_backlog};

/// One metric: what an exporter, a dashboard or an alert needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as it is emitted.
    pub name: &'static str,
    /// How its values add up.
    pub kind: Kind,
    /// What is counted or measured.
    pub unit: Unit,
    /// The labels that it always has, in this order.
    pub labels: &'static [&'static str],
    /// What it says.
    pub meaning: &'static str,
}

/// How the values of a metric add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is a distribution.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

macro_rules! metrics_table {
    ($($name:ident = $text:literal, $kind:ident, $unit:ident, [$($label:ident),*], $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: &str = $text;
        )*
        /// Every metric, in the order of the page on observability.
        pub const METRICS: &[Metric] = &[$(
            Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                meaning: $meaning,
            },
        )*];
    };
}

metrics_table! {
    CALLS = "idem_calls_total", Counter, Count, [OPERATION, OUTCOME],
        "Calls that were answered, by what they were told.";
    CALL_DURATION = "idem_call_duration_seconds", Histogram, Seconds, [OPERATION, OUTCOME],
        "From the call to its answer, waiting included.";
    CLAIMS = "idem_claims_total", Counter, Count, [OPERATION, ANSWER],
        "Claims, by what the store answered.";
    CLAIM_DURATION = "idem_claim_duration_seconds", Histogram, Seconds, [OPERATION],
        "From sending a claim to its answer, repeats included.";
    TAKEOVERS = "idem_takeovers_total", Counter, Count, [OPERATION],
        "Lapsed executions that another one took over.";
    CLAIMS_REPLACED = "idem_claims_replaced_total", Counter, Count, [OPERATION],
        "Lapsed claims that never began and made way for another request under their key.";
    EXECUTIONS_IN_FLIGHT = "idem_executions_in_flight", Gauge, Count, [OPERATION],
        "Executions that run now, from their claim to their stored reply.";
    HANDLER_DURATION = "idem_handler_duration_seconds", Histogram, Seconds, [OPERATION, END],
        "How long handlers ran, by how they ended.";
    COMPLETION_DURATION = "idem_completion_duration_seconds", Histogram, Seconds, [OPERATION],
        "From a handler's end to its reply being stored, repeats included.";
    REPLIES_NOT_STORED = "idem_replies_not_stored_total", Counter, Count, [OPERATION],
        "Replies that could not be stored in time; their keys stay held.";
    REPLIES_NOT_KEPT = "idem_replies_not_kept_total", Counter, Count, [OPERATION],
        "Replies over the size limit or streamed, stored as a tombstone.";
    FENCES_LOST = "idem_fences_lost_total", Counter, Count, [OPERATION],
        "Executions that lost their lease to another one while they ran.";
    HEARTBEATS_FAILED = "idem_heartbeats_failed_total", Counter, Count, [OPERATION],
        "Renewals of a lease that failed and were tried again.";
    COMMITS_UNACKNOWLEDGED = "idem_commits_unacknowledged_total", Counter, Count, [OPERATION],
        "Commits whose outcome had to be asked of the record.";
    LAPSED_RECORDS = "idem_lapsed_records", Gauge, Count, [BEGUN],
        "Records whose lease is over: those that began are stuck until resumed or settled.";
    OLDEST_LAPSE = "idem_oldest_lapse_seconds", Gauge, Seconds, [],
        "How long ago the lease ran out of the stuck record that waits the longest.";
    RECONCILER_PASSES = "idem_reconciler_passes_total", Counter, Count, [RESULT],
        "Passes of the reconciler.";
    RECONCILER_RECORDS = "idem_reconciler_records_total", Counter, Count, [FATE],
        "Lapsed records that the reconciler looked at, by what became of them.";
    RECONCILER_LAST_PASS = "idem_reconciler_last_pass_timestamp_seconds", Gauge, Seconds, [],
        "When the reconciler last finished a pass, in Unix time.";
    SWEEPS = "idem_sweeper_batches_total", Counter, Count, [RESULT],
        "Batches of the sweeper.";
    SWEEP_DURATION = "idem_sweeper_batch_duration_seconds", Histogram, Seconds, [],
        "How long batches of the sweeper took.";
    SWEPT = "idem_sweeper_deleted_total", Counter, Count, [],
        "Expired records that the sweeper deleted.";
    SWEEPER_LAST_CLEAN = "idem_sweeper_last_clean_timestamp_seconds", Gauge, Seconds, [],
        "When the sweeper last left nothing expired behind, in Unix time.";
    OUTBOX_DELIVERIES = "idem_outbox_deliveries_total", Counter, Count, [DELIVERY],
        "Attempts to deliver an outbox message, by how they ended.";
    OUTBOX_DELIVERY_DURATION = "idem_outbox_delivery_duration_seconds", Histogram, Seconds, [DELIVERY],
        "How long attempts to deliver took.";
    OUTBOX_PENDING = "idem_outbox_pending_messages", Gauge, Count, [],
        "Outbox messages that wait to be sent.";
    OUTBOX_OLDEST = "idem_outbox_oldest_pending_seconds", Gauge, Seconds, [],
        "How long the oldest outbox message has waited to be sent.";
    OUTBOX_DEAD = "idem_outbox_dead_letters", Gauge, Count, [],
        "Outbox messages that were given up and wait for a person.";
}

/// The label with an operation's name.
pub const OPERATION: &str = "operation";
/// The label with what a call was told.
pub const OUTCOME: &str = "outcome";
/// The label with what a claim was answered.
pub const ANSWER: &str = "answer";
/// The label with how a handler ended.
pub const END: &str = "end";
/// The label that tells lapsed records that began from those that did not.
pub const BEGUN: &str = "begun";
/// The label with whether a pass or a batch worked.
pub const RESULT: &str = "result";
/// The label with what became of a lapsed record.
pub const FATE: &str = "fate";
/// The label with how a delivery ended.
pub const DELIVERY: &str = "delivery";

/// Each label with the values that it can have; none for the names of operations.
pub const LABEL_VALUES: &[(&str, &[&str])] = &[
    (OPERATION, &[]),
    (
        OUTCOME,
        &[
            "executed",
            "rejected",
            "replayed",
            "unprotected",
            "in_progress",
            "held",
            "unknown",
            "rolled_back",
            "mismatch",
            "reply_not_kept",
            "lease_lost",
            "not_stored",
            "busy",
            "draining",
            "nothing_to_resume",
            "not_resumable",
            "invalid",
            "corrupt",
            "store_failed",
            "steps_changed",
        ],
    ),
    (
        ANSWER,
        &[
            "acquired",
            "taken_over",
            "in_progress",
            "lapsed",
            "completed",
            "mismatch",
            "gone",
            "failed",
        ],
    ),
    (
        END,
        &[
            "answered",
            "rejected",
            "lease_lost",
            "window_over",
            "rolled_back",
            "steps_changed",
            "unknown",
            "panicked",
            "transaction_too_long",
        ],
    ),
    (BEGUN, &["true", "false"]),
    (RESULT, &["ok", "failed"]),
    (FATE, &["resumed", "not_begun", "held", "not_resumable", "gone", "failed", "waiting"]),
    (DELIVERY, &["sent", "failed", "dead_letter"]),
];

/// The bounds of the buckets that suit every histogram here, in seconds: from a replay out of
/// memory to a handler that waits for a slow downstream.
pub const SECONDS_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Tells the installed recorder the unit and the meaning of every metric. Call it once, after the
/// recorder was installed; without one it does nothing.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.meaning),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.meaning),
            Kind::Histogram => {
                metrics::describe_histogram!(metric.name, metric.unit, metric.meaning);
            }
        }
    }
}

/// The example of the page on observability compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../docs/observability.md")]
struct Page;
