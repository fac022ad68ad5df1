//! A message as the operator's commands show it: never its payload or its headers' values.

use std::time::Duration;

use idem_core::outbox::Entry;
use serde_json::{Value, json};

use crate::operator::age::short;
use crate::operator::text::escape;

/// The headings over [`to_row`].
pub(super) const HEADINGS: [&str; 8] =
    ["NUMBER", "ID", "TOPIC", "ORDER", "AGE", "FAILURES", "NEXT", "REASON"];

/// A message in a table.
pub(super) fn to_row(entry: &Entry) -> Vec<String> {
    let message = &entry.message;
    let next = match (entry.leased_for, entry.due_in) {
        (Some(left), _) => format!("held for {}", short(left)),
        (None, Some(due)) => format!("in {}", short(due)),
        (None, None) => String::new(),
    };
    vec![
        entry.number.to_string(),
        message.id().to_string(),
        escape(message.topic().as_bytes()),
        escape(message.ordering_key().unwrap_or_default().as_bytes()),
        short(entry.age),
        entry.failures.to_string(),
        next,
        escape(entry.reason.as_deref().unwrap_or_default().as_bytes()),
    ]
}

/// A message for a script.
pub(super) fn to_json(entry: &Entry) -> Value {
    let message = &entry.message;
    json!({
        "number": entry.number,
        "id": message.id().to_string(),
        "topic": message.topic(),
        "ordering_key": message.ordering_key(),
        "state": entry.state.name(),
        "payload_bytes": entry.payload_bytes,
        "age_ms": millis(entry.age),
        "failures": entry.failures,
        "lapses": entry.lapses,
        "due_in_ms": entry.due_in.map(millis),
        "leased_for_ms": entry.leased_for.map(millis),
        "reason": entry.reason,
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
