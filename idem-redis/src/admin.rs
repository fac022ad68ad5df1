//! What an operator asks of the store.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use idem_core::admin::{Admin, Filter, Forgotten, StateFilter, Stats};
use idem_core::async_trait;
use idem_core::cursor::ListPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::Scope;
use idem_core::record::{Fence, Observed, State};
use idem_core::store::{Cursor, Page, page_size};
use idem_core::transition::{is_lapsed, visible};
use redis::Value;

use crate::answer::{Answer, bytes, corrupt};
use crate::ask::{self, flag, text};
use crate::listing::{self, BATCH, MAX_PAGE_BYTES, Seen, each_partition};
use crate::schema::{self, Index, PARTITIONS};
use crate::script;
use crate::store::RedisStore;

/// How many identities are fetched from a partition at a time.
const FETCH: usize = 256;

#[async_trait]
impl Admin for RedisStore {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let parts = each_partition(|partition| async move {
            let indexes =
                [Index::Identities, Index::FreshLeases, Index::BegunLeases, Index::Expiries];
            let keys = indexes.map(|index| self.shared.names.index(partition, index));
            let value = self.shared.link.run(Verb::Stats, &script::STATS, &keys, &[]).await?;
            let mut answer = Answer::new(Verb::Stats, value)?;
            let counts = Stats {
                live: answer.number()?,
                lapsed_begun: answer.number()?,
                lapsed_not_begun: answer.number()?,
                completed: answer.number()?,
                expired: answer.number()?,
                oldest_lapse: None,
                outbox_pending: None,
            };
            let oldest = answer.bytes()?;
            let oldest = crate::answer::number(&oldest).and_then(|age| u64::try_from(age).ok());
            Ok(Stats { oldest_lapse: oldest.map(std::time::Duration::from_micros), ..counts })
        });
        Ok(parts.await?.into_iter().fold(Stats::default(), add))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let after = after.map(ListPosition::from_cursor).transpose()?;
        let after = after.map(|position| schema::identity(&position.scope, &position.key));
        let limit = page_size(limit) as usize;
        let range = Range::of(filter.scope.as_ref(), after.as_deref());
        let mut merge = Merge::start(self, Verb::List, range, limit.min(FETCH)).await?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
        let mut last = None;
        loop {
            let short = BATCH.min(limit + 1).saturating_sub(waiting.len());
            waiting.extend(merge.take(self, short).await?);
            if waiting.is_empty() {
                return Ok(Page { records, next: None });
            }
            for seen in listing::read(self, Verb::List, waiting.make_contiguous()).await? {
                let found = match seen {
                    Seen::Later => break,
                    Seen::Absent => None,
                    Seen::Found(seen) => Some(*seen).filter(|seen| passes(seen, filter)),
                };
                // What comes after a full page shows that there is another one.
                if found.is_some() && (records.len() == limit || bytes >= MAX_PAGE_BYTES) {
                    let next = last.as_ref().map(ListPosition::to_cursor);
                    return Ok(Page { records, next });
                }
                if let Some(found) = found {
                    bytes += listing::size(&found);
                    last = Some(ListPosition::of(&found));
                    records.push(found);
                }
                waiting.pop_front();
            }
        }
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let mut forgotten = Forgotten::default();
        for partition in 0..PARTITIONS {
            let mut range = Range::of(Some(scope), None);
            loop {
                let names = range.fetch(self, Verb::Forget, partition, BATCH).await?;
                let Some(last) = names.last() else { break };
                let left = u64::from(page_size(limit)) - forgotten.deleted;
                let keys = listing::keys(self, partition, names.iter().map(Vec::as_slice));
                let arguments = [flag(self.shared.link.waits()), text(left)];
                let link = &self.shared.link;
                let value = link.run(Verb::Forget, &script::FORGET, &keys, &arguments).await?;
                let mut answer = Answer::new(Verb::Forget, value)?;
                match answer.bytes()?.as_slice() {
                    b"forgotten" => {}
                    other => return Err(answer.fault(other)),
                }
                forgotten.deleted += answer.number::<u64>()?;
                forgotten.in_progress += answer.number::<u64>()?;
                forgotten.more |= answer.number::<u64>()? > 0;
                range = range.after(last);
            }
        }
        Ok(forgotten)
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        ask::gone(self.ask_remove(fence).await?)
    }
}

fn add(sum: Stats, part: Stats) -> Stats {
    Stats {
        live: sum.live + part.live,
        lapsed_begun: sum.lapsed_begun + part.lapsed_begun,
        lapsed_not_begun: sum.lapsed_not_begun + part.lapsed_not_begun,
        completed: sum.completed + part.completed,
        expired: sum.expired + part.expired,
        oldest_lapse: sum.oldest_lapse.max(part.oldest_lapse),
        outbox_pending: None,
    }
}

fn passes(seen: &Observed, filter: &Filter) -> bool {
    let record = &seen.record;
    let state = match record.state {
        State::InProgress { .. } if is_lapsed(record, seen.now) => StateFilter::Lapsed,
        State::InProgress { .. } => StateFilter::Live,
        State::Completed { .. } => StateFilter::Completed,
    };
    visible(Some(record), seen.now).is_some()
        && filter.scope.as_ref().is_none_or(|scope| *scope == record.scope)
        && filter.operation.as_ref().is_none_or(|operation| *operation == record.operation)
        && filter.state.is_none_or(|wanted| wanted == state)
}

/// A part of the index of identities, as ZRANGEBYLEX takes it.
#[derive(Debug, Clone)]
struct Range {
    least: Vec<u8>,
    most: Vec<u8>,
}

impl Range {
    /// All of one scope, or everything; after an identity, if one is given.
    fn of(scope: Option<&Scope>, after: Option<&[u8]>) -> Self {
        let (mut least, most) = match scope.map(schema::scope_prefix) {
            None => (b"-".to_vec(), b"+".to_vec()),
            Some(prefix) => {
                // A prefix ends with a zero byte, so one in its place comes after all that have it.
                let mut end = prefix.clone();
                *end.last_mut().expect("a prefix ends with two zero bytes") = 1;
                (bound(b'[', &prefix), bound(b'(', &end))
            }
        };
        if let Some(after) = after
            && (least == b"-" || after > &least[1..])
        {
            least = bound(b'(', after);
        }
        Self { least, most }
    }

    fn after(&self, identity: &[u8]) -> Self {
        Self { least: bound(b'(', identity), most: self.most.clone() }
    }

    async fn fetch(
        &self,
        store: &RedisStore,
        verb: Verb,
        partition: u8,
        most: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let keys = [store.shared.names.index(partition, Index::Identities)];
        let arguments = [self.least.clone(), self.most.clone(), text(most)];
        let value = store.shared.link.run(verb, &script::NAMES, &keys, &arguments).await?;
        let Value::Array(names) = value else { return Err(corrupt(verb)) };
        names.into_iter().map(|name| bytes(name).ok_or_else(|| corrupt(verb))).collect()
    }
}

fn bound(kind: u8, identity: &[u8]) -> Vec<u8> {
    let mut bound = vec![kind];
    bound.extend_from_slice(identity);
    bound
}

/// The identities of all partitions as one ordered list.
struct Merge {
    verb: Verb,
    range: Range,
    fetch: usize,
    heads: BinaryHeap<Reverse<(Vec<u8>, u8)>>,
    rests: Vec<std::vec::IntoIter<Vec<u8>>>,
    /// Whether a partition may have more than was fetched of it.
    open: Vec<bool>,
}

impl Merge {
    async fn start(
        store: &RedisStore,
        verb: Verb,
        range: Range,
        fetch: usize,
    ) -> Result<Self, StoreError> {
        let first = &range;
        let parts = each_partition(|partition| first.fetch(store, verb, partition, fetch)).await?;
        let open = parts.iter().map(|part| part.len() == fetch).collect();
        let rests = parts.into_iter().map(Vec::into_iter).collect();
        let mut merge = Self { verb, range, fetch, heads: BinaryHeap::new(), rests, open };
        for partition in 0..PARTITIONS {
            if let Some(head) = merge.rests[usize::from(partition)].next() {
                merge.heads.push(Reverse((head, partition)));
            }
        }
        Ok(merge)
    }

    /// The next identities, at most `count`; none when there are no more.
    async fn take(&mut self, store: &RedisStore, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count
            && let Some(Reverse((identity, partition))) = self.heads.pop()
        {
            let at = usize::from(partition);
            let mut head = self.rests[at].next();
            if head.is_none() && self.open[at] {
                let range = self.range.after(&identity);
                let part = range.fetch(store, self.verb, partition, self.fetch).await?;
                self.open[at] = part.len() == self.fetch;
                self.rests[at] = part.into_iter();
                head = self.rests[at].next();
            }
            self.heads.extend(head.map(|head| Reverse((head, partition))));
            taken.push(identity);
        }
        Ok(taken)
    }
}
