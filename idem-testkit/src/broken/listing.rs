//! Lists, sweeps and counts over the workshop's records, with the choice left to the caller.

use idem_core::admin::{Filter, Forgotten, StateFilter, Stats};
use idem_core::cursor::{LapsedPosition, ListPosition};
use idem_core::error::StoreError;
use idem_core::key::Scope;
use idem_core::record::{Observed, Record, State};
use idem_core::store::{Cursor, Page, Swept, page_size};
use idem_core::time::Timestamp;
use idem_core::transition;

use super::workshop::{Data, Identity};

pub(super) fn lapsed(
    data: &Data,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
    is_listed: impl Fn(&Record, Timestamp) -> bool,
) -> Result<Page, StoreError> {
    let after = after.map(LapsedPosition::from_cursor).transpose()?;
    let mut found = positions(data, now, is_listed);
    found.retain(|(position, _)| after.as_ref().is_none_or(|after| position > after));
    let more = found.len() > size(limit);
    found.truncate(size(limit));
    let next = found.last().filter(|_| more).map(|(position, _)| position.to_cursor());
    Ok(Page { records: found.into_iter().map(|(_, seen)| seen).collect(), next })
}

/// Records in progress with their positions, in order.
pub(super) fn positions(
    data: &Data,
    now: Timestamp,
    is_listed: impl Fn(&Record, Timestamp) -> bool,
) -> Vec<(LapsedPosition, Observed)> {
    let mut found: Vec<_> = data
        .records
        .values()
        .filter(|record| is_listed(record, now))
        .filter_map(|record| {
            let seen = Observed { record: record.clone(), now };
            Some((LapsedPosition::of(&seen)?, seen))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

pub(super) fn sweep(
    data: &mut Data,
    limit: u32,
    now: Timestamp,
    is_sweepable: impl Fn(&Record, Timestamp) -> bool,
) -> Swept {
    let doomed: Vec<Identity> = data
        .records
        .iter()
        .filter(|(_, record)| is_sweepable(record, now))
        .map(|(identity, _)| identity.clone())
        .collect();
    let batch = doomed.len().min(size(limit));
    for identity in &doomed[..batch] {
        data.records.remove(identity);
    }
    let deleted = u32::try_from(batch).expect("a batch is small");
    Swept { deleted, more: doomed.len() > batch }
}

pub(super) fn stats(data: &Data, now: Timestamp) -> Stats {
    let mut stats = Stats { outbox_pending: Some(data.messages), ..Stats::default() };
    for record in data.records.values() {
        match &record.state {
            State::InProgress { locked_until, recovery, .. } if *locked_until <= now => {
                stats.oldest_lapse = stats.oldest_lapse.max(Some(now.since(*locked_until)));
                match recovery {
                    Some(_) => stats.lapsed_begun += 1,
                    None => stats.lapsed_not_begun += 1,
                }
            }
            State::InProgress { .. } => stats.live += 1,
            State::Completed { .. } if transition::is_sweepable(record, now) => stats.expired += 1,
            State::Completed { .. } => stats.completed += 1,
        }
    }
    stats
}

pub(super) fn list(
    data: &Data,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let after = after.map(ListPosition::from_cursor).transpose()?;
    let mut records: Vec<Observed> = data
        .records
        .values()
        .filter(|record| passes(record, filter, now))
        .map(|record| Observed { record: record.clone(), now })
        .collect();
    records.sort_by(|a, b| key_of(a).cmp(&key_of(b)));
    records.retain(|seen| after.as_ref().is_none_or(|after| ListPosition::of(seen) > *after));
    let more = records.len() > size(limit);
    records.truncate(size(limit));
    let next = records.last().filter(|_| more).map(|seen| ListPosition::of(seen).to_cursor());
    Ok(Page { records, next })
}

pub(super) fn forget(
    data: &mut Data,
    limit: u32,
    is_of_scope: impl Fn(&Record) -> bool,
    is_forgettable: impl Fn(&Record) -> bool,
) -> Forgotten {
    let mut forgotten = Forgotten::default();
    data.records.retain(|_, record| {
        if !is_of_scope(record) {
            return true;
        }
        if !is_forgettable(record) {
            forgotten.in_progress += 1;
            return true;
        }
        if forgotten.deleted == u64::from(page_size(limit)) {
            forgotten.more = true;
            return true;
        }
        forgotten.deleted += 1;
        false
    });
    forgotten
}

pub(super) fn passes(record: &Record, filter: &Filter, now: Timestamp) -> bool {
    let state = match record.state {
        State::InProgress { locked_until, .. } if locked_until <= now => StateFilter::Lapsed,
        State::InProgress { .. } => StateFilter::Live,
        State::Completed { .. } => StateFilter::Completed,
    };
    transition::visible(Some(record), now).is_some()
        && filter.scope.as_ref().is_none_or(|scope| *scope == record.scope)
        && filter.operation.as_ref().is_none_or(|operation| *operation == record.operation)
        && filter.state.is_none_or(|wanted| wanted == state)
}

fn key_of(seen: &Observed) -> (&Scope, &[u8]) {
    (&seen.record.scope, seen.record.key.as_bytes())
}

pub(super) fn size(limit: u32) -> usize {
    usize::try_from(page_size(limit)).expect("a page is small")
}
