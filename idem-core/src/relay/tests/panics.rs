//! Sinks that panic where nobody looks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};

use super::{LEASE, outbox_of, states};
use crate::outbox::{MessageState, Outbox, OutboxMessage};
use crate::relay::{Relay, Sink, SinkError};

/// Panics when it is dropped.
#[derive(Debug)]
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("as the test wants it");
    }
}

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mine")
    }
}

impl std::error::Error for Mine {}

struct Mined;

#[async_trait]
impl Sink for Mined {
    async fn deliver(&self, message: &OutboxMessage, _attempt: u32) -> Result<(), SinkError> {
        match message.topic() {
            "dropped at its limit" => {
                let _mine = Mine;
                std::future::pending().await
            }
            "its error panics" => Err(SinkError::retryable("failed").with_source(Mine)),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_no_message_in_hand_and_counts_as_a_failure() {
    for topic in ["dropped at its limit", "its error panics"] {
        let outbox = outbox_of(&[(topic, "a"), ("behind", "a"), ("other", "b")]);
        let relay = Relay::new(Arc::clone(&outbox) as _, Mined).lease(LEASE).max_attempts(2);
        let began = Instant::now();
        while states(&outbox, MessageState::Dead).await.is_empty() {
            timeout(LEASE * 10, relay.once()).await.expect(topic).unwrap();
            assert!(began.elapsed() < Duration::from_secs(600), "{topic}: no end");
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(states(&outbox, MessageState::Dead).await, [topic]);
        assert_eq!(states(&outbox, MessageState::Waiting).await, ["behind"], "{topic}");
        let dead = &outbox.list(MessageState::Dead, None, 1).await.unwrap().entries[0];
        assert_eq!((dead.failures, dead.lapses), (2, 0), "{topic}");
        assert_eq!(outbox.backlog().await.unwrap().leased, 0, "{topic}");
    }
}
