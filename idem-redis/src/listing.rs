//! What goes through all partitions: paging, sweeping, and reading many records.

use std::future::Future;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use idem_core::cursor::LapsedPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::record::{Observed, State};
use idem_core::store::{Cursor, Page, Swept, page_size};
use idem_core::time::Timestamp;
use idem_core::transition::is_lapsed;
use redis::Value;

use crate::answer::{Answer, bytes, corrupt, number};
use crate::ask::{flag, text};
use crate::row;
use crate::schema::{self, Index, PARTITIONS};
use crate::script;
use crate::store::RedisStore;

/// How many partitions are asked at a time.
const AT_ONCE: usize = 16;
/// How many records one script reads or judges.
pub(crate) const BATCH: usize = 64;
/// How many bytes one script reads, unless its first record has more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// A page ends early once its replies, inputs and recovery points have this many bytes.
pub const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// An entry of an index by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Timestamp,
    identity: Vec<u8>,
}

/// Lapsed records, oldest lease first. The indexes say which; each record then says for itself
/// whether it still is, and one that was renewed in between is left out.
pub(crate) async fn lapsed(
    store: &RedisStore,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page, StoreError> {
    let verb = Verb::Lapsed;
    let after = after.map(LapsedPosition::from_cursor).transpose()?.map(|position| Due {
        at: position.locked_until,
        identity: schema::identity(&position.scope, &position.key),
    });
    let limit = page_size(limit) as usize;
    let indexes = [Index::FreshLeases, Index::BegunLeases];
    let mut found = due(store, verb, &indexes, after.as_ref(), limit + 1).await?;
    found.sort();
    let mut more = found.len() > limit;
    found.truncate(limit);
    let identities: Vec<Vec<u8>> = found.iter().map(|due| due.identity.clone()).collect();
    let seen = read(store, verb, &identities).await?;
    let (mut records, mut bytes, mut last) = (Vec::new(), 0, None);
    for (due, seen) in found.into_iter().zip(seen) {
        if matches!(seen, Seen::Later) || bytes >= MAX_PAGE_BYTES {
            more = true;
            break;
        }
        if let Seen::Found(seen) = seen
            && is_lapsed(&seen.record, seen.now)
            && lease_end(&seen) == Some(due.at)
        {
            bytes += size(&seen);
            records.push(*seen);
        }
        last = Some(due);
    }
    let next = last.filter(|_| more).map(|last| cursor(verb, &last)).transpose()?;
    Ok(Page { records, next })
}

/// Deletes what may be swept. Candidates come from the indexes; each is judged again where it is
/// deleted.
pub(crate) async fn sweep(store: &RedisStore, limit: u32) -> Result<Swept, StoreError> {
    let verb = Verb::Sweep;
    let limit = page_size(limit) as usize;
    let indexes = [Index::Expiries, Index::Unbegun];
    let mut found = due(store, verb, &indexes, None, limit + 1).await?;
    found.sort();
    let more = found.len() > limit;
    found.truncate(limit);
    let identities: Vec<Vec<u8>> = found.into_iter().map(|due| due.identity).collect();
    let identities = identities.as_slice();
    let batches = batches(identities).into_iter().map(|(partition, members)| async move {
        let keys = keys(store, partition, members.iter().map(|&at| identities[at].as_slice()));
        let arguments = [flag(store.shared.link.waits())];
        let value = store.shared.link.run(verb, &script::SWEEP, &keys, &arguments).await?;
        Answer::new(verb, Value::Array(vec![value]))?.number::<u32>()
    });
    let deleted: Vec<u32> = at_once(batches).await?;
    Ok(Swept { deleted: deleted.into_iter().sum(), more })
}

/// What reading one record gave.
pub(crate) enum Seen {
    /// As it stands, expired or not.
    Found(Box<Observed>),
    /// There is none.
    Absent,
    /// It was put off, since others before it are large: ask again.
    Later,
}

/// Reads records by their identities, in that order. The first one is never put off.
pub(crate) async fn read(
    store: &RedisStore,
    verb: Verb,
    identities: &[Vec<u8>],
) -> Result<Vec<Seen>, StoreError> {
    let batches = batches(identities).into_iter().map(|(partition, members)| async move {
        let names = &store.shared.names;
        let keys: Vec<Vec<u8>> =
            members.iter().map(|&at| names.record(partition, &identities[at])).collect();
        let budget = [text(BATCH_BYTES)];
        let value = store.shared.link.run(verb, &script::READ, &keys, &budget).await?;
        let mut answer = Answer::new(verb, value)?;
        let now = answer.timestamp()?;
        let records = members.iter().zip(answer.rest());
        records
            .map(|(&at, fields)| Ok((at, seen(verb, &identities[at], fields, now)?)))
            .collect::<Result<Vec<_>, StoreError>>()
    });
    let mut all: Vec<Seen> = identities.iter().map(|_| Seen::Later).collect();
    for (at, record) in at_once(batches).await?.into_iter().flatten() {
        all[at] = record;
    }
    Ok(all)
}

/// How many bytes of payload a record brings into a page.
pub(crate) fn size(seen: &Observed) -> usize {
    let record = &seen.record;
    let state = match &record.state {
        State::InProgress { recovery, .. } => {
            recovery.as_ref().map_or(0, |recovery| recovery.payload.len())
        }
        State::Completed { reply, .. } => reply.len(),
    };
    record.input.as_ref().map_or(0, |input| input.len()) + state
}

/// Does something for every partition, some at a time; the answers come in the partitions' order.
pub(crate) async fn each_partition<T, F: Future<Output = Result<T, StoreError>>>(
    doing: impl Fn(u8) -> F,
) -> Result<Vec<T>, StoreError> {
    at_once((0..PARTITIONS).map(doing)).await
}

/// The keys of a script that changes several records of one partition.
pub(crate) fn keys<'i>(
    store: &RedisStore,
    partition: u8,
    identities: impl Iterator<Item = &'i [u8]>,
) -> Vec<Vec<u8>> {
    let names = &store.shared.names;
    let mut keys = names.indexes(partition);
    keys.extend(identities.map(|identity| names.record(partition, identity)));
    keys
}

/// Entries of some indexes of every partition that have come due.
async fn due(
    store: &RedisStore,
    verb: Verb,
    indexes: &[Index],
    after: Option<&Due>,
    most: usize,
) -> Result<Vec<Due>, StoreError> {
    let (at, identity) = match after {
        Some(due) => (text(due.at.as_unix_micros()), due.identity.clone()),
        None => (Vec::new(), Vec::new()),
    };
    let arguments = [at, identity, text(most)];
    let arguments = &arguments;
    let found = each_partition(|partition| async move {
        let names = &store.shared.names;
        let keys: Vec<Vec<u8>> =
            indexes.iter().map(|index| names.index(partition, *index)).collect();
        let value = store.shared.link.run(verb, &script::DUE, &keys, arguments).await?;
        let mut answer = Answer::new(verb, value)?;
        answer.timestamp()?;
        let mut found = Vec::new();
        for entries in answer.rest() {
            let Value::Array(entries) = entries else { return Err(corrupt(verb)) };
            let mut entries = entries.into_iter().map(bytes);
            while let Some(identity) = entries.next() {
                let at = entries.next().flatten().and_then(|at| number(&at));
                let (Some(identity), Some(at)) = (identity, at) else { return Err(corrupt(verb)) };
                found.push(Due { at: Timestamp::from_unix_micros(at), identity });
            }
        }
        Ok(found)
    });
    Ok(found.await?.into_iter().flatten().collect())
}

fn seen(verb: Verb, identity: &[u8], fields: Value, now: Timestamp) -> Result<Seen, StoreError> {
    match &fields {
        Value::Nil => return Ok(Seen::Absent),
        Value::BulkString(word) if word == b"later" => return Ok(Seen::Later),
        _ => {}
    }
    let (scope, key) = schema::parse_identity(identity).ok_or_else(|| corrupt(verb))?;
    let record = row::decode(verb, scope, key, fields)?;
    Ok(Seen::Found(Box::new(Observed { record, now })))
}

fn lease_end(seen: &Observed) -> Option<Timestamp> {
    match seen.record.state {
        State::InProgress { locked_until, .. } => Some(locked_until),
        State::Completed { .. } => None,
    }
}

fn cursor(verb: Verb, due: &Due) -> Result<Cursor, StoreError> {
    let (scope, key) = schema::parse_identity(&due.identity).ok_or_else(|| corrupt(verb))?;
    Ok(LapsedPosition { locked_until: due.at, scope, key }.to_cursor())
}

/// Positions in `identities`, by partition, no more than [`BATCH`] to a group.
fn batches(identities: &[Vec<u8>]) -> Vec<(u8, Vec<usize>)> {
    let mut groups = vec![Vec::new(); usize::from(PARTITIONS)];
    for (at, identity) in identities.iter().enumerate() {
        groups[usize::from(schema::partition(identity))].push(at);
    }
    let split = |(partition, group): (u8, Vec<usize>)| {
        let parts: Vec<Vec<usize>> = group.chunks(BATCH).map(<[usize]>::to_vec).collect();
        parts.into_iter().map(move |part| (partition, part))
    };
    (0..PARTITIONS).zip(groups).flat_map(split).collect()
}

async fn at_once<T, F: Future<Output = Result<T, StoreError>>>(
    doing: impl Iterator<Item = F>,
) -> Result<Vec<T>, StoreError> {
    stream::iter(doing).buffered(AT_ONCE).try_collect().await
}
