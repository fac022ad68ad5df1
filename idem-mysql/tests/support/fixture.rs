//! A fresh database for each case of the testkit's suite.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::key::{Key, Scope};
use idem_core::time::micros;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::Transaction;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_testkit::capability::{Capabilities, Capability};
use idem_testkit::conformance::Conformance;
use idem_testkit::effects::Effects;
use idem_testkit::faults::proxy::Proxy;
use idem_testkit::fixture::{Connected, Fixture, SetupError, SteppedClock};

use super::place::{Manner, Place, builder, run};

/// Runs the suite.
pub(crate) fn suite(name: &str, manner: Manner) -> ExitCode {
    Conformance::new(name, capabilities(manner), move || open(manner))
        .attaching(move |url| async move { connect(&url, manner).await })
        .main()
}

fn capabilities(manner: Manner) -> Capabilities {
    let offered = Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::Admin)
        .with(Capability::Transactions)
        .with(Capability::Outbox)
        .with(Capability::IndependentRecords)
        .with(Capability::NetworkFaults)
        .with(Capability::Processes)
        .with(Capability::Damage)
        .without(Capability::Restart, "other cases use the same server; tests/crash.rs kills one");
    match manner.stepped {
        true => offered.with(Capability::SteppedClock),
        false => offered.without(Capability::SteppedClock, "the server's clock judges"),
    }
}

async fn open(manner: Manner) -> Result<Fresh, SetupError> {
    let place = Place::with(manner).await;
    run(&mut place.plain().await, "CREATE TABLE effects (marker VARBINARY(255) NOT NULL)").await;
    Ok(Fresh { place: Arc::new(place) })
}

async fn connect(url: &str, manner: Manner) -> Result<Connected, SetupError> {
    // A call that gets no answer is given up while the case still waits for it.
    let store = builder(manner).call_limit(Duration::from_secs(3)).connect(url).await?;
    let outbox = store.outbox();
    Ok(Connected::admin(store.clone()).with_outbox(outbox).with_transactions(store, Rows))
}

struct Fresh {
    place: Arc<Place>,
}

#[async_trait]
impl Fixture for Fresh {
    async fn connect(&self) -> Result<Connected, SetupError> {
        connect(&self.place.url(), self.place.manner).await
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        self.place.manner.stepped.then(|| self.place.clone() as Arc<dyn SteppedClock>)
    }

    async fn connect_through_proxy(&self) -> Result<(Connected, Proxy), SetupError> {
        let proxy = Proxy::to(self.place.address()).await?;
        let url = self.place.url_at(proxy.address());
        Ok((connect(&url, self.place.manner).await?, proxy))
    }

    fn address(&self) -> Option<String> {
        Some(self.place.url())
    }

    async fn damage(&self, scope: &Scope, key: &Key) -> Result<(), SetupError> {
        let mut plain = self.place.plain().await;
        // The table's own constraints keep such a row out.
        run(&mut plain, "ALTER TABLE idem_records DROP CONSTRAINT idem_records_digest").await;
        let damage = "UPDATE idem_records SET digest = '' WHERE scope = ? AND record_key = ?";
        plain.exec_drop(damage, (scope.as_bytes(), key.as_bytes())).await?;
        match plain.affected_rows() {
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
        write!(f, "Place({})", self.database)
    }
}

/// The rows of the case's own.
struct Rows;

#[async_trait]
impl Effects<MysqlStore> for Rows {
    async fn insert(
        &self,
        connection: &mut Transaction<'static>,
        marker: &str,
    ) -> Result<(), SetupError> {
        connection.exec_drop("INSERT INTO effects VALUES (?)", (marker,)).await?;
        Ok(())
    }

    async fn count(&self, store: &MysqlStore, marker: &str) -> Result<u64, SetupError> {
        let mut connection = store.pool().get_conn().await?;
        let count = "SELECT COUNT(*) FROM effects WHERE marker = ?";
        Ok(connection.exec_first(count, (marker,)).await?.ok_or("no row")?)
    }
}
