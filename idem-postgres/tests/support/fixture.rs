//! A database of its own for each case of the testkit's suite.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::time::micros;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{self, PgConnection};
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::effects::Effects;
use idem_testkit::faults::proxy::Proxy;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};

use super::{Place, Server, run};

/// Whose time judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// The server's, as in production.
    Server,
    /// One that the test sets, by the same statements.
    Test,
}

/// Runs the suite.
pub(crate) fn suite(name: &str, server: Server, judge: Judge) -> ExitCode {
    let pooled = server == Server::PgBouncer;
    let ended = Conformance::new(name, capabilities(judge), move || open(server, judge))
        .attaching(move |url| async move { connect(&url, pooled).await })
        .main();
    FREE.lock().unwrap().clear();
    ended
}

/// Databases whose case is over. To make one takes most of a case's time, so they are used again,
/// emptied.
static FREE: Mutex<Vec<Arc<Place>>> = Mutex::new(Vec::new());

fn capabilities(judge: Judge) -> Capabilities {
    let offered = Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Transactions)
        .with(Capability::IndependentRecords)
        .with(Capability::NetworkFaults)
        .with(Capability::Processes)
        .with(Capability::Damage)
        .with(Capability::Outbox)
        .without(Capability::Restart, "other cases use the same server; tests/crash.rs kills one");
    match judge {
        Judge::Test => offered.with(Capability::SteppedClock),
        Judge::Server => offered.without(Capability::SteppedClock, "the server's clock judges"),
    }
}

async fn open(server: Server, judge: Judge) -> Result<Fresh, SetupError> {
    let used = FREE.lock().unwrap().pop();
    let place = match (used, judge) {
        (Some(place), _) => {
            place.empty().await;
            place
        }
        (None, Judge::Server) => Arc::new(Place::new(server).await),
        (None, Judge::Test) => Arc::new(Place::stepped(server).await),
    };
    run(&mut place.plain().await, "CREATE TABLE IF NOT EXISTS public.effects (marker text)").await;
    Ok(Fresh { place, judge, is_damaged: AtomicBool::new(false) })
}

async fn connect(url: &str, pooled: bool) -> Result<Connected, SetupError> {
    let builder = PostgresStore::builder().behind_transaction_pooler(pooled);
    // A call that gets no answer is given up while the case still waits for it.
    let store = builder.call_limit(Duration::from_secs(3)).connect(url).await?;
    let outbox = store.outbox();
    Ok(Connected::admin(store.clone()).with_outbox(outbox).with_transactions(store, Rows))
}

struct Fresh {
    place: Arc<Place>,
    judge: Judge,
    is_damaged: AtomicBool,
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !*self.is_damaged.get_mut() {
            FREE.lock().unwrap().push(self.place.clone());
        }
    }
}

impl Fresh {
    fn pooled(&self) -> bool {
        self.place.server == Server::PgBouncer
    }
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        connect(&self.place.url(), self.pooled()).await
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        (self.judge == Judge::Test).then(|| self.place.clone() as Arc<dyn SteppedClock>)
    }

    async fn connect_through_proxy(&self) -> Result<(Connected, Proxy), SetupError> {
        let proxy = Proxy::to(self.place.address()).await?;
        let connected = connect(&self.place.url_at(proxy.address()), self.pooled()).await?;
        Ok((connected, proxy))
    }

    fn address(&self) -> Option<String> {
        Some(self.place.url())
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        self.is_damaged.store(true, Ordering::SeqCst);
        let mut plain = self.place.plain().await;
        // The table's own constraints keep such a row out.
        run(
            &mut plain,
            "ALTER TABLE public.idem_records DROP CONSTRAINT idem_records_digest_check",
        )
        .await;
        let damage = "UPDATE public.idem_records SET digest = '' WHERE scope = $1 AND key = $2";
        let damage = sqlx::query(damage).bind(scope.as_bytes()).bind(key.as_bytes());
        match damage.execute(&mut plain).await?.rows_affected() {
            1 => Ok(()),
            _ => Err("there is no such record".into()),
        }
    }
}

#[async_trait]
impl SteppedClock for Place {
    async fn advance(&self, by: Duration) -> Result<(), SetupError> {
        self.move_clock(micros(by)).await;
        Ok(())
    }

    async fn step_back(&self, by: Duration) -> Result<(), SetupError> {
        self.move_clock(-micros(by)).await;
        Ok(())
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({:?}, {})", self.server, self.database)
    }
}

/// The rows of the case's own.
struct Rows;

#[async_trait]
impl Effects<PostgresStore> for Rows {
    async fn insert(&self, connection: &mut PgConnection, marker: &str) -> Result<(), SetupError> {
        let insert = sqlx::query("INSERT INTO public.effects VALUES ($1)").bind(marker);
        insert.persistent(false).execute(connection).await?;
        Ok(())
    }

    async fn count(&self, store: &PostgresStore, marker: &str) -> Result<u64, SetupError> {
        let mut connection = store.pool().begin().await?;
        let count = "SELECT count(*) FROM public.effects WHERE marker = $1";
        let count = sqlx::query_scalar::<_, i64>(count).bind(marker).persistent(false);
        let count = count.fetch_one(&mut *connection).await?;
        connection.rollback().await?;
        Ok(u64::try_from(count)?)
    }
}
