//! Connections that the store opens itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{Client, Cmd, IntoConnectionInfo, Pipeline, ProtocolVersion, RedisResult, Value};

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
        self.distrust_if_late(at, slot.generation, answer)
    }

    /// Sends two commands over one connection.
    pub(crate) async fn send_two(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let (at, mut slot) = self.pick();
        let answer = slot.manager.send_packed_commands(pipeline, 0, 2).await;
        self.distrust_if_late(at, slot.generation, answer)
    }

    fn pick(&self) -> (usize, Slot) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        (at, self.slots[at].lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// A connection that did not answer in time may be open at this end only, and would not answer
    /// the next call either: the driver keeps it, so the store opens another.
    fn distrust_if_late<T>(
        &self,
        at: usize,
        generation: u64,
        answer: RedisResult<T>,
    ) -> RedisResult<T> {
        if let (Err(error), Some((client, settings))) = (&answer, &self.opener)
            && error.is_timeout()
        {
            let mut slot = self.slots[at].lock().unwrap_or_else(PoisonError::into_inner);
            if slot.generation == generation {
                let (client, settings) = (client.clone(), settings.clone());
                slot.manager = ConnectionManager::new_lazy_with_config(client, settings)?;
                slot.generation += 1;
            }
        }
        answer
    }
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
