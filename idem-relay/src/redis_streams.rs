//! Delivers to a stream of Redis or Valkey.

use std::fmt;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::outbox::OutboxMessage;
use idem_core::relay::{Sink, SinkError};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, cmd};

/// How long a connection and an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Appends each message to one stream, with `XADD`.
///
/// An entry has the fields `id`, `topic`, `headers` (a JSON list of name and value), `payload`,
/// and, when the message has one, `ordering-key`. Entries of one ordering key stand in its order.
///
/// # How a consumer tells a repeat
/// Redis gives each entry a number of its own, so a message that is delivered twice is two entries
/// with **one `id`**. A consumer keeps the ids that it has dealt with, in the same transaction as
/// what it does:
///
/// - Effects in a database: insert the id into a table with a unique index, in the transaction of
///   the effect. A violation says that it is a repeat; acknowledge the entry and go on.
/// - Effects in Redis: one script, or one `MULTI`, that does `SET seen:<id> 1 NX EX <seconds>` and
///   the effect.
/// - Anything else: idem's engine, with the id as the key.
///
/// `SET NX` first and the effect afterwards is not enough: a consumer that dies in between has
/// noted a message that it never dealt with. Acknowledge with `XACK` only once the effect stands.
/// How long ids are kept bounds how late a repeat may come; see
/// [`idem_core::outbox`].
///
/// # What can be lost
/// An entry that the server acknowledged and no replica has is lost when a replica takes over, and
/// one that it has not written to disk when it restarts. The relay does not send it again.
///
/// ```
/// use std::sync::Arc;
/// use idem_core::outbox::MemoryOutbox;
/// use idem_core::relay::Relay;
/// use idem_relay::RedisStreamSink;
///
/// # fn url() -> String { std::env::var("IDEM_REDIS_URL").expect("IDEM_REDIS_URL names a server") }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let sink = RedisStreamSink::connect(&url(), "events").await?.keeping_about(1_000_000);
/// let relay = Relay::new(Arc::new(MemoryOutbox::new()), sink);
/// # Ok::<_, idem_relay::redis::RedisError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct RedisStreamSink {
    connection: ConnectionManager,
    stream: String,
    keeps: Option<u64>,
}

impl RedisStreamSink {
    /// Connects to the server at a `redis://` URL.
    ///
    /// # Errors
    /// The driver's, when the URL is not one or the server cannot be reached.
    pub async fn connect(url: &str, stream: impl Into<String>) -> Result<Self, RedisError> {
        let settings = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        let connection = ConnectionManager::new_with_config(Client::open(url)?, settings).await?;
        Ok(Self::on(connection, stream))
    }

    /// A sink on a connection of the caller's.
    pub fn on(connection: ConnectionManager, stream: impl Into<String>) -> Self {
        Self { connection, stream: stream.into(), keeps: None }
    }

    /// Lets the server drop the oldest entries once there are more than about `entries`. Without
    /// it the stream grows until somebody trims it. An entry that is dropped unread is lost.
    #[must_use]
    pub fn keeping_about(mut self, entries: u64) -> Self {
        self.keeps = Some(entries);
        self
    }
}

#[async_trait]
impl Sink for RedisStreamSink {
    async fn deliver(&self, message: &OutboxMessage, _attempt: u32) -> Result<(), SinkError> {
        let headers = serde_json::to_string(message.headers())
            .map_err(|error| SinkError::poison("its headers are not JSON").with_source(error))?;
        let mut add = cmd("XADD");
        add.arg(&self.stream);
        if let Some(entries) = self.keeps {
            add.arg("MAXLEN").arg("~").arg(entries);
        }
        add.arg("*").arg("id").arg(message.id().to_string()).arg("topic").arg(message.topic());
        if let Some(key) = message.ordering_key() {
            add.arg("ordering-key").arg(key);
        }
        add.arg("headers").arg(headers).arg("payload").arg(message.payload().as_ref());
        let mut connection = self.connection.clone();
        add.query_async::<()>(&mut connection).await.map_err(|error| failed(&error))
    }
}

/// Nothing that the server says is about this very message: it is full, loading, a replica, or
/// the stream's name belongs to something else.
fn failed(error: &RedisError) -> SinkError {
    match error.code() {
        Some(code) => SinkError::retryable(format!("Redis answered {code}")),
        None => SinkError::retryable("Redis did not answer"),
    }
}

impl fmt::Debug for RedisStreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStreamSink").field("stream", &self.stream).finish_non_exhaustive()
    }
}
