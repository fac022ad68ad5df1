//! The way to the server: connections, scripts that it may have lost, and the wait for replicas.

use std::future::Future;
#[cfg(feature = "test-clock")]
use std::sync::Arc;
use std::time::Duration;

use idem_core::error::{StoreError, Verb};
#[cfg(feature = "test-clock")]
use idem_core::time::Clock;
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, Route as SlotRoute, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd, pipe};

use crate::config::{RedisStoreBuilder, ReplicaWait};
use crate::fault::Call;
use crate::pool::{self, Pool};
use crate::script::Script;
#[cfg(feature = "test-clock")]
use crate::script::Text;
use crate::url::Target;

/// How to reach the server. Every call is bounded in time, and may be dropped at any await: the
/// connections are shared, and the driver throws away an answer that nobody waits for.
pub(crate) struct Link {
    route: Route,
    call_limit: Duration,
    replicas: Option<ReplicaWait>,
    #[cfg(feature = "test-clock")]
    clock: Option<Arc<dyn Clock>>,
}

enum Route {
    Single(Box<Pool>),
    Cluster(ClusterConnection),
}

enum Failed {
    Driver(RedisError),
    TooFewReplicas,
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        Self::Driver(error)
    }
}

impl Link {
    pub(crate) async fn connect(
        target: &Target,
        settings: &RedisStoreBuilder,
    ) -> Result<Self, StoreError> {
        let call = Call { verb: Verb::Open, writes: false, resent: false };
        let route = match target {
            Target::Single(url) => {
                let opening = Pool::open(url, settings);
                Route::Single(Box::new(bounded(settings.call_limit, call, opening).await?))
            }
            Target::Cluster(nodes) => {
                let opening = pool::open_cluster(nodes, settings);
                Route::Cluster(bounded(settings.call_limit, call, opening).await?)
            }
        };
        Ok(Self::over(route, settings))
    }

    pub(crate) fn on_manager(manager: ConnectionManager, settings: &RedisStoreBuilder) -> Self {
        Self::over(Route::Single(Box::new(Pool::of(manager))), settings)
    }

    pub(crate) fn on_cluster(connection: ClusterConnection, settings: &RedisStoreBuilder) -> Self {
        Self::over(Route::Cluster(connection), settings)
    }

    fn over(route: Route, settings: &RedisStoreBuilder) -> Self {
        Self {
            route,
            call_limit: settings.call_limit,
            replicas: settings.replicas,
            #[cfg(feature = "test-clock")]
            clock: settings.clock.clone(),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// Whether writes wait for replicas.
    pub(crate) fn waits(&self) -> bool {
        self.replicas.is_some()
    }

    /// Runs a script, and where it may write and replicas are asked for, waits for them. All of
    /// `keys` are in one hash slot.
    pub(crate) async fn run(
        &self,
        verb: Verb,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
    ) -> Result<Value, StoreError> {
        let call = Call { verb, writes: script.writes, resent: self.is_cluster() };
        let slot = &keys[0];
        #[cfg(feature = "test-clock")]
        let (text, arguments) = &self.on_its_clock(script, arguments);
        #[cfg(not(feature = "test-clock"))]
        let text = script.text();
        let running = async {
            match self.send(call, slot, text.by_hash(keys, arguments)).await {
                Err(Failed::Driver(error)) if is_unknown_script(&error) => {
                    self.send(call, slot, text.by_source(keys, arguments)).await
                }
                other => other,
            }
        };
        match tokio::time::timeout(self.call_limit, running).await {
            Err(_) => Err(call.timed_out()),
            Ok(Err(Failed::Driver(error))) => Err(call.failed(error)),
            Ok(Err(Failed::TooFewReplicas)) => {
                Err(call.unanswered("too few replicas acknowledged the write in time"))
            }
            Ok(Ok(value)) => Ok(value),
        }
    }

    #[cfg(feature = "test-clock")]
    fn on_its_clock<'s>(
        &self,
        script: &'s Script,
        arguments: &[Vec<u8>],
    ) -> (&'s Text, Vec<Vec<u8>>) {
        let mut arguments = arguments.to_vec();
        let Some(clock) = &self.clock else { return (script.text(), arguments) };
        arguments.push(clock.now().as_unix_micros().to_string().into_bytes());
        (script.stepped(), arguments)
    }

    /// Asks each server that takes writes, for a preflight.
    pub(crate) async fn ask_each(
        &self,
        verb: Verb,
        words: &[&str],
    ) -> Result<Vec<Value>, StoreError> {
        let call = Call { verb, writes: false, resent: false };
        let (first, rest) = words.split_first().expect("a command has a name");
        let mut command = cmd(first);
        command.arg(rest);
        match &self.route {
            Route::Single(pool) => {
                let asking = pool.send_one(&command);
                Ok(vec![bounded(self.call_limit, call, asking).await?])
            }
            Route::Cluster(connection) => {
                let mut connection = connection.clone();
                let everyone = MultipleNodeRoutingInfo::AllMasters;
                let routing = RoutingInfo::MultiNode((everyone, None));
                let asking = async move { connection.route_command(command, routing).await };
                Ok(match bounded(self.call_limit, call, asking).await? {
                    Value::Map(nodes) => nodes.into_iter().map(|(_, answer)| answer).collect(),
                    Value::Array(nodes) => nodes,
                    single => vec![single],
                })
            }
        }
    }

    async fn send(&self, call: Call, slot: &[u8], command: Cmd) -> Result<Value, Failed> {
        let Some(wait) = self.replicas.filter(|_| call.writes) else {
            return Ok(self.send_one(&command).await?);
        };
        // In one pipeline, so that both are sure to go over one connection: another one would
        // wait for nothing and call that success.
        let millis = u64::try_from(wait.limit.as_millis()).unwrap_or(u64::MAX);
        let mut pipeline = pipe();
        pipeline.add_command(command);
        pipeline.cmd("WAIT").arg(wait.replicas).arg(millis);
        let mut answers = self.send_both(slot, pipeline).await?.into_iter();
        let (answer, acknowledged) = (answers.next(), answers.next());
        let answer = answer.unwrap_or_default().extract_error()?;
        // An error here is one of the wait: the write before it was made.
        match acknowledged.unwrap_or_default() {
            Value::Int(count) if count >= i64::from(wait.replicas) => Ok(answer),
            _ => Err(Failed::TooFewReplicas),
        }
    }

    async fn send_one(&self, command: &Cmd) -> RedisResult<Value> {
        match &self.route {
            Route::Single(pool) => pool.send_one(command).await,
            Route::Cluster(connection) => {
                connection.clone().req_packed_command(command).await?.extract_error()
            }
        }
    }

    /// A command of a test, outside all scripts.
    #[cfg(test)]
    pub(crate) async fn run_plain(&self, command: &Cmd) -> RedisResult<Value> {
        self.send_one(command).await
    }

    async fn send_both(&self, slot: &[u8], pipeline: Pipeline) -> RedisResult<Vec<Value>> {
        match &self.route {
            Route::Single(pool) => pool.send_two(&pipeline).await,
            Route::Cluster(connection) => {
                let route = SlotRoute::with_key(slot, SlotAddr::Master);
                let route = SingleNodeRoutingInfo::SpecificNode(route);
                connection.clone().route_pipeline(pipeline, 0, 2, route).await
            }
        }
    }
}

async fn bounded<T>(
    limit: Duration,
    call: Call,
    doing: impl Future<Output = RedisResult<T>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, doing).await {
        Err(_) => Err(call.timed_out()),
        Ok(done) => done.map_err(|error| call.failed(error)),
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
