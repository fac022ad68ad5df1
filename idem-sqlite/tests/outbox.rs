//! Messages that cannot be read, and tables of the version before.

mod support;

use std::time::Duration;

use idem_core::outbox::{LeaseMessages, MessageState, OutboxMessage};
use idem_core::transactional::TransactionalStore;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::{self, Executor};
use support::Place;

const LEASE: Duration = Duration::from_secs(60);

async fn push(store: &SqliteStore, topic: &str, key: &str) {
    let message = OutboxMessage::new(topic, "x").unwrap().ordered_by(key).unwrap();
    let mut tx = store.begin().await.unwrap();
    store.push_in(&mut tx, &message).await.unwrap();
    store.commit(tx).await.unwrap();
}

async fn leased(store: &SqliteStore) -> Vec<String> {
    let batch = store.outbox().lease(&LeaseMessages::new(LEASE, 10)).await.unwrap();
    batch.messages.iter().map(|leased| leased.message.topic().to_owned()).collect()
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_a_dead_letter_and_blocks_its_own_key_alone() {
    let place = Place::new();
    let store = place.open().await;
    for (topic, key) in [("first", "a"), ("damaged", "b"), ("behind", "b"), ("other", "a")] {
        push(&store, topic, key).await;
    }
    let damage = "UPDATE idem_outbox SET headers = '[[' WHERE topic = 'damaged'";
    place.sql().await.execute(damage).await.unwrap();
    let mut seen = leased(&store).await;
    assert_eq!(seen, ["first"], "up to it");
    // The rest of its batch comes with the next lease, but for what is behind it.
    let outbox = store.outbox();
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap().entries;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message.topic(), "damaged");
    assert_eq!(dead[0].reason.as_deref(), Some("the message cannot be read as it was written"));
    seen = leased(&store).await;
    assert_eq!(seen, [""; 0], "the first one's key is held");
    assert_eq!(outbox.discard(&[dead[0].message.id()]).await.unwrap(), 1);
    assert_eq!(leased(&store).await, ["behind"]);
}

#[tokio::test]
async fn messages_that_wait_in_tables_of_version_1_are_sent_after_the_migration() {
    let place = Place::new();
    let store = place.open().await;
    push(&store, "old", "key").await;
    store.close().await;
    // As version 1 was.
    for statement in [
        "DROP INDEX idem_outbox_sent",
        "DROP INDEX idem_outbox_dead",
        "DROP INDEX idem_outbox_touched",
        "DROP INDEX idem_outbox_waiting",
        "ALTER TABLE idem_outbox DROP COLUMN sent_at",
        "ALTER TABLE idem_outbox DROP COLUMN reason",
        "ALTER TABLE idem_outbox DROP COLUMN lapses",
        "CREATE INDEX idem_outbox_pending ON idem_outbox (next_attempt_at, seq) WHERE state = 0",
        "CREATE INDEX idem_outbox_order ON idem_outbox (ordering_key, seq) WHERE state <> 1",
        "DELETE FROM idem_schema WHERE version = 2",
    ] {
        sqlx::query(statement).execute(&mut place.sql().await).await.expect(statement);
    }
    let store = place.open().await;
    push(&store, "new", "key").await;
    assert_eq!(leased(&store).await, ["old", "new"]);
}
