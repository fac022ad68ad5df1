//! Putting a record into the server as this layout has it, and looking at all that stands.

use std::collections::BTreeMap;

use idem_core::error::Verb;
use idem_core::key::{Key, Scope};
use idem_core::record::{Record, Retention, State};
use idem_core::time::{Timestamp, micros};
use redis::{Cmd, Value, cmd};

use crate::ask::text;
use crate::listing;
use crate::schema::{Index, identity, partition};
use crate::store::RedisStore;

/// What stands for one identity: the record, its place in each index, and its time to live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) record: Option<Record>,
    pub(crate) places: BTreeMap<char, i64>,
    pub(crate) expires_natively: bool,
}

impl Standing {
    /// What must stand for a record.
    pub(crate) fn of(record: Option<&Record>) -> Self {
        let places = record.map(places).unwrap_or_default();
        let expires = record.is_some_and(|record| {
            matches!(record.state, State::Completed { expires_at: Some(_), .. })
        });
        Self { record: record.cloned(), places, expires_natively: expires }
    }
}

/// Where a record stands in the indexes.
fn places(record: &Record) -> BTreeMap<char, i64> {
    let mut places = BTreeMap::from([('i', 0)]);
    match &record.state {
        State::Completed { expires_at, .. } => {
            places.extend(expires_at.map(|at| ('e', at.as_unix_micros())));
        }
        State::InProgress { locked_until, recovery, .. } => {
            let lease = locked_until.as_unix_micros();
            places.insert(if recovery.is_some() { 'b' } else { 'f' }, lease);
            let total = record.retention.total().filter(|_| recovery.is_none());
            if let (true, Some(total)) = (record.marks_begun, total) {
                places.insert('w', lease.max(record.created_at.after(total).as_unix_micros()));
            }
        }
    }
    places
}

/// Replaces what stands for a record's identity.
pub(crate) async fn plant(store: &RedisStore, scope: &Scope, key: &Key, record: Option<&Record>) {
    let (name, indexes) = names(store, scope, key);
    let id = identity(scope, key);
    run(store, cmd("DEL").arg(&name).to_owned()).await;
    for (letter, index) in &indexes {
        if *letter != 'n' {
            run(store, cmd("ZREM").arg(index).arg(&id).to_owned()).await;
        }
    }
    let Some(record) = record else { return };
    let mut set = cmd("HSET");
    set.arg(&name);
    for (field, value) in fields(record) {
        set.arg(field).arg(value);
    }
    run(store, set).await;
    for (letter, score) in places(record) {
        run(store, cmd("ZADD").arg(&indexes[&letter]).arg(score).arg(&id).to_owned()).await;
    }
    if let State::Completed { expires_at: Some(_), .. } = record.state {
        // Far off, so that only the record's own time decides.
        run(store, cmd("PEXPIRE").arg(&name).arg(86_400_000).to_owned()).await;
    }
}

/// What stands for an identity now.
pub(crate) async fn look(store: &RedisStore, scope: &Scope, key: &Key) -> Standing {
    let (name, indexes) = names(store, scope, key);
    let id = identity(scope, key);
    let seen = listing::read(store, Verb::Get, std::slice::from_ref(&id)).await.unwrap();
    let mut found = BTreeMap::new();
    for (letter, index) in &indexes {
        if *letter != 'n' {
            let place = run(store, cmd("ZSCORE").arg(index).arg(&id).to_owned()).await;
            found.extend(score(place).map(|score| (*letter, score)));
        }
    }
    let left = run(store, cmd("PTTL").arg(&name).to_owned()).await;
    let expires_natively = matches!(left, Value::Int(left) if left > 0);
    let record = match seen.into_iter().next() {
        Some(listing::Seen::Found(seen)) => Some(seen.record),
        _ => None,
    };
    Standing { record, places: found, expires_natively }
}

pub(crate) async fn server_time(store: &RedisStore) -> Timestamp {
    let answers = store.shared.link.ask_each(Verb::Get, &["TIME"]).await.unwrap();
    let Some(Value::Array(parts)) = answers.into_iter().next() else { panic!("no time") };
    let part = |value: &Value| -> i64 {
        let Value::BulkString(digits) = value else { panic!("no time") };
        std::str::from_utf8(digits).unwrap().parse().unwrap()
    };
    Timestamp::from_unix_micros(part(&parts[0]) * 1_000_000 + part(&parts[1]))
}

fn names(store: &RedisStore, scope: &Scope, key: &Key) -> (Vec<u8>, BTreeMap<char, Vec<u8>>) {
    let id = identity(scope, key);
    let partition = partition(&id);
    let names = &store.shared.names;
    let indexes = [
        ('i', Index::Identities),
        ('f', Index::FreshLeases),
        ('b', Index::BegunLeases),
        ('e', Index::Expiries),
        ('w', Index::Unbegun),
        ('n', Index::Lives),
    ];
    let indexes = indexes.map(|(letter, index)| (letter, names.index(partition, index)));
    (names.record(partition, &id), indexes.into())
}

async fn run(store: &RedisStore, command: Cmd) -> Value {
    store.shared.link.run_plain(&command).await.unwrap()
}

fn score(value: Value) -> Option<i64> {
    match value {
        Value::Nil => None,
        Value::Double(score) => Some(score as i64),
        Value::BulkString(text) => {
            Some(std::str::from_utf8(&text).unwrap().parse::<f64>().unwrap() as i64)
        }
        other => panic!("not a score: {other:?}"),
    }
}

/// The fields of a record, written down a second time, apart from the scripts that write them.
fn fields(record: &Record) -> Vec<(&'static str, Vec<u8>)> {
    let flag = |set: bool| if set { b"1".to_vec() } else { b"0".to_vec() };
    let at = |time: Timestamp| text(time.as_unix_micros());
    let mut fields = vec![
        ("v", b"1".to_vec()),
        ("op", record.operation.as_str().into()),
        ("fs", text(record.fingerprint.scheme().as_byte())),
        ("fd", record.fingerprint.digest().to_vec()),
        ("at", text(record.attempt)),
        ("ow", record.owner.as_bytes().to_vec()),
        ("ic", record.incarnation.as_bytes().to_vec()),
        ("ca", at(record.created_at)),
        ("mb", flag(record.marks_begun)),
    ];
    match record.retention {
        Retention::For { total, after_completion } => {
            fields.push(("rt", text(micros(total))));
            fields.push(("ra", text(micros(after_completion))));
        }
        _ => fields.push(("rt", b"forever".to_vec())),
    }
    fields.extend(record.input.as_ref().map(|input| ("in", input.as_bytes().to_vec())));
    match &record.state {
        State::InProgress { locked_until, given_up, recovery } => {
            fields.push(("st", b"p".to_vec()));
            fields.push(("lu", at(*locked_until)));
            fields.push(("gu", flag(*given_up)));
            if let Some(recovery) = recovery {
                fields.push(("rn", text(recovery.number)));
                fields.push(("rp", recovery.payload.as_bytes().to_vec()));
            }
        }
        State::Completed { reply, completed_at, expires_at } => {
            fields.push(("st", b"c".to_vec()));
            fields.push(("re", reply.as_bytes().to_vec()));
            fields.push(("co", at(*completed_at)));
            fields.push(("ex", expires_at.map_or_else(|| b"never".to_vec(), at)));
        }
    }
    fields
}
