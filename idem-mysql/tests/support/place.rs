//! A database of a test's own, with a clock that the test can set.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use idem_core::time::micros;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, Opts, OptsBuilder};
use idem_mysql::{Isolation, MysqlStore, MysqlStoreBuilder};
use idem_testkit::random::fresh_seed;

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("set {name}: these tests need a server; `scripts/test mysql` starts one")
    })
}

/// How a test connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Manner {
    /// The collation of the server and of the test's database; the default server's when `None`.
    pub(crate) collation: Option<Collation>,
    /// Whether `CLIENT_FOUND_ROWS` is on.
    pub(crate) found_rows: bool,
    /// Whether a table of the test's tells the time.
    pub(crate) stepped: bool,
}

/// A collation that a server and a database have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collation {
    /// latin1_swedish_ci.
    Latin1,
    /// utf8mb4_general_ci.
    General,
    /// utf8mb4_bin.
    Binary,
}

impl Collation {
    /// The server that has it, by its variable, and the database's setting.
    fn server(self) -> (&'static str, &'static str) {
        match self {
            Self::Latin1 => {
                ("IDEM_MYSQL_LATIN1_URL", "CHARACTER SET latin1 COLLATE latin1_swedish_ci")
            }
            Self::General => {
                ("IDEM_MYSQL_GENERAL_URL", "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
            }
            Self::Binary => ("IDEM_MYSQL_BIN_URL", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        }
    }
}

/// A database that goes with this value.
pub(crate) struct Place {
    server: String,
    pub(crate) database: String,
    pub(crate) manner: Manner,
    clock: AtomicI64,
}

impl Place {
    /// A fresh database on the server's own clock.
    pub(crate) async fn new() -> Self {
        Self::with(Manner::default()).await
    }

    /// A fresh database whose clock stands still until the test moves it.
    pub(crate) async fn stepped() -> Self {
        Self::with(Manner { stepped: true, ..Manner::default() }).await
    }

    pub(crate) async fn with(manner: Manner) -> Self {
        let server = manner.collation.map_or("IDEM_MYSQL_URL", |collation| collation.server().0);
        Self::on(&variable(server), manner).await
    }

    /// On another server than the one that the environment names.
    pub(crate) async fn on(server: &str, manner: Manner) -> Self {
        let place = Self {
            server: server.to_owned(),
            database: format!("idem_test_{:016x}", fresh_seed()),
            manner,
            clock: AtomicI64::new(1_800_000_000_000_000),
        };
        let set = manner.collation.map_or("", |collation| collation.server().1);
        let mut server = plain(server).await;
        run(&mut server, &format!("CREATE DATABASE {} {set}", place.database)).await;
        server.disconnect().await.unwrap();
        if manner.stepped {
            let now = place.now();
            let mut plain = place.plain().await;
            run(&mut plain, "CREATE TABLE clock (now BIGINT NOT NULL)").await;
            run(&mut plain, &format!("INSERT INTO clock VALUES ({now})")).await;
        }
        place
    }

    /// Where stores connect to.
    pub(crate) fn url(&self) -> String {
        let url = in_database(&self.server, &self.database);
        let separator = if url.contains('?') { '&' } else { '?' };
        match self.manner.found_rows {
            true => format!("{url}{separator}client_found_rows=true"),
            false => url,
        }
    }

    /// The server's address.
    pub(crate) fn address(&self) -> SocketAddr {
        let opts = Opts::from_url(&self.url()).unwrap();
        let host = opts.ip_or_hostname().parse().expect("the server's URL has an address");
        SocketAddr::new(host, opts.tcp_port())
    }

    /// [`url`](Self::url), at another address.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        self.url().replace(&self.address().to_string(), &address.to_string())
    }

    /// The settings of this manner.
    pub(crate) fn builder(&self) -> MysqlStoreBuilder {
        builder(self.manner)
    }

    pub(crate) async fn open(&self) -> MysqlStore {
        self.builder().connect(&self.url()).await.expect("the store opens")
    }

    /// A connection that knows nothing of the store.
    pub(crate) async fn plain(&self) -> Conn {
        plain(&in_database(&self.server, &self.database)).await
    }

    /// Moves the clock of a [`stepped`](Self::stepped) database.
    pub(crate) async fn move_clock(&self, by: i64) {
        let now = self.clock.fetch_add(by, Ordering::SeqCst) + by;
        let mut plain = self.plain().await;
        run(&mut plain, &format!("UPDATE clock SET now = {now}")).await;
        plain.disconnect().await.unwrap();
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.move_clock(micros(by)).await;
    }

    /// The clock of a [`stepped`](Self::stepped) database.
    pub(crate) fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }
}

/// On a clock of the test's own, transactions are READ COMMITTED: the table that tells the time
/// would stand still in the snapshot of a stricter one.
pub(crate) fn builder(manner: Manner) -> MysqlStoreBuilder {
    match manner.stepped {
        true => stepped(MysqlStore::builder()),
        false => MysqlStore::builder(),
    }
}

#[cfg(feature = "test-clock")]
fn stepped(builder: MysqlStoreBuilder) -> MysqlStoreBuilder {
    builder.clock_table("clock").isolation(Isolation::ReadCommitted)
}

#[cfg(not(feature = "test-clock"))]
fn stepped(_: MysqlStoreBuilder) -> MysqlStoreBuilder {
    let _ = Isolation::ReadCommitted;
    panic!("run these tests with --all-features: they step the clock")
}

impl Drop for Place {
    fn drop(&mut self) {
        let (url, database) = (self.server.clone(), self.database.clone());
        // A runtime of its own, since this may be dropped inside one.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut server = plain(&url).await;
                run(&mut server, &format!("DROP DATABASE IF EXISTS {database}")).await;
                server.disconnect().await.unwrap();
            });
        });
        if dropped.join().is_err() && !std::thread::panicking() {
            panic!("the test's database was not dropped");
        }
    }
}

fn in_database(url: &str, database: &str) -> String {
    let (server, rest) = url.rsplit_once('/').expect("the server's URL names a database");
    let parameters = rest.split_once('?').map(|(_, parameters)| format!("?{parameters}"));
    format!("{server}/{database}{}", parameters.unwrap_or_default())
}

/// A connection that knows nothing of the store.
pub(crate) async fn plain(url: &str) -> Conn {
    let opts = OptsBuilder::from_opts(Opts::from_url(url).unwrap()).prefer_socket(false);
    Conn::new(opts).await.expect("the server answers")
}

/// Runs one statement without parameters.
pub(crate) async fn run(connection: &mut Conn, statement: &str) {
    let ran = connection.query_drop(statement).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Reads one number.
pub(crate) async fn number(connection: &mut Conn, statement: &str) -> i64 {
    let read = connection.query_first::<i64, _>(statement).await;
    read.unwrap_or_else(|error| panic!("{statement}: {error}")).expect("a row")
}
