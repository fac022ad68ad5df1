//! Nothing of a lent transaction is committed but by the store, whatever the handler does with
//! the connection.

mod support;

use std::future::Future;
use std::sync::Arc;

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::record::Fence;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::sqlx::{self, Connection, Executor, SqliteConnection};
use idem_sqlite::{SqliteStore, SqliteTransaction};

use crate::support::{LEASE, Place, Request, kind_of, point, sealed};

struct Held {
    place: Place,
    store: SqliteStore,
    request: Request,
    fence: Fence,
    transaction: SqliteTransaction,
}

const TABLES: &str = "
    CREATE TABLE rows (what BLOB NOT NULL UNIQUE ON CONFLICT ROLLBACK) STRICT;
    CREATE TABLE parents (id INTEGER PRIMARY KEY) STRICT;
    CREATE TABLE children (
        parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED
    ) STRICT";

/// A record that is held by an open transaction with one row in it.
async fn held() -> Held {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    place.sql().await.execute(TABLES).await.unwrap();
    let builder = SqliteStore::builder().clock(clock).max_pages(200);
    let store = place.open_with(builder).await;
    let request = Request::new("k");
    let fence = request.acquire(&store).await.fence;
    let mut transaction = store.begin().await.unwrap();
    store.hold_in(&mut transaction, &fence).await.unwrap();
    row(transaction.connection(), b"first").await.unwrap();
    Held { place, store, request, fence, transaction }
}

async fn row(connection: &mut SqliteConnection, what: &[u8]) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO rows (what) VALUES (?1)").bind(what);
    insert.execute(connection).await.map(|_| ())
}

impl Held {
    /// Every verb on the transaction says that it is gone, a stray statement does not stand, and
    /// nothing was written. The store serves on.
    async fn found_gone(mut self) {
        let stray = row(self.transaction.connection(), b"stray").await.unwrap_err();
        let code = stray.as_database_error().and_then(|error| error.code());
        assert_eq!(code.as_deref(), Some("531"), "a commit of its own: {stray}");
        let begun = self.transaction.connection().execute("BEGIN").await;
        begun.expect("a transaction of the handler's own can begin, but not commit");
        row(self.transaction.connection(), b"stray").await.unwrap();
        let committed = self.transaction.connection().execute("COMMIT").await;
        committed.expect_err("the gate is shut");

        let (store, transaction) = (&self.store, &mut self.transaction);
        let gone = ErrorKind::NotApplied;
        assert_eq!(kind_of(store.hold_in(transaction, &self.fence).await), gone);
        assert_eq!(kind_of(store.claim_in(transaction, &self.request.claim()).await), gone);
        assert_eq!(kind_of(store.savepoint_in(transaction).await), gone);
        assert_eq!(kind_of(store.undo_to_savepoint_in(transaction).await), gone);
        let checkpoint = store.checkpoint_in(transaction, &self.fence, &point(1), LEASE).await;
        assert_eq!(kind_of(checkpoint), gone);
        let complete = store.complete_in(transaction, &self.fence, &sealed("reply")).await;
        assert_eq!(kind_of(complete), gone);
        assert_eq!(kind_of(store.commit(self.transaction).await), gone);
        nothing_stands(&self.place, &self.store, &self.request, &self.fence).await;
    }
}

async fn nothing_stands(place: &Place, store: &SqliteStore, request: &Request, fence: &Fence) {
    let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM rows")
        .fetch_one(&mut place.sql().await)
        .await
        .unwrap();
    assert_eq!(rows, 0);
    assert!(matches!(request.again().send(store).await, Claimed::InProgress { .. }));
    let mut transaction = store.begin().await.expect("the store serves on");
    row(transaction.connection(), b"first").await.unwrap();
    store.complete_in(&mut transaction, fence, &sealed("reply")).await.unwrap();
    store.commit(transaction).await.unwrap();
    assert!(matches!(request.again().send(store).await, Claimed::Completed(_)));
}

async fn broken_by<F>(breaks: impl FnOnce(SqliteTransaction) -> F)
where
    F: Future<Output = SqliteTransaction>,
{
    let mut held = held().await;
    held.transaction = breaks(held.transaction).await;
    held.found_gone().await;
}

#[tokio::test]
async fn a_commit_of_the_handlers_own_is_refused() {
    broken_by(|mut transaction| async move {
        transaction.connection().execute("COMMIT").await.expect_err("the gate is shut");
        transaction
    })
    .await;
}

#[tokio::test]
async fn a_rollback_of_the_handlers_own_ends_it() {
    broken_by(|mut transaction| async move {
        transaction.connection().execute("ROLLBACK").await.unwrap();
        transaction
    })
    .await;
}

#[tokio::test]
async fn a_conflict_clause_that_rolls_back_ends_it() {
    broken_by(|mut transaction| async move {
        row(transaction.connection(), b"first").await.expect_err("it is there already");
        transaction
    })
    .await;
}

#[tokio::test]
async fn a_full_database_that_the_handler_ignores_ends_it() {
    broken_by(|mut transaction| async move {
        let large = vec![7; 4096 * 300];
        row(transaction.connection(), &large).await.expect_err("there is no room");
        transaction
    })
    .await;
}

#[tokio::test]
async fn a_broken_transaction_that_is_dropped_or_rolled_back_is_gone() {
    for by_drop in [true, false] {
        let mut held = held().await;
        row(held.transaction.connection(), b"first").await.expect_err("it is there already");
        if by_drop {
            drop(held.transaction);
        } else {
            held.store.rollback(held.transaction).await.expect("it is gone in any case");
        }
        nothing_stands(&held.place, &held.store, &held.request, &held.fence).await;
    }
}

#[tokio::test]
async fn a_transaction_inside_that_was_never_ended_does_not_pass_for_a_commit() {
    let mut held = held().await;
    std::mem::forget(held.transaction.connection().begin().await.unwrap());
    row(held.transaction.connection(), b"inside").await.unwrap();
    let (store, reply) = (&held.store, sealed("reply"));
    store.complete_in(&mut held.transaction, &held.fence, &reply).await.unwrap();
    assert_eq!(kind_of(held.store.commit(held.transaction).await), ErrorKind::InvalidInput);
    nothing_stands(&held.place, &held.store, &held.request, &held.fence).await;
}

#[tokio::test]
async fn a_deferred_constraint_refuses_the_whole_commit() {
    let mut held = held().await;
    let orphan = "INSERT INTO children (parent) VALUES (1)";
    held.transaction.connection().execute(orphan).await.unwrap();
    let (store, reply) = (&held.store, sealed("reply"));
    store.complete_in(&mut held.transaction, &held.fence, &reply).await.unwrap();
    assert_eq!(kind_of(held.store.commit(held.transaction).await), ErrorKind::InvalidInput);
    nothing_stands(&held.place, &held.store, &held.request, &held.fence).await;
}

#[tokio::test]
async fn a_transaction_without_a_write_commits() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let store = place.open_at(&clock).await;
    let transaction = store.begin().await.unwrap();
    store.commit(transaction).await.unwrap();
}

/// The gate is gone with its transaction: the connection is an ordinary one again.
#[tokio::test]
async fn the_store_itself_commits_on_the_same_connection_afterwards() {
    let held = held().await;
    drop(held.transaction);
    held.store.renew(&held.fence, LEASE).await.unwrap();
    held.store.complete(&held.fence, &sealed("reply")).await.unwrap();
    assert!(matches!(held.request.again().send(&held.store).await, Claimed::Completed(_)));
}
