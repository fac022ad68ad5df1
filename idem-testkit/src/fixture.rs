//! What the author of a store writes: how a fresh, isolated store comes about.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::outbox::Outbox;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;

use crate::effects::{Effects, Lent, Transactions};
use crate::faults::proxy::Proxy;

/// Why a fixture could not do what it was asked. It fails the case; it is never passed over.
pub type SetupError = Box<dyn Error + Send + Sync + 'static>;

/// One fresh store. It is the guard too: dropping it removes what was made for it.
///
/// Only [`connect`](Self::connect) has to be written. The rest belongs to capabilities that the
/// author may declare.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// Opens a connection of its own to this fixture's data: another pool, as another process
    /// would have. Each case calls it several times.
    ///
    /// # Errors
    /// When the store cannot be opened.
    async fn connect(&self) -> Result<Connected, SetupError>;

    /// For [`Capability::SteppedClock`](crate::capability::Capability::SteppedClock): the clock
    /// that this fixture's store judges by.
    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        None
    }

    /// For [`Capability::Restart`](crate::capability::Capability::Restart): restarts the server.
    /// Connections opened before may be broken afterwards.
    ///
    /// # Errors
    /// When it cannot be restarted.
    async fn restart(&self) -> Result<(), SetupError> {
        Err(Unwritten("restart").into())
    }

    /// For [`Capability::NetworkFaults`](crate::capability::Capability::NetworkFaults): a
    /// connection that goes through a [`Proxy`], and the proxy.
    ///
    /// # Errors
    /// When the store cannot be opened.
    async fn connect_through_proxy(&self) -> Result<(Connected, Proxy), SetupError> {
        Err(Unwritten("connect_through_proxy").into())
    }

    /// For [`Capability::Processes`](crate::capability::Capability::Processes): where the data
    /// is, in a form that [`Conformance::attaching`](crate::conformance::Conformance::attaching)
    /// understands.
    fn address(&self) -> Option<String> {
        None
    }

    /// For [`Capability::Damage`](crate::capability::Capability::Damage): makes the record of
    /// this key unreadable, behind the store's back, in whichever way is likeliest there.
    ///
    /// # Errors
    /// When there is no such record, or it cannot be reached.
    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let _ = (scope, key);
        Err(Unwritten("damage").into())
    }
}

/// What a method that an author has not written answers.
#[derive(Debug)]
pub(crate) struct Unwritten(&'static str);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fixture::{} is not written: write it, or do not declare it", self.0)
    }
}

impl Error for Unwritten {}

/// A clock that a test moves.
#[async_trait]
pub trait SteppedClock: fmt::Debug + Send + Sync + 'static {
    /// Moves it on.
    ///
    /// # Errors
    /// When it cannot be moved.
    async fn advance(&self, by: Duration) -> Result<(), SetupError>;

    /// Sets it back.
    ///
    /// # Errors
    /// When it cannot be moved.
    async fn step_back(&self, by: Duration) -> Result<(), SetupError>;
}

#[async_trait]
impl SteppedClock for ManualClock {
    async fn advance(&self, by: Duration) -> Result<(), SetupError> {
        ManualClock::advance(self, by);
        Ok(())
    }

    async fn step_back(&self, by: Duration) -> Result<(), SetupError> {
        ManualClock::step_back(self, by);
        Ok(())
    }
}

/// An open connection, as what it can do.
#[derive(Clone)]
pub struct Connected {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) admin: Option<Arc<dyn Admin>>,
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    pub(crate) outbox: Option<Arc<dyn Outbox>>,
}

impl Connected {
    /// A store with the eight verbs.
    pub fn store(store: impl Store) -> Self {
        Self { store: Arc::new(store), admin: None, transactions: None, outbox: None }
    }

    /// A store with the operator's verbs as well.
    pub fn admin(store: impl Admin) -> Self {
        let admin: Arc<dyn Admin> = Arc::new(store);
        Self { store: admin.clone(), admin: Some(admin), transactions: None, outbox: None }
    }

    /// Its eight verbs.
    pub fn verbs(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Adds its transactions, with rows of the fixture's own to write in them.
    #[must_use]
    pub fn with_transactions<S: TransactionalStore>(
        mut self,
        store: S,
        effects: impl Effects<S>,
    ) -> Self {
        self.transactions = Some(Arc::new(Lent { store, effects }));
        self
    }

    /// Adds the outbox that its transactions push into.
    #[must_use]
    pub fn with_outbox(mut self, outbox: Arc<dyn Outbox>) -> Self {
        self.outbox = Some(outbox);
        self
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("admin", &self.admin.is_some())
            .field("transactions", &self.transactions.is_some())
            .field("outbox", &self.outbox.is_some())
            .finish_non_exhaustive()
    }
}
