//! Stores whose operator's verbs delete too much, or tell something else than there is.

use idem_core::admin::{Filter, Forgotten, Stats};
use idem_core::cursor::ListPosition;
use idem_core::error::StoreError;
use idem_core::key::Scope;
use idem_core::record::{Fence, Observed, Record, State};
use idem_core::store::{Cursor, MAX_PAGE, Page};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Change, Decision};

use super::BrokenStore;
use super::listing;
use super::rules::Rules;
use super::workshop::Data;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "forget-takes-live-work",
            "forgetting a scope deletes what is in progress there, so that it runs twice",
            "R2, R10",
            "admin::forget_leaves_what_is_in_progress",
            Forgets(|data, scope, limit| {
                listing::forget(data, limit, |record| record.scope == *scope, |_| true)
            }),
        ),
        BrokenStore::new(
            "forget-goes-by-prefix",
            "forgetting a scope forgets every scope that begins like it",
            "R4",
            "admin::forget_stays_in_its_scope",
            Forgets(|data, scope, limit| {
                let alike = |record: &Record| record.scope.as_str().starts_with(scope.as_str());
                listing::forget(data, limit, alike, transition::is_forgettable)
            }),
        ),
        BrokenStore::new(
            "forget-without-a-limit",
            "forgetting deletes everything in one go",
            "R11",
            "admin::forget_goes_in_batches",
            Forgets(|data, scope, _| {
                let own = |record: &Record| record.scope == *scope;
                listing::forget(data, MAX_PAGE, own, transition::is_forgettable)
            }),
        ),
        BrokenStore::new(
            "forget-hides-what-is-in-progress",
            "forgetting does not say what it left",
            "R10",
            "admin::forget_leaves_what_is_in_progress",
            Forgets(|data, scope, limit| {
                let own = |record: &Record| record.scope == *scope;
                let forgotten = listing::forget(data, limit, own, transition::is_forgettable);
                Forgotten { in_progress: 0, ..forgotten }
            }),
        ),
        BrokenStore::new(
            "remove-goes-by-key",
            "removing deletes whatever stands under the key by now",
            "R8, R20",
            "admin::remove_needs_the_whole_fence",
            RemovesAnything,
        ),
        BrokenStore::new(
            "stats-count-lapsed-as-live",
            "work that nobody does any more is counted as live",
            "R10",
            "admin::stats_count_each_sort",
            Counts(|data, now| {
                let stats = listing::stats(data, now);
                let lapsed = stats.lapsed_begun + stats.lapsed_not_begun;
                Stats { live: stats.live + lapsed, lapsed_begun: 0, lapsed_not_begun: 0, ..stats }
            }),
        ),
        BrokenStore::new(
            "stats-of-the-youngest-lapse",
            "the oldest lapse is the youngest one",
            "R10",
            "admin::stats_count_each_sort",
            Counts(|data, now| {
                let lapses = data.records.values().filter_map(|record| match record.state {
                    State::InProgress { locked_until, .. } if locked_until <= now => {
                        Some(now.since(locked_until))
                    }
                    _ => None,
                });
                Stats { oldest_lapse: lapses.min(), ..listing::stats(data, now) }
            }),
        ),
        BrokenStore::new(
            "stats-of-nothing-have-a-lapse",
            "an empty store says that something has lapsed just now",
            "R10",
            "admin::stats_of_nothing",
            Counts(|data, now| {
                let stats = listing::stats(data, now);
                Stats { oldest_lapse: Some(stats.oldest_lapse.unwrap_or_default()), ..stats }
            }),
        ),
        BrokenStore::new(
            "list-by-offset",
            "a listing's cursor counts records, so that those removed meanwhile make it skip",
            "R10",
            "admin::list_goes_on_behind_what_went",
            Lists(by_offset),
        ),
        BrokenStore::new(
            "list-starts-over-at-a-foreign-cursor",
            "a cursor that cannot be read is taken for none",
            "R9",
            "admin::foreign_cursors_are_refused",
            Lists(|data, filter, after, limit, now| {
                let after = after.filter(|after| ListPosition::from_cursor(after).is_ok());
                listing::list(data, filter, after, limit, now)
            }),
        ),
        BrokenStore::new(
            "list-shows-expired-replies",
            "what is expired is listed until it is swept",
            "R11",
            "admin::list_leaves_out_what_expired",
            Lists(|data, filter, after, limit, now| {
                let mut page = listing::list(data, filter, after, limit, now)?;
                let expired = data.records.values().filter(|record| {
                    transition::visible(Some(record), now).is_none()
                        && filter.scope.as_ref().is_none_or(|scope| *scope == record.scope)
                });
                let seen = expired.map(|record| Observed { record: record.clone(), now });
                page.records.extend(seen);
                Ok(page)
            }),
        ),
        BrokenStore::new(
            "list-ignores-the-operation",
            "a listing by operation shows all of them",
            "R4",
            "admin::list_filters",
            Lists(|data, filter, after, limit, now| {
                let mut filter = filter.clone();
                filter.operation = None;
                listing::list(data, &filter, after, limit, now)
            }),
        ),
        BrokenStore::new(
            "list-ignores-the-state",
            "a listing of lapsed records shows live and completed ones too",
            "R10",
            "admin::list_filters",
            Lists(|data, filter, after, limit, now| {
                let mut filter = filter.clone();
                filter.state = None;
                listing::list(data, &filter, after, limit, now)
            }),
        ),
        BrokenStore::new(
            "list-in-the-order-of-a-collation",
            "a listing goes by a collation's order, and its cursor by bytes: records are left out",
            "R3",
            "admin::list_is_in_byte_order",
            Lists(|data, filter, after, limit, now| {
                let mut page = listing::list(data, filter, after, limit, now)?;
                page.records.sort_by_key(|seen| seen.record.key.as_bytes().to_ascii_lowercase());
                Ok(page)
            }),
        ),
    ]
}

struct Forgets(fn(&mut Data, &Scope, u32) -> Forgotten);

impl Rules for Forgets {
    fn forget(&self, data: &mut Data, scope: &Scope, limit: u32) -> Forgotten {
        (self.0)(data, scope, limit)
    }
}

struct RemovesAnything;

impl Rules for RemovesAnything {
    fn remove(&self, _: Option<&Record>, _: &Fence) -> Decision<()> {
        Decision { change: Change::Delete, outcome: Ok(()) }
    }
}

struct Counts(fn(&Data, Timestamp) -> Stats);

impl Rules for Counts {
    fn stats(&self, data: &Data, now: Timestamp) -> Stats {
        (self.0)(data, now)
    }
}

type ListsRecords = fn(&Data, &Filter, Option<&Cursor>, u32, Timestamp) -> Result<Page, StoreError>;

struct Lists(ListsRecords);

impl Rules for Lists {
    fn list(
        &self,
        data: &Data,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        (self.0)(data, filter, after, limit, now)
    }
}

fn by_offset(
    data: &Data,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let offset = match after {
        None => 0,
        Some(cursor) => match <[u8; 8]>::try_from(cursor.as_bytes()) {
            Ok(bytes) => usize::try_from(u64::from_be_bytes(bytes)).unwrap_or(usize::MAX),
            Err(_) => return listing::list(data, filter, after, limit, now),
        },
    };
    let all = listing::list(data, filter, None, MAX_PAGE, now)?.records;
    let total = all.len();
    let records: Vec<_> = all.into_iter().skip(offset).take(listing::size(limit)).collect();
    let reached = offset.saturating_add(records.len());
    let next = (reached < total).then(|| Cursor::from_bytes((reached as u64).to_be_bytes()));
    Ok(Page { records, next })
}
