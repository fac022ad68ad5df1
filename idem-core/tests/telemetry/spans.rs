//! The spans of an execution, their attributes, and how they nest.

use std::time::Duration;

use idem_core::engine::{Execution, Failure};
use idem_core::reply::Reply;
use idem_core::telemetry::{self, Delivery};

use crate::scenario::{Scenario, identity};
use crate::seen::Traces;

#[tokio::test(start_paused = true)]
async fn a_call_is_one_span_with_claim_handler_and_completion_inside() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let scenario = Scenario::new();
    scenario.run("k", async |_, _| Ok("reply")).await.unwrap();
    let (scope, key) = identity("k");
    let hash = scenario.engine.key_hasher().hash(&scope, &key).to_string();
    for (name, parent, outcome) in [
        ("idem.run", None, Some("executed")),
        ("idem.claim", Some("idem.run"), Some("acquired")),
        ("idem.handler", Some("idem.run"), Some("answered")),
        ("idem.complete", Some("idem.run"), None),
    ] {
        let spans = traces.named(name);
        assert_eq!(spans.len(), 1, "{name}: {}", traces.text());
        assert_eq!(spans[0].parent.as_deref(), parent, "{name}");
        assert_eq!(spans[0].field("idem.operation"), Some("orders.create"), "{name}");
        assert_eq!(spans[0].field("idem.key_hash"), Some(&*hash), "{name}");
        assert_eq!(spans[0].field("idem.attempt"), Some("1"), "{name}");
        assert_eq!(spans[0].field("idem.outcome"), outcome, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_a_key_is_logged_at_its_first_execution_and_with_every_later_answer() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let scenario = Scenario::new();
    scenario.run("k", async |_, _| Ok("reply")).await.unwrap();
    let executing = traces.said("executing");
    assert_eq!(executing.len(), 1);
    assert_eq!(executing[0].name, "INFO");
    scenario.run("k", async |_, _| Ok("reply")).await.unwrap();
    assert_eq!(traces.said("executing").len(), 1, "a replay executes nothing");
    let runs = traces.named("idem.run");
    assert_eq!(runs[1].field("idem.outcome"), Some("replayed"));
    let (first, replay) = (&executing[0], &runs[1]);
    assert!(first.field("idem.key_hash").is_some());
    assert_eq!(first.field("idem.key_hash"), replay.field("idem.key_hash"));
}

#[tokio::test(start_paused = true)]
async fn what_runs_after_a_takeover_is_inside_its_span() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let scenario = Scenario::new();
    let broken = async |_, _| Err::<Reply, _>(Failure::unknown("the connection broke"));
    scenario.run("k", broken).await.unwrap_err();
    assert!(traces.named("idem.takeover").is_empty());
    tokio::time::sleep(scenario.operation.lease()).await;
    scenario.run("k", async |_, _| Ok("reply")).await.unwrap();
    let takeovers = traces.named("idem.takeover");
    assert_eq!(takeovers.len(), 1);
    assert_eq!(takeovers[0].parent.as_deref(), Some("idem.run"));
    assert_eq!(takeovers[0].field("idem.attempt"), Some("2"));
    for name in ["idem.handler", "idem.complete"] {
        let spans = traces.named(name);
        let parents: Vec<_> = spans.iter().map(|span| span.parent.as_deref().unwrap()).collect();
        assert_eq!(parents, ["idem.run", "idem.takeover"], "{name}");
    }
    let outcomes = traces.named("idem.handler");
    assert_eq!(outcomes[0].field("idem.outcome"), Some("unknown"));
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_logs_is_inside_its_span() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let scenario = Scenario::new();
    let handler = async |_, _| {
        tracing::info!("charging");
        Ok("reply")
    };
    scenario.run("k", handler).await.unwrap();
    assert_eq!(traces.said("charging")[0].parent.as_deref(), Some("idem.handler"));
}

#[test]
fn a_delivery_is_a_span_with_its_outcome() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let id = idem_core::outbox::MessageId::random();
    let span = telemetry::delivery_span(&id, "order.created", 3);
    span.in_scope(|| telemetry::delivered(Delivery::DeadLetter, Duration::ZERO));
    let seen = &traces.named("idem.outbox.delivery")[0];
    assert_eq!(seen.field("idem.message_id"), Some(&*id.to_string()));
    assert_eq!(seen.field("idem.topic"), Some("order.created"));
    assert_eq!(seen.field("idem.attempt"), Some("3"));
    assert_eq!(seen.field("idem.outcome"), Some("dead_letter"));
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_handlers_error_is_logged_only_where_it_was_asked_for() {
    let secret = format!("no such table: orders{}", "ö".repeat(2_000));
    for shows in [false, true] {
        let traces = Traces::default();
        let _caught = traces.catch();
        let scenario = Scenario::with(|builder| builder.log_handler_errors(shows));
        let text = secret.clone();
        let broken = async move |_, _| Err::<Reply, _>(Failure::unknown(text));
        scenario.run("k", broken).await.unwrap_err();
        let ended = traces.said("the handler ended without a reply");
        assert_eq!(ended[0].field("failure"), Some("unknown outcome"));
        let shown = ended[0].field("error");
        assert_eq!(shown.is_some(), shows);
        assert!(shown.is_none_or(|text| secret.starts_with(text) && text.len() > 900), "{shown:?}");
        assert!(shown.is_none_or(|text| text.len() <= 1_000), "{shown:?}");
        assert_eq!(traces.text().contains("no such table"), shows);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_whose_transaction_was_taken_back_is_told_as_that() {
    let traces = Traces::default();
    let _caught = traces.catch();
    let scenario = Scenario::new();
    let broken = async |execution: Execution, store| {
        let _open = execution.transaction(&store).await?;
        Err::<Reply, _>(Failure::unknown("no such table"))
    };
    scenario.run("k", broken).await.unwrap_err();
    let ended = traces.said("the handler ended without a reply");
    assert_eq!(ended[0].field("failure"), Some("rolled back"));
}
