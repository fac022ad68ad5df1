//! The conditions that stand in SQL, against the pure functions that they repeat, on random
//! records near the instants at which those change their mind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter, Stats};
use idem_core::codec::Sealed;
use idem_core::error::Verb;
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::store::Store;
use idem_core::time::{Clock, ManualClock, Timestamp};
use idem_core::transition::{self, Change};
use proptest::prelude::*;

use crate::SqliteStore;

/// Instants are drawn within this many microseconds of now.
const SPREAD: i64 = 3;

fn instant() -> impl Strategy<Value = Timestamp> {
    let now = ManualClock::new().now().as_unix_micros();
    prop_oneof![
        8 => (now - SPREAD..=now + SPREAD).prop_map(Timestamp::from_unix_micros),
        1 => Just(Timestamp::from_unix_micros(i64::MIN)),
        1 => Just(Timestamp::from_unix_micros(0)),
        1 => Just(Timestamp::from_unix_micros(i64::MAX)),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    let short = || (0..=2 * SPREAD as u64).prop_map(Duration::from_micros);
    prop_oneof![
        1 => Just(Retention::Forever),
        1 => Just(Retention::of(Duration::MAX)),
        4 => (short(), short()).prop_map(|(total, least)| Retention::at_least(total, least)),
    ]
}

fn bytes() -> impl Strategy<Value = Sealed> {
    proptest::collection::vec(any::<u8>(), 0..8).prop_map(Sealed::from_bytes)
}

fn in_progress() -> impl Strategy<Value = State> {
    let recovery = proptest::option::of((1..=u32::MAX, bytes()));
    (instant(), any::<bool>(), recovery).prop_map(|(locked_until, given_up, recovery)| {
        let recovery = recovery.map(|(number, payload)| Recovery { number, payload });
        State::InProgress { locked_until, given_up, recovery }
    })
}

fn completed() -> impl Strategy<Value = State> {
    (bytes(), instant(), instant()).prop_map(|(reply, completed_at, expires_at)| State::Completed {
        reply,
        completed_at,
        expires_at: Some(expires_at),
    })
}

fn record() -> impl Strategy<Value = Record> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<[u8; 32]>(), any::<u8>(), 1..=u32::MAX);
    let state = prop_oneof![in_progress(), completed()];
    let names = ("[ab]", "[cd]");
    let rest = (proptest::option::of(bytes()), instant(), retention(), any::<bool>(), state);
    (ids, names, rest).prop_map(|(ids, (scope, operation), rest)| {
        let (owner, incarnation, digest, scheme, attempt) = ids;
        let (input, created_at, retention, marks_begun, mut state) = rest;
        if let State::Completed { expires_at, .. } = &mut state
            && retention == Retention::Forever
        {
            *expires_at = None;
        }
        Record {
            scope: Scope::new(scope).unwrap(),
            key: Key::opaque(owner).unwrap(),
            operation: OperationName::new(operation).unwrap(),
            fingerprint: Fingerprint::from_parts(Scheme::from_byte(scheme), digest),
            input: input.filter(|_| matches!(state, State::InProgress { .. })),
            attempt,
            owner: Owner::from_bytes(owner),
            incarnation: Incarnation::from_bytes(incarnation),
            created_at,
            retention,
            marks_begun,
            state,
        }
    })
}

async fn filled(records: &[Record]) -> (tempfile::TempDir, SqliteStore, Timestamp) {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let builder = SqliteStore::builder().clock(Arc::clone(&clock));
    let store = builder.open(directory.path().join("a.db")).await.unwrap();
    let mut transaction = store.shared.pools.begin(Verb::Claim).await.unwrap();
    for record in records {
        let change = Change::Put(Box::new(record.clone()));
        let (scope, key) = (&record.scope, &record.key);
        let put = store.shared.apply(&mut transaction, Verb::Claim, scope, key, &change);
        put.await.unwrap();
    }
    transaction.commit().await.unwrap();
    (directory, store, clock.now())
}

type Identity = (Scope, Key);

fn identities<'r>(records: impl IntoIterator<Item = &'r Record>) -> BTreeSet<Identity> {
    records.into_iter().map(|record| (record.scope.clone(), record.key.clone())).collect()
}

async fn left(store: &SqliteStore, records: &[Record]) -> BTreeSet<Identity> {
    let mut left = BTreeSet::new();
    let mut reader = store.shared.pools.readers.acquire().await.unwrap();
    for record in records {
        let found = store.shared.find(&mut reader, Verb::Get, &record.scope, &record.key);
        if let Some(found) = found.await.unwrap() {
            assert_eq!(found, *record, "what is read is what was written");
            left.insert((record.scope.clone(), record.key.clone()));
        }
    }
    left
}

fn sort_of(record: &Record, now: Timestamp) -> Option<StateFilter> {
    match record.state {
        State::InProgress { .. } if transition::is_lapsed(record, now) => Some(StateFilter::Lapsed),
        State::InProgress { .. } => Some(StateFilter::Live),
        State::Completed { .. } => {
            transition::visible(Some(record), now).map(|_| StateFilter::Completed)
        }
    }
}

fn counted(records: &[Record], now: Timestamp) -> Stats {
    let mut stats = Stats { outbox_pending: Some(0), ..Stats::default() };
    for record in records {
        match (sort_of(record, now), &record.state) {
            (Some(StateFilter::Live), _) => stats.live += 1,
            (Some(StateFilter::Completed), _) => stats.completed += 1,
            (None, _) => stats.expired += 1,
            (Some(StateFilter::Lapsed), State::InProgress { locked_until, recovery, .. }) => {
                stats.oldest_lapse = stats.oldest_lapse.max(Some(now.since(*locked_until)));
                match recovery {
                    Some(_) => stats.lapsed_begun += 1,
                    None => stats.lapsed_not_begun += 1,
                }
            }
            (Some(StateFilter::Lapsed), _) => unreachable!(),
        }
    }
    stats
}

async fn compare(records: Vec<Record>) {
    let (_directory, store, now) = filled(&records).await;
    assert_eq!(left(&store, &records).await, identities(&records));

    let lapsed = store.lapsed(None, 1_000).await.unwrap();
    let seen = identities(lapsed.records.iter().map(|seen| &seen.record));
    let pure = records.iter().filter(|record| transition::is_lapsed(record, now));
    assert_eq!(seen, identities(pure), "lapsed");

    assert_eq!(store.stats().await.unwrap(), counted(&records, now), "stats");

    let states = [StateFilter::Live, StateFilter::Lapsed, StateFilter::Completed];
    for state in states.map(Some).into_iter().chain([None]) {
        let mut filter = Filter::all();
        filter.state = state;
        let listed = store.list(&filter, None, 1_000).await.unwrap();
        let seen = identities(listed.records.iter().map(|seen| &seen.record));
        let pure = records.iter().filter(|record| match sort_of(record, now) {
            None => false,
            sort => state.is_none() || sort == state,
        });
        assert_eq!(seen, identities(pure), "list {state:?}");
    }

    let (swept, kept): (Vec<Record>, Vec<Record>) =
        records.iter().cloned().partition(|record| transition::is_sweepable(record, now));
    let some = (swept.len() as u32 / 2).max(1);
    let first = store.sweep(some).await.unwrap();
    assert_eq!(first.deleted, some.min(swept.len() as u32), "sweep");
    assert_eq!(first.more, swept.len() as u32 > some, "more to sweep");
    store.sweep(1_000).await.unwrap();
    assert_eq!(left(&store, &records).await, identities(&kept), "swept");

    let scope = Scope::new("a").unwrap();
    let gone = |record: &&Record| record.scope == scope && transition::is_forgettable(record);
    let forgotten = store.forget(&scope, 1_000).await.unwrap();
    assert_eq!(forgotten.deleted, kept.iter().filter(gone).count() as u64, "forget");
    let here = kept.iter().filter(|record| record.scope == scope).count() as u64;
    assert_eq!(forgotten.in_progress, here - forgotten.deleted, "in progress");
    let stay = kept.iter().filter(|record| !gone(record));
    assert_eq!(left(&store, &records).await, identities(stay), "forgotten");
    store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn conditions_agree_with_the_rules(records in proptest::collection::vec(record(), 0..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(compare(records));
    }
}

/// Each of these statements has an index that gives its rows, so that it stays fast in a big
/// table.
#[tokio::test]
async fn housekeeping_does_not_scan_the_table() {
    let (_directory, store, _) = filled(&[]).await;
    let statements = &store.shared.statements;
    for (statement, index) in [
        (&statements.find, "(scope=? AND key=?)"),
        (&statements.lapsed, "idem_records_lapsed"),
        (&statements.lapsed_after, "idem_records_lapsed"),
        (&statements.sweep, "idem_records_expired"),
        (&statements.sweep, "idem_records_lapsed"),
        (&statements.sweep_more, "idem_records_expired"),
        (&statements.list, "(scope,key)>(?,?)"),
        (&statements.list_in_scope, "(scope=? AND key>?)"),
        (&statements.forget, "(scope=?)"),
        (&statements.count_scope, "(scope=?)"),
        (&statements.outbox_pending, "USING COVERING INDEX idem_outbox_waiting"),
    ] {
        let explain = format!("EXPLAIN QUERY PLAN {}", statement.as_str());
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(crate::sql::sql(explain))
            .fetch_all(&store.shared.pools.readers)
            .await
            .unwrap();
        let plan: Vec<String> = plan.into_iter().map(|(_, _, _, step)| step).collect();
        assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:#?}");
        let sorted = plan.iter().any(|step| step.contains("TEMP B-TREE"));
        assert!(!sorted, "it sorts: {plan:#?}");
    }
    store.close().await;
}
