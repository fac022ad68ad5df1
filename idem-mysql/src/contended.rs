//! Writers that have all read the same record, and wait for its lock: one of them writes.

use std::sync::Arc;
use std::time::Duration;

use idem_core::claim::{Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Recovery, Retention, State};
use idem_core::store::{Renewed, Store};
use idem_core::transactional::TransactionalStore;
use idem_testkit::faults::proxy::{Effect, Fault, Proxy};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use crate::{MysqlStore, MysqlStoreBuilder, MysqlTransaction};

struct Contended {
    store: MysqlStore,
    prefix: String,
    plain: Conn,
}

impl Contended {
    async fn new() -> Self {
        let url = std::env::var("IDEM_MYSQL_URL")
            .expect("set IDEM_MYSQL_URL to a server for tests; scripts/test starts one");
        let [a, b, c, d, ..] = *Owner::random().as_bytes();
        let prefix = format!("idem_contended_{:08x}", u32::from_be_bytes([a, b, c, d]));
        let builder = MysqlStore::builder().table_prefix(&prefix);
        let store = builder.lock_wait(Duration::from_secs(9)).connect(&url).await.unwrap();
        let plain = store.pool().get_conn().await.unwrap();
        Self { store, prefix, plain }
    }

    async fn run(&mut self, statement: &str) {
        self.plain.query_drop(statement.replace('@', &self.prefix)).await.unwrap();
    }

    /// Locks every record, so that who has read one waits before it writes.
    async fn lock(&mut self) {
        self.run("BEGIN").await;
        self.run("SELECT COUNT(*) FROM @_records FOR UPDATE").await;
    }

    /// Waits until so many writers wait, and lets them go.
    async fn let_go(&mut self, writers: u64) {
        self.until_waiting(writers).await;
        self.run("COMMIT").await;
    }

    /// While the records are locked, whoever writes waits.
    async fn until_waiting(&mut self, writers: u64) {
        self.until_running("UPDATE @_records", writers).await;
    }

    async fn until_running(&mut self, statement: &str, writers: u64) {
        // Not while it is prepared: that has an answer of its own, still on its way.
        let waiting = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
             WHERE command = 'Execute' AND info LIKE '{statement}%'"
        );
        let waiting = waiting.replace('@', &self.prefix);
        while self.plain.query_first::<u64, _>(&waiting).await.unwrap() != Some(writers) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A store on the same tables, and what its only connection goes through.
    async fn through_proxy(
        &self,
        set: impl FnOnce(MysqlStoreBuilder) -> MysqlStoreBuilder,
    ) -> (Proxy, MysqlStore) {
        let url = std::env::var("IDEM_MYSQL_URL").unwrap();
        let (_, rest) = url.split_once('@').unwrap();
        let address = rest.split_once('/').unwrap().0;
        let proxy = Proxy::to(address.parse().unwrap()).await.unwrap();
        let url = url.replace(address, &proxy.address().to_string());
        let builder = MysqlStore::builder().table_prefix(&self.prefix).max_connections(1);
        (proxy, set(builder).connect(&url).await.unwrap())
    }

    async fn end(mut self) {
        for table in ["outbox_keys", "outbox", "records", "schema"] {
            self.run(&format!("DROP TABLE @_{table}")).await;
        }
    }
}

/// What a [`Claim`] borrows.
struct Parts {
    scope: Scope,
    key: Key,
    owner: Owner,
    operation: OperationName,
    prints: Fingerprints,
    lease: Duration,
}

impl Parts {
    fn new(key: &str, lease: Duration) -> Self {
        Self {
            scope: Scope::new("s").unwrap(),
            key: Key::opaque(key).unwrap(),
            owner: Owner::random(),
            operation: OperationName::new("charge").unwrap(),
            prints: Fingerprints::new(Fingerprint::from_parts(Scheme::V1, [1; 32])),
            lease,
        }
    }

    fn claim(&self) -> Claim<'_> {
        let takeover = Takeover::Below { attempts: 9, younger_than: Duration::MAX };
        let retention = Retention::of(Duration::from_secs(3_600));
        let Self { scope, key, owner, operation, prints, lease } = self;
        Claim::new(scope, key, *owner, operation, prints, *lease, retention, takeover)
    }
}

async fn claim(store: &MysqlStore, key: &str, lease: Duration) -> Claimed {
    store.claim(&Parts::new(key, lease).claim()).await.unwrap()
}

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn of_many_that_read_the_same_record_one_takes_it_over() {
    let mut contended = Contended::new().await;
    let Claimed::Acquired(_) = claim(&contended.store, "k", Duration::from_millis(1)).await else {
        panic!("nobody else is here")
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    contended.lock().await;
    let mut takers = JoinSet::new();
    for _ in 0..4 {
        let store = contended.store.clone();
        takers.spawn(async move { claim(&store, "k", LEASE).await });
    }
    contended.let_go(4).await;
    let told = takers.join_all().await;
    let won = told.iter().filter(|told| matches!(told, Claimed::Acquired(_))).count();
    assert_eq!(won, 1, "{told:?}");
    contended.end().await;
}

#[tokio::test]
async fn of_a_holder_and_a_taker_one_writes_and_the_other_is_told() {
    for verb in ["complete", "checkpoint", "renew", "release"] {
        let mut contended = Contended::new().await;
        let held = match claim(&contended.store, verb, Duration::from_millis(1)).await {
            Claimed::Acquired(held) => held.fence,
            told => panic!("{told:?}"),
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        contended.lock().await;
        let store = Arc::new(contended.store.clone());
        let holder = tokio::spawn({
            let (store, held) = (store.clone(), held.clone());
            async move {
                let reply = Sealed::from_bytes("reply");
                let recovery = Recovery { number: 1, payload: reply.clone() };
                match verb {
                    "complete" => store.complete(&held, &reply).await,
                    "checkpoint" => store.checkpoint(&held, &recovery, LEASE).await.map(drop),
                    "renew" => store.renew(&held, LEASE).await.map(drop),
                    _ => store.release(&held).await,
                }
            }
        });
        let taker = tokio::spawn(async move { claim(&store, verb, LEASE).await });
        // A release waits with a DELETE.
        contended.let_go(if verb == "release" { 1 } else { 2 }).await;
        let (told, taken) = (holder.await.unwrap(), taker.await.unwrap());
        let stands = contended.store.get(&held.scope, &held.key).await.unwrap().unwrap().record;
        match told {
            Ok(()) if verb == "release" => assert_eq!(stands.attempt, 1, "{verb}: {taken:?}"),
            Ok(()) => assert!(stands.owner == held.owner, "{verb}: {taken:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::FenceLost, "{verb}: {error}");
                assert_eq!(stands.attempt, 2, "{verb}");
                assert!(matches!(stands.state, State::InProgress { .. }), "{verb}");
            }
        }
        contended.end().await;
    }
}

/// A record that went and came again counts its writes from the beginning.
#[tokio::test]
async fn a_holder_does_not_write_to_another_life_of_its_record() {
    let mut contended = Contended::new().await;
    let held = match claim(&contended.store, "k", LEASE).await {
        Claimed::Acquired(held) => held.fence,
        told => panic!("{told:?}"),
    };
    contended.lock().await;
    let holder = tokio::spawn({
        let (store, held) = (contended.store.clone(), held.clone());
        async move { store.complete(&held, &Sealed::from_bytes("reply")).await }
    });
    contended.until_waiting(1).await;
    contended.run("UPDATE @_records SET incarnation = REPEAT('z', 16)").await;
    contended.run("COMMIT").await;
    assert_eq!(holder.await.unwrap().unwrap_err().kind(), ErrorKind::FenceLost);
    let stands = contended.store.get(&held.scope, &held.key).await.unwrap().unwrap().record;
    assert!(matches!(stands.state, State::InProgress { .. }));
    contended.end().await;
}

/// Claims a key in a transaction, and gives what another claim of it came to that waited for 1.2
/// seconds until that was rolled back.
async fn after_a_long_wait(contended: &mut Contended, store: &MysqlStore) -> Waited {
    let other = contended.store.clone();
    let mut tx = other.begin().await.unwrap();
    let parts = Parts::new("k", LEASE);
    other.claim_in(&mut tx, &parts.claim()).await.unwrap();
    let waiting = store.clone();
    let claiming = tokio::spawn(async move {
        let parts = Parts::new("k", Duration::from_secs(2));
        waiting.claim(&parts.claim()).await
    });
    contended.until_running("INSERT INTO @_records", 1).await;
    Waited { claiming, tx, other }
}

struct Waited {
    claiming: tokio::task::JoinHandle<Result<Claimed, StoreError>>,
    tx: MysqlTransaction,
    other: MysqlStore,
}

impl Waited {
    async fn let_go(self) -> Result<Claimed, StoreError> {
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        self.other.rollback(self.tx).await.unwrap();
        self.claiming.await.unwrap()
    }
}

#[tokio::test]
async fn a_claim_that_waited_for_long_gives_more_than_half_of_its_lease() {
    let mut contended = Contended::new().await;
    let store = contended.store.clone();
    let told = after_a_long_wait(&mut contended, &store).await.let_go().await.unwrap();
    let Claimed::Acquired(acquired) = told else { panic!("{told:?}") };
    let fence = acquired.fence;
    let seen = store.get(&fence.scope, &fence.key).await.unwrap().unwrap();
    let State::InProgress { locked_until, .. } = seen.record.state else { panic!("{seen:?}") };
    // It was made before the wait of 1.2 seconds, and its lease of two seconds set anew after it.
    let lease_end = locked_until.since(seen.record.created_at);
    assert!(lease_end >= Duration::from_millis(3_200), "it ends after {lease_end:?}");
    contended.end().await;
}

/// The record is taken, and how much of its lease is left cannot be asked.
#[tokio::test]
async fn a_claim_that_stands_and_cannot_read_the_clock_is_not_told_as_not_applied() {
    let mut contended = Contended::new().await;
    let (proxy, store) = contended.through_proxy(|it| it.lock_wait(Duration::from_secs(9))).await;
    let waited = after_a_long_wait(&mut contended, &store).await;
    // The acknowledgement of the insert has up to 60 bytes; the answer after it has more.
    proxy.arm(Fault::lose_reply().after(62));
    let error = waited.let_go().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let (scope, key) = (Scope::new("s").unwrap(), Key::opaque("k").unwrap());
    assert!(contended.store.get(&scope, &key).await.unwrap().is_some(), "it was not taken");
    contended.end().await;
}

/// The record is taken, and somebody else locks it before its lease can be set anew.
#[tokio::test]
async fn a_claim_that_stands_and_cannot_set_its_lease_anew_is_not_told_as_not_applied() {
    let mut contended = Contended::new().await;
    let (proxy, store) = contended.through_proxy(|it| it.lock_wait(Duration::from_secs(4))).await;
    let waited = after_a_long_wait(&mut contended, &store).await;
    // As above; what comes after it is late, so that there is time to lock the record.
    proxy.arm(Fault::lose_reply().after(62).with(Effect::Delay(Duration::from_secs(3))));
    let claiming = tokio::spawn(waited.let_go());
    proxy.wait_for_fired(1).await;
    contended.lock().await;
    let error = claiming.await.unwrap().unwrap_err();
    contended.run("ROLLBACK").await;
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let (scope, key) = (Scope::new("s").unwrap(), Key::opaque("k").unwrap());
    assert!(contended.store.get(&scope, &key).await.unwrap().is_some(), "it was not taken");
    contended.end().await;
}

/// What is written under the fence stands, whatever goes wrong after it.
#[tokio::test]
async fn a_renewal_that_stands_and_cannot_be_set_anew_is_told_as_done() {
    let mut contended = Contended::new().await;
    let held = match claim(&contended.store, "k", Duration::from_millis(1)).await {
        Claimed::Acquired(held) => held.fence,
        told => panic!("{told:?}"),
    };
    let (proxy, store) = contended.through_proxy(|it| it.lock_wait(Duration::from_secs(4))).await;
    contended.lock().await;
    let renewing = tokio::spawn(async move { store.renew(&held, Duration::from_secs(2)).await });
    contended.until_waiting(1).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    // The acknowledgement of the update arrives, and what comes after it is late.
    proxy.arm(Fault::lose_reply().after(62).with(Effect::Delay(Duration::from_secs(3))));
    contended.run("COMMIT").await;
    proxy.wait_for_fired(1).await;
    contended.lock().await;
    let told = renewing.await.unwrap();
    contended.run("ROLLBACK").await;
    assert!(matches!(told, Ok(Renewed::Held(_))), "{told:?}");
    contended.end().await;
}

/// Whether a transaction of the same claim's commits is open: nobody else has the record.
#[tokio::test]
async fn a_claim_that_waits_for_its_own_commit_is_not_told_in_progress() {
    let contended = Contended::new().await;
    let parts = Parts::new("k", LEASE);
    let (_proxy, store) = contended.through_proxy(|it| it.lock_wait(Duration::from_secs(1))).await;
    let held = match store.claim(&parts.claim()).await.unwrap() {
        Claimed::Acquired(held) => held.fence,
        told => panic!("{told:?}"),
    };
    let mut tx = store.begin().await.unwrap();
    store.hold_in(&mut tx, &held).await.unwrap();
    store.complete_in(&mut tx, &held, &Sealed::from_bytes("reply")).await.unwrap();
    let error = store.claim(&parts.claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    store.commit(tx).await.unwrap();
    assert!(matches!(store.claim(&parts.claim()).await.unwrap(), Claimed::Completed(_)));
    contended.end().await;
}

#[tokio::test]
async fn a_server_that_falls_silent_leaves_the_outcome_of_what_writes_unknown() {
    let contended = Contended::new().await;
    let (proxy, store) = contended.through_proxy(|it| it.call_limit(Duration::from_secs(1))).await;
    let parts = Parts::new("k", LEASE);
    let held = match store.claim(&parts.claim()).await.unwrap() {
        Claimed::Acquired(held) => held.fence,
        told => panic!("{told:?}"),
    };
    let silence = async || {
        // The connection that fell silent is not lent again, and another one is open.
        assert!(store.get(&held.scope, &held.key).await.unwrap().is_some());
        proxy.arm(Fault::lose_reply().with(Effect::Silence));
    };
    silence().await;
    let error = store.claim(&Parts::new("other", LEASE).claim()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    silence().await;
    let error = store.complete(&held, &Sealed::from_bytes("reply")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    silence().await;
    let error = store.get(&held.scope, &held.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
    silence().await;
    contended.end().await;
}

/// The server took back what the handler had written, so the claim does not go on without it.
#[tokio::test]
async fn a_deadlock_of_a_claim_in_a_used_transaction_ends_it() {
    let mut contended = Contended::new().await;
    claim(&contended.store, "k", Duration::from_millis(1)).await;
    contended.run("CREATE TABLE @_mine (n INT PRIMARY KEY, v INT) ENGINE = InnoDB").await;
    contended.run("INSERT INTO @_mine VALUES (1, 0)").await;
    let (store, mine) = (contended.store.clone(), format!("{}_mine", contended.prefix));
    let mut tx = store.begin().await.unwrap();
    let update = format!("UPDATE {mine} SET v = 1 WHERE n = 1");
    tx.connection().query_drop(update).await.unwrap();
    contended.lock().await;
    // The heavier one, so the server takes back the handler's.
    contended.run("INSERT INTO @_mine VALUES (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)").await;
    let claiming = tokio::spawn(async move {
        let parts = Parts::new("k", LEASE);
        let told = store.claim_in(&mut tx, &parts.claim()).await;
        (told.map(drop), store.commit(tx).await)
    });
    contended.until_running("INSERT INTO @_records", 1).await;
    contended.run("UPDATE @_mine SET v = 2 WHERE n = 1").await;
    let (told, committed) = claiming.await.unwrap();
    assert_eq!(told.unwrap_err().kind(), ErrorKind::NotApplied);
    assert_eq!(committed.unwrap_err().kind(), ErrorKind::NotApplied);
    contended.run("ROLLBACK").await;
    contended.run("DROP TABLE @_mine").await;
    contended.end().await;
}
