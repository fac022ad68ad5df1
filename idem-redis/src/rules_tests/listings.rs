//! What goes through all partitions, on a random population.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter, Stats};
use idem_core::codec::Sealed;
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Record, State};
use idem_core::store::{Cursor, Page, Store};
use idem_core::time::Timestamp;
use idem_core::transition::{is_forgettable, is_lapsed, is_sweepable, visible};
use redis::cmd;

use super::draw::{Draw, fresh_seed};
use super::plant::{Standing, look, plant, server_time};
use super::stores;
use crate::schema::{Index, identity, partition};
use crate::store::RedisStore;

type Population = BTreeMap<(Scope, Key), Record>;

const SCOPES: [&str; 5] = ["a", "a\0", "a\0b", "b", "{a}"];

#[tokio::test(flavor = "multi_thread")]
async fn listings_and_sweeps_choose_as_the_pure_rules_do() {
    let seed = fresh_seed();
    println!("seed {seed}: set IDEM_SEED to it to run this again");
    for (server, store) in stores().await {
        println!("{server}");
        let mut draw = Draw::new(seed);
        let (now, mut population) = populate(&store, &mut draw).await;
        assert_eq!(count(&store).await, expected_stats(&population, now));
        check_lapsed(&store, &population, now).await;
        check_list(&store, &mut draw, &population, now).await;
        check_forget(&store, &mut population).await;
        check_sweep(&store, &mut population, now).await;
        for ((scope, key), record) in &population {
            assert_eq!(look(&store, scope, key).await.record.as_ref(), Some(record));
        }
    }
}

/// Entries that are out of date, as where a record changes between the look into an index and the
/// sweep: each record is judged again, and stands in the indexes as it should afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_is_misled_deletes_only_what_may_go_and_puts_the_indexes_right() {
    let seed = fresh_seed();
    println!("seed {seed}: set IDEM_SEED to it to run this again");
    for (server, store) in stores().await {
        let (now, population) = populate(&store, &mut Draw::new(seed)).await;
        for (scope, key) in population.keys() {
            let id = identity(scope, key);
            for index in [Index::Expiries, Index::Unbegun] {
                let name = store.shared.names.index(partition(&id), index);
                let entry = cmd("ZADD").arg(name).arg(1).arg(&id).to_owned();
                store.shared.link.run_plain(&entry).await.unwrap();
            }
        }
        let due = population.values().filter(|record| is_sweepable(record, now)).count();
        let swept = store.sweep(1_000).await.unwrap();
        assert_eq!((swept.deleted as usize, swept.more), (due, false), "{server}");
        for ((scope, key), record) in &population {
            let left = Some(record).filter(|record| !is_sweepable(record, now));
            assert_eq!(look(&store, scope, key).await, Standing::of(left), "{server}: {record:?}");
        }
    }
}

/// A page of large records ends early, and the rest is on the next ones.
#[tokio::test(flavor = "multi_thread")]
async fn pages_are_bounded_in_bytes() {
    for (server, store) in stores().await {
        let now = server_time(&store).await;
        let (mut draw, scope) = (Draw::new(1), Scope::new("s").unwrap());
        for number in 0..9 {
            let key = Key::new(format!("k{number}")).unwrap();
            let mut record = draw.record(&scope, &key, now);
            let payload = Sealed::from_bytes(vec![b'x'; 5 * 1024 * 1024]);
            record.input = Some(payload);
            record.state = State::InProgress { locked_until: now, given_up: false, recovery: None };
            plant(&store, &scope, &key, Some(&record)).await;
        }
        let (mut lapsed, mut listed, mut pages) = (0, 0, 0);
        let mut after = None;
        loop {
            let page = store.lapsed(after.as_ref(), 1_000).await.unwrap();
            assert!((1..=4).contains(&page.records.len()), "{server}: {}", page.records.len());
            lapsed += page.records.len();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = store.list(&Filter::all(), after.as_ref(), 1_000).await.unwrap();
            assert!((1..=4).contains(&page.records.len()), "{server}: {}", page.records.len());
            (listed, pages) = (listed + page.records.len(), pages + 1);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((lapsed, listed, pages), (9, 9, 3), "{server}");
    }
}

/// Records whose times are at least a minute from now, so that no verdict turns during the test.
async fn populate(store: &RedisStore, draw: &mut Draw) -> (Timestamp, Population) {
    let now = server_time(store).await;
    let mut population = Population::new();
    for number in 0..150_u32 {
        let scope = Scope::new(draw.pick(&SCOPES)).unwrap();
        let key = Key::opaque(format!("k{}\0{number}", draw.below(9))).unwrap();
        let mut record = draw.record(&scope, &key, now);
        let mut settle = |at: &mut Timestamp| {
            let minutes = i64::try_from(draw.below(100)).unwrap() - 50;
            let apart = if minutes < 0 { minutes - 1 } else { minutes + 1 };
            *at = Timestamp::from_unix_micros(now.as_unix_micros() + apart * 60_000_000);
        };
        settle(&mut record.created_at);
        match &mut record.state {
            State::InProgress { locked_until, .. } => settle(locked_until),
            State::Completed { expires_at: Some(at), .. } => settle(at),
            State::Completed { .. } => {}
        }
        if let Some(total) = record.retention.total()
            && record.created_at.after(total).since(now) < Duration::from_secs(60)
            && now.since(record.created_at.after(total)) < Duration::from_secs(60)
        {
            continue;
        }
        plant(store, &scope, &key, Some(&record)).await;
        population.insert((scope, key), record);
    }
    (now, population)
}

async fn count(store: &RedisStore) -> Stats {
    let stats = store.stats().await.unwrap();
    // Only the whole minutes: time passes between planting and counting.
    let minutes = stats.oldest_lapse.map(|age| Duration::from_secs(age.as_secs() / 60 * 60));
    Stats { oldest_lapse: minutes, ..stats }
}

fn expected_stats(population: &Population, now: Timestamp) -> Stats {
    let mut stats = Stats::default();
    for record in population.values() {
        match &record.state {
            State::InProgress { locked_until, recovery, .. } if *locked_until <= now => {
                stats.oldest_lapse = stats.oldest_lapse.max(Some(now.since(*locked_until)));
                match recovery {
                    Some(_) => stats.lapsed_begun += 1,
                    None => stats.lapsed_not_begun += 1,
                }
            }
            State::InProgress { .. } => stats.live += 1,
            State::Completed { .. } if is_sweepable(record, now) => stats.expired += 1,
            State::Completed { .. } => stats.completed += 1,
        }
    }
    stats
}

async fn check_lapsed(store: &RedisStore, population: &Population, now: Timestamp) {
    let mut expected: Vec<&Record> =
        population.values().filter(|record| is_lapsed(record, now)).collect();
    expected.sort_by_key(|record| {
        let State::InProgress { locked_until, .. } = record.state else { unreachable!() };
        (locked_until, &record.scope, &record.key)
    });
    for limit in [1, 7, 1_000] {
        let seen = pages(async |after| store.lapsed(after, limit).await.unwrap(), limit).await;
        assert!(seen.iter().eq(expected.iter().copied()), "pages of {limit}");
    }
}

async fn check_list(store: &RedisStore, draw: &mut Draw, population: &Population, now: Timestamp) {
    let states = [StateFilter::Live, StateFilter::Lapsed, StateFilter::Completed];
    for _ in 0..12 {
        let mut filter = Filter::all();
        if draw.one_in(2) {
            filter = filter.scope(Scope::new(draw.pick(&SCOPES)).unwrap());
        }
        if draw.one_in(3) {
            filter = filter.operation(OperationName::new("refund").unwrap());
        }
        if draw.one_in(2) {
            filter = filter.state(draw.pick(&states));
        }
        let expected: Vec<&Record> =
            population.values().filter(|record| is_listed(record, &filter, now)).collect();
        let limit = draw.pick(&[1, 5, 64, 1_000]);
        let list = async |after: Option<&Cursor>| store.list(&filter, after, limit).await.unwrap();
        let seen = pages(list, limit).await;
        assert!(seen.iter().eq(expected.iter().copied()), "{filter:?}, pages of {limit}");
    }
}

fn is_listed(record: &Record, filter: &Filter, now: Timestamp) -> bool {
    let state = match record.state {
        State::InProgress { .. } if is_lapsed(record, now) => StateFilter::Lapsed,
        State::InProgress { .. } => StateFilter::Live,
        State::Completed { .. } => StateFilter::Completed,
    };
    visible(Some(record), now).is_some()
        && filter.scope.as_ref().is_none_or(|scope| record.scope == *scope)
        && filter.operation.as_ref().is_none_or(|operation| record.operation == *operation)
        && filter.state.is_none_or(|wanted| wanted == state)
}

async fn check_forget(store: &RedisStore, population: &mut Population) {
    let scope = Scope::new("a\0").unwrap();
    let of = |population: &Population, forgettable| -> u64 {
        let all = population.values().filter(|record| record.scope == scope);
        all.filter(|record| is_forgettable(record) == forgettable).count() as u64
    };
    let (mut left, in_progress) = (of(population, true), of(population, false));
    loop {
        let forgotten = store.forget(&scope, 3).await.unwrap();
        assert_eq!(forgotten.in_progress, in_progress);
        assert_eq!(forgotten.deleted, left.min(3));
        left -= forgotten.deleted;
        assert_eq!(forgotten.more, left > 0);
        if !forgotten.more {
            break;
        }
    }
    population.retain(|_, record| record.scope != scope || !is_forgettable(record));
}

async fn check_sweep(store: &RedisStore, population: &mut Population, now: Timestamp) {
    let doomed = population.values().filter(|record| is_sweepable(record, now)).count();
    let mut left = u32::try_from(doomed).unwrap();
    loop {
        let swept = store.sweep(5).await.unwrap();
        assert_eq!(swept.deleted, left.min(5));
        left -= swept.deleted;
        assert_eq!(swept.more, left > 0);
        if !swept.more {
            break;
        }
    }
    population.retain(|_, record| !is_sweepable(record, now));
    assert_eq!(count(store).await, expected_stats(population, now));
}

/// All pages one after the other; none is longer than it may be, and none but the last shorter.
async fn pages(page: impl AsyncFn(Option<&Cursor>) -> Page, limit: u32) -> Vec<Record> {
    let mut records = Vec::new();
    let mut after = None;
    loop {
        let Page { records: some, next } = page(after.as_ref()).await;
        assert!(some.len() <= limit as usize);
        assert!(next.is_none() || some.len() == limit as usize);
        records.extend(some.into_iter().map(|seen| seen.record));
        after = next;
        if after.is_none() {
            return records;
        }
    }
}
