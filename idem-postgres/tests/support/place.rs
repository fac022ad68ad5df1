//! A database of a test's own, with a clock that the test can set.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use idem_core::time::micros;
use idem_postgres::PostgresStore;
use idem_postgres::PostgresStoreBuilder;
use idem_postgres::sqlx::PgConnection;
use idem_testkit::random::fresh_seed;

use super::{number, plain, run};

/// Which of the servers a test uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// Postgres 15.
    Postgres,
    /// Postgres 18.
    Postgres18,
    /// PgBouncer with transaction pooling, in front of Postgres 15.
    PgBouncer,
}

impl Server {
    /// Where stores connect to.
    fn front(self) -> String {
        match self {
            Self::Postgres => variable("IDEM_POSTGRES_URL"),
            Self::Postgres18 => variable("IDEM_POSTGRES18_URL"),
            Self::PgBouncer => variable("IDEM_PGBOUNCER_URL"),
        }
    }

    /// Where databases are made.
    fn back(self) -> String {
        match self {
            Self::PgBouncer => Self::Postgres.front(),
            direct => direct.front(),
        }
    }
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("set {name}: these tests need a server; `scripts/test postgres` starts one")
    })
}

/// Where a [`stepped`](Place::stepped) clock starts.
const START: i64 = 1_800_000_000_000_000;

/// A database that goes with this value.
pub(crate) struct Place {
    pub(crate) server: Server,
    pub(crate) database: String,
    clock: AtomicI64,
}

impl Place {
    /// A fresh database on the server's own clock.
    pub(crate) async fn new(server: Server) -> Self {
        let database = format!("idem_test_{:016x}", fresh_seed());
        let mut connection = plain(&server.back()).await;
        run(&mut connection, &format!("CREATE DATABASE {database} TEMPLATE template0")).await;
        Self { server, database, clock: AtomicI64::new(START) }
    }

    /// Empties the tables, once nobody is there who might still write.
    pub(crate) async fn empty(&self) {
        let mut connection = self.plain().await;
        let others = "FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        // Ended again and again: a proxy may open another one for a client that is just leaving.
        let end = format!("SELECT count(pg_terminate_backend(pid)) {others}");
        while number(&mut connection, &end).await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.clock.store(START, Ordering::SeqCst);
        // One that is not there has nothing in it.
        for change in [
            "DELETE FROM public.idem_records",
            "DELETE FROM public.idem_outbox",
            "DELETE FROM public.effects",
            &format!("UPDATE stepped.clock SET now = {START}"),
        ] {
            let absent = "EXCEPTION WHEN undefined_table OR invalid_schema_name THEN NULL";
            run(&mut connection, &format!("DO $$ BEGIN {change}; {absent}; END $$")).await;
        }
    }

    /// A fresh database whose clock stands still until the test moves it: what the statements call
    /// `clock_timestamp()` is found in the test's schema first, and reads a table there.
    pub(crate) async fn stepped(server: Server) -> Self {
        let place = Self::new(server).await;
        let mut connection = place.plain().await;
        let (database, now) = (&place.database, place.clock.load(Ordering::SeqCst));
        let set_up = format!(
            "CREATE SCHEMA stepped; \
             CREATE TABLE stepped.clock (now bigint NOT NULL); \
             INSERT INTO stepped.clock VALUES ({now}); \
             CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql \
             AS $$ SELECT 'epoch'::timestamptz + now * interval '1 microsecond' \
             FROM stepped.clock $$; \
             ALTER DATABASE {database} SET search_path = stepped, pg_catalog, public"
        );
        run(&mut connection, &set_up).await;
        place
    }

    /// Where stores connect to.
    pub(crate) fn url(&self) -> String {
        in_database(&self.server.front(), &self.database)
    }

    /// The server itself, whatever stands in front of it.
    pub(crate) fn back_url(&self) -> String {
        in_database(&self.server.back(), &self.database)
    }

    /// The address of what stores connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        let url = self.url();
        let (_, rest) = url.split_once('@').unwrap();
        rest.split_once('/').unwrap().0.parse().expect("the server's URL has an address and a port")
    }

    /// [`url`](Self::url), at another address.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        self.url().replace(&self.address().to_string(), &address.to_string())
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        self.open_with(PostgresStore::builder()).await
    }

    pub(crate) async fn open_with(&self, builder: PostgresStoreBuilder) -> PostgresStore {
        let pooled = self.server == Server::PgBouncer;
        let builder = builder.behind_transaction_pooler(pooled);
        builder.connect(&self.url()).await.expect("the store opens")
    }

    /// A connection to the server itself, that knows nothing of the store.
    pub(crate) async fn plain(&self) -> PgConnection {
        plain(&self.back_url()).await
    }

    /// Moves the clock of a [`stepped`](Self::stepped) database.
    pub(crate) async fn move_clock(&self, by: i64) {
        let now = self.clock.fetch_add(by, Ordering::SeqCst) + by;
        run(&mut self.plain().await, &format!("UPDATE stepped.clock SET now = {now}")).await;
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.move_clock(micros(by)).await;
    }

    /// The clock of a [`stepped`](Self::stepped) database.
    pub(crate) fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (url, database) = (self.server.back(), self.database.clone());
        // A runtime of its own, since this may be dropped inside one.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let drop = format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)");
                run(&mut plain(&url).await, &drop).await;
            });
        });
        if dropped.join().is_err() && !std::thread::panicking() {
            panic!("the test's database was not dropped");
        }
    }
}

fn in_database(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("the server's URL names a database");
    format!("{server}/{database}")
}
