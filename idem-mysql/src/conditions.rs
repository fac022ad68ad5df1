//! The conditions that stand in SQL against the pure functions that they repeat, on random
//! records, at the boundaries and one microsecond to either side of them.

use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::Timestamp;
use idem_core::transition;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::sql::listing;
use crate::write;

const NOW: i64 = 1_800_000_000_000_000;

#[test]
fn conditions_in_sql_say_what_the_pure_rules_say() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection = std::cell::RefCell::new(runtime.block_on(connect()));
    let mut runner = TestRunner::new(Config { cases: 1_000, ..Config::default() });
    runner
        .run(&record(), |record| {
            runtime.block_on(compare(&mut connection.borrow_mut(), &record))?;
            Ok(())
        })
        .unwrap();
}

async fn compare(connection: &mut Conn, record: &Record) -> Result<(), TestCaseError> {
    put(connection, record).await;
    let now = Timestamp::from_unix_micros(NOW);
    let at = NOW.to_string();
    let conditions = [
        listing::is_lapsed(&at),
        listing::is_sweepable(&at),
        listing::is_expired(&at),
        listing::FORGETTABLE.to_owned(),
    ];
    let conditions = conditions.map(|condition| format!("({condition}) IS TRUE"));
    let statement = format!("SELECT {} FROM idem_records", conditions.join(", "));
    let row = connection.query_first(statement).await.unwrap().unwrap();
    let (lapsed, sweepable, expired, forgettable): (bool, bool, bool, bool) = row;
    prop_assert_eq!(lapsed, transition::is_lapsed(record, now), "lapsed");
    prop_assert_eq!(sweepable, transition::is_sweepable(record, now), "sweepable");
    let visible = transition::visible(Some(record), now).is_some();
    prop_assert_eq!(expired, !visible, "expired");
    prop_assert_eq!(forgettable, transition::is_forgettable(record), "forgettable");
    Ok(())
}

/// A table that goes with the connection, with every constraint of the real one.
async fn connect() -> Conn {
    let url = std::env::var("IDEM_MYSQL_URL")
        .expect("set IDEM_MYSQL_URL to a server for tests; scripts/test starts one");
    let opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false);
    let mut connection = Conn::new(opts).await.unwrap();
    let migration = crate::schema::statements(include_str!("../migrations/0001.sql"));
    let table = migration.iter().find(|text| text.contains("idem_records (")).unwrap();
    let table = table.replace("CREATE TABLE IF NOT EXISTS", "CREATE TEMPORARY TABLE");
    connection.query_drop(table).await.unwrap();
    connection
}

/// Writes a record as it would stand.
async fn put(connection: &mut Conn, record: &Record) {
    let [total, least] = write::retention(record.retention);
    let sweep_after = write::kept_at_least(record.retention, record.marks_begun)
        .map(|kept| record.created_at.as_unix_micros() + kept);
    let mut values: Vec<Value> = vec![
        record.scope.as_bytes().into(),
        record.key.as_bytes().into(),
        record.operation.as_str().as_bytes().into(),
        record.fingerprint.scheme().as_byte().into(),
        record.fingerprint.digest().as_slice().into(),
        record.attempt.into(),
        record.owner.as_bytes().as_slice().into(),
        record.incarnation.as_bytes().as_slice().into(),
        record.created_at.as_unix_micros().into(),
        total,
        least,
        record.marks_begun.into(),
        sweep_after.into(),
    ];
    values.extend(match &record.state {
        State::InProgress { locked_until, given_up, recovery } => [
            locked_until.as_unix_micros().into(),
            (*given_up).into(),
            recovery.as_ref().map(|recovery| recovery.number).into(),
            recovery.as_ref().map(|recovery| recovery.payload.as_bytes()).into(),
            Value::NULL,
            Value::NULL,
            Value::NULL,
        ],
        State::Completed { reply, completed_at, expires_at } => [
            Value::NULL,
            Value::NULL,
            Value::NULL,
            Value::NULL,
            completed_at.as_unix_micros().into(),
            expires_at.map(Timestamp::as_unix_micros).into(),
            reply.as_bytes().into(),
        ],
    });
    let insert = "INSERT INTO idem_records (scope, record_key, operation, scheme, digest, \
         attempt, owner, incarnation, created_at, retention, retention_after_completion, \
         marks_begun, sweep_after, locked_until, given_up, recovery_number, recovery, \
         completed_at, expires_at, reply, revision) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)";
    connection.query_drop("DELETE FROM idem_records").await.unwrap();
    connection.exec_drop(insert, values).await.unwrap();
}

/// Just before now, now, just after it, and far from it.
fn near_now() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(NOW - 1),
        Just(NOW),
        Just(NOW + 1),
        Just(NOW - 3_600_000_000),
        Just(NOW + 3_600_000_000)
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let retention =
        prop_oneof![Just(None), (0_i64..3, near_now()).prop_map(|(least, end)| Some((end, least)))];
    let attempt = prop_oneof![Just(1), Just(2), Just(u32::MAX)];
    let state = (any::<bool>(), near_now(), any::<bool>(), prop::option::of(1_u32..3));
    (attempt, retention, any::<bool>(), state, 0_i64..2).prop_map(
        |(attempt, retention, marks_begun, state, age)| {
            let created = NOW - 7_200_000_000 * age - 3_600_000_000;
            let retention = match retention {
                None => Retention::Forever,
                Some((end, least)) => Retention::at_least(
                    Duration::from_micros(u64::try_from(end - created).unwrap_or(0)),
                    Duration::from_secs(u64::try_from(least).unwrap_or(0) * 1_800),
                ),
            };
            let created_at = Timestamp::from_unix_micros(created);
            Record {
                scope: Scope::new("s").unwrap(),
                key: Key::opaque(b"k\0").unwrap(),
                operation: OperationName::new("o").unwrap(),
                fingerprint: Fingerprint::not_compared(),
                input: None,
                attempt,
                owner: Owner::from_bytes([1; 16]),
                incarnation: Incarnation::from_bytes([2; 16]),
                created_at,
                retention,
                marks_begun,
                state: state_of(state, created_at, retention),
            }
        },
    )
}

fn state_of(
    (completed, until, given_up, number): (bool, i64, bool, Option<u32>),
    created_at: Timestamp,
    retention: Retention,
) -> State {
    if completed {
        let completed_at = created_at.after(Duration::from_secs(1));
        return State::Completed {
            reply: Sealed::from_bytes("reply"),
            completed_at,
            expires_at: retention.expiry(created_at, completed_at),
        };
    }
    let payload = Sealed::from_bytes("point");
    State::InProgress {
        locked_until: Timestamp::from_unix_micros(until),
        given_up,
        recovery: number.map(|number| Recovery { number, payload }),
    }
}
