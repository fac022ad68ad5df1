//! Connections that the store opens itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, ProtocolVersion, RedisError, RedisResult,
    ServerErrorKind, Value,
};

use crate::config::RedisStoreBuilder;

/// Connections to one server, used in turn. Each is shared by the calls that it carries.
pub(crate) struct Pool {
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
    /// How to open another; `None` for a connection that the user brought.
    opener: Option<(Client, ConnectionManagerConfig)>,
}

#[derive(Clone)]
struct Slot {
    manager: ConnectionManager,
    generation: u64,
}

impl Pool {
    pub(crate) async fn open(url: &str, settings: &RedisStoreBuilder) -> RedisResult<Self> {
        let info = url.into_connection_info()?;
        // The third version of the protocol tells of a lost connection while nothing is asked, so
        // that the next call does not find out.
        let protocol = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_redis_settings(protocol).set_tcp_settings(tcp))?;
        let reconnecting = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(20))
            .set_max_delay(Duration::from_millis(100))
            .set_connection_timeout(Some(settings.connect_limit))
            .set_response_timeout(Some(patience(settings)));
        let mut slots = Vec::new();
        for _ in 0..settings.connection_count() {
            let manager =
                ConnectionManager::new_with_config(client.clone(), reconnecting.clone()).await?;
            slots.push(Mutex::new(Slot { manager, generation: 0 }));
        }
        Ok(Self { slots, next: AtomicUsize::new(0), opener: Some((client, reconnecting)) })
    }

    pub(crate) fn of(manager: ConnectionManager) -> Self {
        let slots = vec![Mutex::new(Slot { manager, generation: 0 })];
        Self { slots, next: AtomicUsize::new(0), opener: None }
    }

    pub(crate) async fn send_one(&self, command: &Cmd) -> RedisResult<Value> {
        let (at, mut slot) = self.pick();
        let answer = slot.manager.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(is_of_no_use) {
            self.open_anew(at, slot.generation)?;
        }
        answer
    }

    /// Sends two commands over one connection.
    pub(crate) async fn send_two(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let (at, mut slot) = self.pick();
        let answers = slot.manager.send_packed_commands(pipeline, 0, 2).await;
        let is_of_no_use = match &answers {
            Ok(answers) => answers.iter().any(is_refused_by_a_replica),
            Err(error) => is_of_no_use(error),
        };
        if is_of_no_use {
            self.open_anew(at, slot.generation)?;
        }
        answers
    }

    fn pick(&self) -> (usize, Slot) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        (at, self.slots[at].lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The driver keeps a connection that is of no more use, so the store opens another, to where
    /// the server's name leads now.
    fn open_anew(&self, at: usize, generation: u64) -> RedisResult<()> {
        let Some((client, settings)) = &self.opener else { return Ok(()) };
        let mut slot = self.slots[at].lock().unwrap_or_else(PoisonError::into_inner);
        if slot.generation == generation {
            let (client, settings) = (client.clone(), settings.clone());
            slot.manager = ConnectionManager::new_lazy_with_config(client, settings)?;
            slot.generation += 1;
        }
        Ok(())
    }
}

/// Whether the next call over the same connection would fail as well: one that did not answer in
/// time may be open at this end only, and one to what was the primary stays where it is after a
/// failover.
fn is_of_no_use(error: &RedisError) -> bool {
    error.is_timeout() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

fn is_refused_by_a_replica(answer: &Value) -> bool {
    let kind = match answer {
        Value::ServerError(error) => error.kind(),
        _ => None,
    };
    kind == Some(ServerErrorKind::ReadOnly)
}

pub(crate) async fn open_cluster(
    nodes: &[String],
    settings: &RedisStoreBuilder,
) -> RedisResult<ClusterConnection> {
    // The driver repeats what got no answer. That is harmless: a repeated claim finds its own
    // owner, every other verb its own fence (R5). It does so within the limit of one call.
    ClusterClientBuilder::new(nodes.iter().map(String::as_str))
        .connection_timeout(settings.connect_limit)
        .response_timeout(settings.call_limit / 2)
        .overall_response_timeout(Some(patience(settings)))
        .max_retry_wait(200)
        .min_retry_wait(10)
        .use_protocol(ProtocolVersion::RESP3)
        .tcp_settings(TcpSettings::default().set_nodelay(true))
        .build()?
        .get_async_connection()
        .await
}

/// The driver gives up a little before the store does, so that its error is seen.
fn patience(settings: &RedisStoreBuilder) -> Duration {
    settings.call_limit - settings.call_limit / 10
}
