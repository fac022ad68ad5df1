//! Statements about messages.

use super::Tables;

/// Every statement of the outbox.
#[derive(Debug)]
pub(crate) struct OutboxStatements {
    /// Ordering key: holds its row until the transaction is over.
    pub(crate) hold_key: String,
    /// Id, topic, ordering key, headers, payload.
    pub(crate) push: String,
}

impl OutboxStatements {
    pub(super) fn new(tables: &Tables, now: &str) -> Self {
        let Tables { outbox, outbox_keys: keys, .. } = tables;
        Self {
            hold_key: format!(
                "INSERT INTO {keys} (ordering_key) VALUES (?) \
                 ON DUPLICATE KEY UPDATE ordering_key = {keys}.ordering_key"
            ),
            push: format!(
                "INSERT INTO {outbox} (id, topic, ordering_key, headers, payload, created_at, \
                 due_at) VALUES (?, ?, ?, ?, ?, {now}, {now})"
            ),
        }
    }
}
