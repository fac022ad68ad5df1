//! Each metric of the table is emitted, as the table says, and no other.

use std::collections::BTreeSet;

use idem_core::telemetry::{LABEL_VALUES, METRICS, OPERATION};
use metrics_util::debugging::DebuggingRecorder;

use crate::scenario::{self, SECRET, Scenario};
use crate::seen::{Series, Traces, series};

/// Runs one of everything; what was emitted, and what was traced.
async fn everything() -> (Vec<Series>, Traces) {
    let recorder = DebuggingRecorder::new();
    let traces = Traces::default();
    let _caught = (metrics::set_default_local_recorder(&recorder), traces.catch());
    let scenario = Scenario::new();
    scenario.calls().await;
    scenario.takeovers().await;
    scenario.storing().await;
    scenario::housekeeping().await;
    scenario::outbox().await;
    assert_eq!(scenario.engine.drain(std::time::Duration::from_secs(3600)).await, 0);
    scenario.run("too late", async |_, _| Ok("")).await.unwrap_err();
    (series(&recorder), traces)
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_the_table_is_emitted_with_its_kind_and_labels() {
    let (emitted, _) = everything().await;
    for metric in METRICS {
        let mut found = emitted.iter().filter(|series| series.name == metric.name).peekable();
        assert!(found.peek().is_some(), "{} is not emitted", metric.name);
        for series in found {
            assert_eq!(series.kind, metric.kind.to_string(), "{}", metric.name);
            let labels: Vec<&str> = series.labels.iter().map(|(label, _)| label.as_str()).collect();
            assert_eq!(labels, metric.labels, "{}", metric.name);
        }
    }
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let unknown: Vec<_> = emitted.iter().filter(|series| !known.contains(&*series.name)).collect();
    assert!(unknown.is_empty(), "not in the table: {unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn labels_have_only_the_values_that_are_listed() {
    let (emitted, _) = everything().await;
    for (label, value) in emitted.iter().flat_map(|series| &series.labels) {
        let (_, values) = LABEL_VALUES.iter().find(|(name, _)| name == label).unwrap();
        if label == OPERATION {
            let known = ["orders.create", "held", "strict", "mail", "ClaimFirst", "OneCommit"];
            assert!(known.contains(&value.as_str()), "{value}");
        } else {
            assert!(values.contains(&value.as_str()), "{label}={value}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_numbers_are_those_of_the_scenario() {
    let (emitted, _) = everything().await;
    let value = |name: &str, labels: &[(&str, &str)]| {
        let of_name = emitted.iter().filter(|series| series.name == name);
        let wanted = of_name.filter(|series| {
            labels.iter().all(|(label, value)| {
                series.labels.iter().any(|(key, found)| key == label && found == value)
            })
        });
        wanted.map(|series| series.value).sum::<f64>()
    };
    let orders = ("operation", "orders.create");
    for (name, labels, expected) in [
        ("idem_takeovers_total", vec![], 3.0),
        ("idem_takeovers_total", vec![orders], 2.0),
        ("idem_claims_replaced_total", vec![], 1.0),
        ("idem_fences_lost_total", vec![], 1.0),
        ("idem_executions_in_flight", vec![], 0.0),
        ("idem_replies_not_stored_total", vec![], 2.0),
        ("idem_replies_not_kept_total", vec![], 1.0),
        ("idem_commits_unacknowledged_total", vec![], 2.0),
        ("idem_calls_total", vec![orders, ("outcome", "in_progress")], 1.0),
        ("idem_calls_total", vec![orders, ("outcome", "mismatch")], 1.0),
        ("idem_calls_total", vec![orders, ("outcome", "draining")], 1.0),
        ("idem_calls_total", vec![("operation", "held"), ("outcome", "held")], 1.0),
        ("idem_handler_duration_seconds", vec![("end", "panicked")], 1.0),
        ("idem_lapsed_records", vec![("begun", "true")], 1.0),
        ("idem_oldest_lapse_seconds", vec![], 0.0),
        ("idem_reconciler_records_total", vec![("fate", "resumed")], 1.0),
        ("idem_sweeper_deleted_total", vec![], 1.0),
        ("idem_outbox_pending_messages", vec![], 1.0),
        ("idem_outbox_oldest_pending_seconds", vec![], 7.0),
        ("idem_outbox_dead_letters", vec![], 1.0),
        ("idem_outbox_deliveries_total", vec![("delivery", "sent")], 1.0),
        ("idem_outbox_deliveries_total", vec![("delivery", "failed")], 1.0),
        ("idem_outbox_deliveries_total", vec![("delivery", "dead_letter")], 1.0),
    ] {
        let seen = value(name, &labels);
        assert!((seen - expected).abs() < 0.5, "{name} {labels:?}: {seen}, not {expected}");
    }
    assert!(value("idem_heartbeats_failed_total", &[]) >= 1.0);
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_in_a_span_an_event_or_a_label() {
    let (emitted, traces) = everything().await;
    let text = traces.text();
    assert!(text.contains("idem.run") && text.contains("the handler panicked"), "{text}");
    for (at, line) in text.lines().enumerate() {
        assert!(!line.contains(SECRET), "line {at}: {line}");
    }
    assert!(!format!("{emitted:?}").contains(SECRET), "{emitted:?}");
}
