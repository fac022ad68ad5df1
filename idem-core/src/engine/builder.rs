//! How an engine is put together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::codec::{Codec, LabelError};
use crate::downstream::{DownstreamKeys, Namespace};
use crate::engine::carry::Carriers;
use crate::engine::erased::{Erased, LocalStore};
use crate::engine::execution::Execution;
use crate::engine::failure::Failure;
use crate::engine::gate::Gate;
use crate::engine::{Engine, ResumeHandler};
use crate::log_hash::KeyHasher;
use crate::operation::{Begun, Operation};
use crate::record::OperationName;
use crate::reply::Reply;
use crate::seal::Sealer;
use crate::store::Store;
use crate::transactional::TransactionalStore;

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) local: Option<Arc<dyn LocalStore>>,
    pub(super) codec: Codec,
    pub(super) downstream_keys: DownstreamKeys,
    pub(super) key_hasher: KeyHasher,
    pub(super) registry: HashMap<OperationName, (Operation, ResumeHandler)>,
    pub(super) gate: Gate,
    pub(super) carriers: Carriers,
    pub(super) server_error: Reply,
    pub(super) shows_handler_errors: bool,
}

/// Builds an [`Engine`].
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    local: Option<Arc<dyn LocalStore>>,
    codec: Codec,
    downstream_keys: Option<DownstreamKeys>,
    key_hasher: Option<KeyHasher>,
    registry: HashMap<OperationName, (Operation, ResumeHandler)>,
    fault: Option<BuildError>,
    pub(super) carriers: Carriers,
    max_in_flight: usize,
    max_waiting: usize,
    admission_limit: Duration,
    server_error: Reply,
    shows_handler_errors: bool,
}

/// How many executions run at once unless told otherwise.
pub(super) const DEFAULT_MAX_IN_FLIGHT: usize = 1_024;

impl EngineBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            local: None,
            codec: Codec::new(),
            downstream_keys: None,
            key_hasher: None,
            registry: HashMap::new(),
            fault: None,
            carriers: Carriers::default(),
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            max_waiting: DEFAULT_MAX_IN_FLIGHT,
            admission_limit: Duration::from_secs(1),
            server_error: Reply::new(500).expect("500 is a status"),
            shows_handler_errors: false,
        }
    }

    /// Derives downstream keys without a secret, under this namespace: the name of the service
    /// and its environment, say. It does not keep the records of services apart that share a
    /// store: a table prefix, a schema or a namespace of the store does.
    ///
    /// # Errors
    /// [`LabelError`] when the namespace is refused.
    pub fn namespace(self, namespace: impl AsRef<str>) -> Result<Self, LabelError> {
        Ok(self.downstream_keys(DownstreamKeys::new(Namespace::new(namespace)?)))
    }

    /// Derives downstream keys as these settings say. They are required: two services that share
    /// a downstream account must not share its keys.
    pub fn downstream_keys(mut self, keys: DownstreamKeys) -> Self {
        self.downstream_keys = Some(keys);
        self
    }

    /// Seals replies, inputs and recovery points.
    pub fn sealed_by(mut self, sealer: Arc<dyn Sealer>) -> Self {
        self.codec = Codec::sealed_by(sealer);
        self
    }

    /// Uses this codec.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Shows keys in logs by this hash. By default a secret of this process only, so that hashes
    /// of two processes differ.
    pub fn key_hasher(mut self, hasher: KeyHasher) -> Self {
        self.key_hasher = Some(hasher);
        self
    }

    /// Logs the text of a handler's error, and of what lies behind it, with the line that says that
    /// the handler ended without a reply. Off unless it is asked for: such a text may quote the
    /// request or a stored result (R24), and what is logged is yours to know.
    pub fn log_handler_errors(mut self, shows: bool) -> Self {
        self.shows_handler_errors = shows;
        self
    }

    /// How many executions run at once; later calls wait a moment and are then told `Busy`.
    pub fn max_in_flight(mut self, executions: usize) -> Self {
        self.max_in_flight = executions;
        self
    }

    /// How many calls wait at once for the first one under their key
    /// ([`wait`](crate::operation::OperationBuilder::wait)). They hold no execution slot
    /// meanwhile; one more is told `InProgress` at once.
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.max_waiting = calls;
        self
    }

    /// How long a call waits for an execution slot.
    pub fn admission_limit(mut self, limit: Duration) -> Self {
        self.admission_limit = limit;
        self
    }

    /// What is stored as the reply where an operation wants that of an unknown outcome
    /// ([`OnUnknown::StoreServerError`](crate::operation::OnUnknown)) and the call does not bring
    /// its own: a bare 500 unless it is set. A service over HTTP that runs a reconciler sets what
    /// its layer would store.
    pub fn server_error(mut self, reply: Reply) -> Self {
        self.server_error = reply;
        self
    }

    /// Lends the store's own transaction to operations of the one-commit form: usually a clone of
    /// the store that the engine runs on. It must keep the same records.
    pub fn one_commit_on(mut self, store: impl TransactionalStore) -> Self {
        self.local = Some(Arc::new(Erased(store)));
        self
    }

    /// Registers the handler that resumes an operation without its client, from the stored
    /// input (R15). Its HTTP handler calls the same one with
    /// [`Execution::registered`].
    pub fn register<F, Fut, R>(mut self, operation: &Operation, handler: F) -> Self
    where
        F: Fn(Execution) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Into<Reply>,
    {
        let handler: ResumeHandler = Arc::new(move |execution| {
            let running = handler(execution);
            Box::pin(async move { running.await.map(Into::into) })
        });
        if operation.begun() == Begun::Unmarked || !operation.keeps_input() {
            self.fault = Some(BuildError::NotResumable { operation: operation.name().clone() });
        }
        let entry = (operation.clone(), handler);
        if self.registry.insert(operation.name().clone(), entry).is_some() {
            self.fault = Some(BuildError::RegisteredTwice { operation: operation.name().clone() });
        }
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`BuildError`] says what is missing or contradicts itself.
    pub fn build(self) -> Result<Engine, BuildError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.max_in_flight == 0 || self.max_in_flight > Semaphore::MAX_PERMITS {
            return Err(BuildError::MaxInFlight);
        }
        let max_waiting = self.max_waiting.min(Semaphore::MAX_PERMITS);
        Ok(Engine {
            shared: Arc::new(Shared {
                store: self.store,
                local: self.local,
                codec: self.codec,
                downstream_keys: self.downstream_keys.ok_or(BuildError::NoNamespace)?,
                key_hasher: self.key_hasher.unwrap_or_else(KeyHasher::random),
                registry: self.registry,
                carriers: self.carriers,
                gate: Gate::new(self.max_in_flight, max_waiting, self.admission_limit),
                server_error: self.server_error,
                shows_handler_errors: self.shows_handler_errors,
            }),
        })
    }
}

/// Settings of an engine that are missing or contradict themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Downstream keys need a namespace.
    #[error("the engine needs a namespace for its downstream keys")]
    NoNamespace,
    /// The number of executions is zero, or more than can be counted.
    #[error("the number of executions in flight is out of range")]
    MaxInFlight,
    /// A handler was registered for an operation that cannot be resumed.
    #[error("the operation {operation} is not resumable; build it with `resumable`")]
    NotResumable {
        /// Its name.
        operation: OperationName,
    },
    /// Two handlers were registered for one operation.
    #[error("the operation {operation} has two handlers")]
    RegisteredTwice {
        /// Its name.
        operation: OperationName,
    },
}
