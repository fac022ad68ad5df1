//! Rows that do not read as records: every verb fails closed, and nothing is written over them.

mod support;

use std::sync::Arc;

use idem_core::admin::{Admin, Filter};
use idem_core::error::ErrorKind;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::{self, Executor};

use crate::support::{LEASE, Place, Request, kind_of, point, sealed};

/// A store whose table takes anything, as one that another tool copied might.
async fn lax() -> (Place, SqliteStore) {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let store = place.open_at(&clock).await;
    let columns: Vec<String> =
        sqlx::query_scalar("SELECT name FROM pragma_table_info('idem_records')")
            .fetch_all(&mut place.sql().await)
            .await
            .unwrap();
    let columns = columns.join(", ");
    let copy = format!(
        "DROP TABLE idem_records; CREATE TABLE idem_records ({columns}, PRIMARY KEY (scope, key))"
    );
    place.sql().await.execute(sqlx::AssertSqlSafe(copy)).await.unwrap();
    (place, store)
}

async fn spoil(place: &Place, change: &str) {
    let update = format!("UPDATE idem_records SET {change}");
    place.sql().await.execute(sqlx::AssertSqlSafe(update)).await.unwrap();
}

async fn dump(place: &Place) -> String {
    let columns = "hex(scope) || hex(key) || quote(operation) || quote(scheme) || quote(digest) \
         || quote(attempt) || quote(owner) || quote(incarnation) || quote(created_at) \
         || quote(retention) || quote(retention_after_completion) || quote(marks_begun) \
         || quote(state) || quote(locked_until) || quote(given_up) || quote(recovery_number) \
         || quote(completed_at) || quote(expires_at) || quote(input) || quote(recovery) \
         || quote(reply)";
    let dump = format!("SELECT group_concat({columns}) FROM idem_records");
    sqlx::query_scalar(sqlx::AssertSqlSafe(dump)).fetch_one(&mut place.sql().await).await.unwrap()
}

const OF_ANY_STATE: [&str; 26] = [
    "state = 2",
    "state = -1",
    "state = NULL",
    "state = '0'",
    "state = 0.5",
    "attempt = 0",
    "attempt = -1",
    "attempt = 4294967296",
    "attempt = 1.5",
    "attempt = NULL",
    "owner = x'00'",
    "owner = 'sixteen letters!'",
    "owner = NULL",
    "incarnation = zeroblob(17)",
    "digest = zeroblob(31)",
    "digest = NULL",
    "scheme = 256",
    "scheme = -1",
    "operation = ''",
    "operation = x'ff'",
    "operation = 'text where a blob should be'",
    "operation = zeroblob(256)",
    "created_at = 'now'",
    "retention = -1",
    "retention = NULL",
    "marks_begun = 2",
];

const OF_IN_PROGRESS: [&str; 11] = [
    "locked_until = NULL",
    "locked_until = 'tomorrow'",
    "given_up = NULL",
    "given_up = 7",
    "recovery_number = 1",
    "recovery = x'00'",
    "recovery_number = 0, recovery = x'00'",
    "recovery_number = 1, recovery = 'text'",
    "reply = x'00'",
    "expires_at = 1",
    "input = 'text where a blob should be'",
];

const OF_COMPLETED: [&str; 8] = [
    "reply = NULL",
    "reply = 'text where a blob should be'",
    "completed_at = NULL",
    "expires_at = NULL",
    "expires_at = 'never'",
    "locked_until = 1",
    "recovery_number = 1",
    "input = x'00'",
];

async fn fails_closed(change: &str, completed: bool) {
    let (place, store) = lax().await;
    let request = Request::new("k");
    let fence = request.acquire(&store).await.fence;
    if completed {
        store.complete(&fence, &sealed("reply")).await.unwrap();
    }
    spoil(&place, change).await;
    let before = dump(&place).await;

    let corrupt = ErrorKind::CorruptRecord;
    let other = request.again();
    let (scope, key) = (&request.scope, &request.key);
    assert_eq!(kind_of(store.claim(&request.claim()).await), corrupt, "claim: {change}");
    assert_eq!(kind_of(store.claim(&other.claim()).await), corrupt, "claim: {change}");
    assert_eq!(kind_of(store.renew(&fence, LEASE).await), corrupt, "renew: {change}");
    let checkpoint = store.checkpoint(&fence, &point(1), LEASE).await;
    assert_eq!(kind_of(checkpoint), corrupt, "checkpoint: {change}");
    let complete = store.complete(&fence, &sealed("reply")).await;
    assert_eq!(kind_of(complete), corrupt, "complete: {change}");
    assert_eq!(kind_of(store.release(&fence).await), corrupt, "release: {change}");
    assert_eq!(kind_of(store.remove(&fence).await), corrupt, "remove: {change}");
    assert_eq!(kind_of(store.get(scope, key).await), corrupt, "get: {change}");
    let listed = store.list(&Filter::all(), None, 10).await;
    assert_eq!(kind_of(listed), corrupt, "list: {change}");
    let mut transaction = store.begin().await.unwrap();
    let hold = store.hold_in(&mut transaction, &fence).await;
    assert_eq!(kind_of(hold), corrupt, "hold: {change}");
    let claim = store.claim_in(&mut transaction, &other.claim()).await;
    assert_eq!(kind_of(claim), corrupt, "claim inside: {change}");
    drop(transaction);
    store.sweep(10).await.unwrap();
    assert_eq!(dump(&place).await, before, "something was written: {change}");

    let error = store.get(scope, key).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(!told.contains("text where"), "{told}");
    Request::new("another").acquire(&store).await;
}

#[tokio::test]
async fn a_spoiled_record_in_progress_fails_closed() {
    for change in OF_ANY_STATE.iter().chain(&OF_IN_PROGRESS) {
        fails_closed(change, false).await;
    }
}

#[tokio::test]
async fn a_spoiled_completed_record_fails_closed() {
    for change in OF_ANY_STATE.iter().chain(&OF_COMPLETED) {
        fails_closed(change, true).await;
    }
}

/// The table as it is made refuses nearly all of this already.
#[tokio::test]
async fn the_table_itself_refuses_what_is_not_a_record() {
    for (completed, changes) in [(false, &OF_IN_PROGRESS[..]), (true, &OF_COMPLETED[..])] {
        let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
        let store = place.open_at(&clock).await;
        let fence = Request::new("k").acquire(&store).await.fence;
        if completed {
            store.complete(&fence, &sealed("reply")).await.unwrap();
        }
        let before = dump(&place).await;
        for change in OF_ANY_STATE.iter().chain(changes) {
            if matches!(*change, "state = '0'" | "operation = x'ff'") {
                continue; // SQLite makes an integer of the one, and does not look into the other.
            }
            let update = format!("UPDATE idem_records SET {change}");
            let done = place.sql().await.execute(sqlx::AssertSqlSafe(update)).await;
            done.expect_err(change);
        }
        assert_eq!(dump(&place).await, before);
    }
}

/// A database whose pages are damaged is an error that says so, never an empty store.
#[tokio::test]
async fn damaged_pages_are_not_an_empty_store() {
    let place = Place::new();
    let store = place.open().await;
    let request = Request::new("k");
    for number in 0..50 {
        Request::new(&format!("k{number}")).acquire(&store).await;
    }
    store.close().await;
    let mut bytes = std::fs::read(&place.path).unwrap();
    for byte in &mut bytes[4096..] {
        *byte ^= 0x5a;
    }
    std::fs::write(&place.path, bytes).unwrap();
    let kind = match SqliteStore::open(&place.path).await {
        Err(error) => error.kind(),
        Ok(store) => kind_of(store.claim(&request.claim()).await),
    };
    assert_eq!(kind, ErrorKind::CorruptRecord);
}
