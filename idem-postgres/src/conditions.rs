//! The conditions that stand in SQL against the pure functions that they repeat, on random
//! records, at the boundaries and one microsecond to either side of them.

use std::time::Duration;

use idem_core::claim::{Claim, Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::Verb;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::{Timestamp, micros};
use idem_core::transition::{self, Change};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::arguments::Arguments;
use crate::sql::{Conditions, sql};

const NOW: i64 = 1_800_000_000_000_000;

#[test]
fn conditions_in_sql_say_what_the_pure_rules_say() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection = std::cell::RefCell::new(runtime.block_on(connect()));
    let mut runner = TestRunner::new(Config { cases: 3_000, ..Config::default() });
    let cases = (record(), claim_parts());
    runner
        .run(&cases, |(record, parts)| {
            runtime.block_on(compare(&mut connection.borrow_mut(), &record, &parts))?;
            Ok(())
        })
        .unwrap();
}

async fn compare(
    connection: &mut PgConnection,
    record: &Record,
    parts: &Parts,
) -> Result<(), TestCaseError> {
    put(connection, record).await;
    let now = Timestamp::from_unix_micros(NOW);
    let claim = parts.claim(record);
    let arguments = Arguments::of("claim", Verb::Claim).claim(&claim, "1000").add(NOW);
    let Conditions { action, lapsed, sweepable, expired, forgettable } = Conditions::at("$20");
    // Every parameter must be used, so that the server knows its type.
    let unused = "$1::text || $2::bytea::text || $3::bytea::text || $7::bytea::text \
         || $10::bytea::text || $11::boolean::text || $12::bigint::text || $13::bigint::text \
         || $14::bigint::text || $19::text";
    let text = format!(
        "SELECT {action}, ({lapsed}) IS TRUE, ({sweepable}) IS TRUE, ({expired}) IS TRUE, \
         ({forgettable}) IS TRUE, {unused} \
         FROM t r CROSS JOIN (SELECT $20::bigint AS now) b"
    );
    let arguments = arguments.finish().unwrap();
    let row = sqlx::query_with(sql(text), arguments).fetch_one(connection).await.unwrap();
    let action: Option<String> = row.get(0);
    prop_assert_eq!(action.as_deref(), expected_action(record, &claim, now));
    prop_assert_eq!(row.get::<bool, _>(1), transition::is_lapsed(record, now), "lapsed");
    prop_assert_eq!(row.get::<bool, _>(2), transition::is_sweepable(record, now), "sweepable");
    let visible = transition::visible(Some(record), now).is_some();
    prop_assert_eq!(row.get::<bool, _>(3), !visible, "expired");
    prop_assert_eq!(row.get::<bool, _>(4), transition::is_forgettable(record), "forgettable");
    Ok(())
}

/// What the claim table writes, by the name that the statement has for it.
fn expected_action(record: &Record, claim: &Claim<'_>, now: Timestamp) -> Option<&'static str> {
    let fresh = Incarnation::random();
    let decision = transition::claim(Some(record), claim, now, fresh);
    let Change::Put(after) = &decision.change else { return None };
    let Ok(Claimed::Acquired(acquired)) = &decision.outcome else { panic!("{decision:?}") };
    Some(match () {
        () if acquired.replaced => "replaced",
        () if after.incarnation == fresh => "renewed",
        () if after.attempt == record.attempt => "again",
        () => "taken",
    })
}

async fn connect() -> PgConnection {
    let url = std::env::var("IDEM_POSTGRES_URL")
        .expect("set IDEM_POSTGRES_URL to a Postgres server for tests; scripts/test starts one");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let migration = include_str!("../migrations/0001.sql").replace("public.", "pg_temp.");
    connection.execute(sqlx::raw_sql(sql(migration))).await.unwrap();
    let table = "ALTER TABLE pg_temp.idem_records RENAME TO t";
    connection.execute(sqlx::raw_sql(table)).await.unwrap();
    connection
}

/// Writes a record as it would stand, through every constraint of the table.
async fn put(connection: &mut PgConnection, record: &Record) {
    let (total, least) = match record.retention {
        Retention::For { total, after_completion } => {
            (Some(micros(total)), Some(micros(after_completion)))
        }
        _ => (None, None),
    };
    let sweep_after = total.zip(least).map(|(total, least)| {
        let keep = if record.marks_begun { total } else { total.max(least) };
        record.created_at.as_unix_micros() + keep
    });
    let insert = "INSERT INTO t (scope, key, operation, scheme, \
         digest, attempt, owner, incarnation, created_at, retention, retention_after_completion, \
         marks_begun, locked_until, given_up, recovery_number, recovery, completed_at, \
         expires_at, reply, sweep_after) \
         VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20)";
    connection.execute("DELETE FROM t").await.unwrap();
    let query = sqlx::query(insert)
        .bind(record.scope.as_bytes())
        .bind(record.key.as_bytes())
        .bind(record.operation.as_str().as_bytes())
        .bind(i16::from(record.fingerprint.scheme().as_byte()))
        .bind(record.fingerprint.digest().as_slice())
        .bind(i64::from(record.attempt))
        .bind(record.owner.as_bytes().as_slice())
        .bind(record.incarnation.as_bytes().as_slice())
        .bind(record.created_at.as_unix_micros())
        .bind(total)
        .bind(least)
        .bind(record.marks_begun);
    let query = match &record.state {
        State::InProgress { locked_until, given_up, recovery } => query
            .bind(Some(locked_until.as_unix_micros()))
            .bind(Some(*given_up))
            .bind(recovery.as_ref().map(|recovery| i64::from(recovery.number)))
            .bind(recovery.as_ref().map(|recovery| recovery.payload.as_bytes().to_vec()))
            .bind(None::<i64>)
            .bind(None::<i64>)
            .bind(None::<Vec<u8>>),
        State::Completed { reply, completed_at, expires_at } => query
            .bind(None::<i64>)
            .bind(None::<bool>)
            .bind(None::<i64>)
            .bind(None::<Vec<u8>>)
            .bind(Some(completed_at.as_unix_micros()))
            .bind(expires_at.map(Timestamp::as_unix_micros))
            .bind(Some(reply.as_bytes().to_vec())),
    };
    query.bind(sweep_after).execute(connection).await.unwrap();
}

/// What a claim differs in.
#[derive(Debug, Clone)]
struct Parts {
    same_owner: bool,
    same_operation: bool,
    prints: Fingerprints,
    policy: u8,
    attempt_step: i64,
    same_incarnation: bool,
    age_step: Option<i64>,
    names: Names,
}

#[derive(Debug, Clone)]
struct Names {
    scope: Scope,
    key: Key,
    operation: OperationName,
}

impl Parts {
    fn claim<'a>(&'a self, record: &Record) -> Claim<'a> {
        let owner = if self.same_owner { record.owner } else { Owner::from_bytes([9; 16]) };
        let attempt =
            u32::try_from(i64::from(record.attempt) + self.attempt_step).unwrap_or(u32::MAX);
        let age = NOW - record.created_at.as_unix_micros();
        let near = |step: i64| Duration::from_micros(u64::try_from(age + step).unwrap_or(0));
        let incarnation = match self.same_incarnation {
            true => record.incarnation,
            false => Incarnation::from_bytes([8; 16]),
        };
        let takeover = match self.policy {
            0 => Takeover::Never,
            1 => Takeover::Below {
                attempts: attempt,
                younger_than: near(self.age_step.unwrap_or(1)),
            },
            _ => Takeover::Only { incarnation, attempt, younger_than: self.age_step.map(near) },
        };
        Claim::new(
            &self.names.scope,
            &self.names.key,
            owner,
            if self.same_operation { &self.names.operation } else { other_operation() },
            &self.prints,
            Duration::from_secs(30),
            Retention::of(Duration::from_secs(60)),
            takeover,
        )
    }
}

fn other_operation() -> &'static OperationName {
    static OTHER: std::sync::OnceLock<OperationName> = std::sync::OnceLock::new();
    OTHER.get_or_init(|| OperationName::new("other").unwrap())
}

fn names() -> Names {
    Names {
        scope: Scope::new("s").unwrap(),
        key: Key::opaque(b"k\0").unwrap(),
        operation: OperationName::new("o").unwrap(),
    }
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

fn print() -> impl Strategy<Value = Fingerprint> {
    (0_u8..4, 0_u8..2).prop_map(|(scheme, byte)| match scheme {
        0 => Fingerprint::not_compared(),
        scheme => Fingerprint::from_parts(Scheme::from_byte(scheme), [byte; 32]),
    })
}

fn claim_parts() -> impl Strategy<Value = Parts> {
    let age = prop::option::of(-1_i64..=1);
    (any::<[bool; 3]>(), print(), prop::option::of(print()), 0_u8..3, -1_i64..=1, age).prop_map(
        |([same_owner, same_operation, same_incarnation], print, also, policy, step, age_step)| {
            let prints = Fingerprints::new(print);
            Parts {
                same_owner,
                same_operation,
                prints: match also {
                    Some(also) => prints.also(also),
                    None => prints,
                },
                policy,
                attempt_step: step,
                same_incarnation,
                age_step,
                names: names(),
            }
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let retention =
        prop_oneof![Just(None), (0_i64..3, near_now()).prop_map(|(least, end)| Some((end, least)))];
    let attempt = prop_oneof![Just(1), Just(2), Just(u32::MAX)];
    let state = (any::<bool>(), near_now(), any::<bool>(), prop::option::of(1_u32..3));
    (print(), attempt, retention, any::<bool>(), state, 0_i64..2).prop_map(
        |(fingerprint, attempt, retention, marks_begun, state, age)| {
            let created = NOW - 7_200_000_000 * age - 3_600_000_000;
            let retention = match retention {
                None => Retention::Forever,
                Some((end, least)) => Retention::at_least(
                    Duration::from_micros(u64::try_from(end - created).unwrap_or(0)),
                    Duration::from_secs(u64::try_from(least).unwrap_or(0) * 1_800),
                ),
            };
            let created_at = Timestamp::from_unix_micros(created);
            let Names { scope, key, operation } = names();
            Record {
                scope,
                key,
                operation,
                fingerprint,
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
