//! Stores that sweep what they may not, and stores that lose their place in a listing.

use idem_core::cursor::LapsedPosition;
use idem_core::error::StoreError;
use idem_core::record::{Record, State};
use idem_core::store::{Cursor, MAX_PAGE, Page, Swept};
use idem_core::time::Timestamp;
use idem_core::transition;

use super::BrokenStore;
use super::listing;
use super::rules::Rules;
use super::workshop::Data;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "sweep-takes-lapsed-work",
            "a sweep deletes every record past its retention, work in progress too",
            "R10",
            "sweep::in_progress_is_never_swept",
            Sweepable(|record, now| {
                transition::is_sweepable(record, now)
                    || transition::is_lapsed(record, now) && outlived(record, now)
            }),
        ),
        BrokenStore::new(
            "sweep-takes-what-began",
            "a sweep deletes a record that marks begun although it did begin",
            "R10, R26",
            "paging::unresolved_work_stays_visible",
            Sweepable(|record, now| {
                transition::is_sweepable(record, now)
                    || record.marks_begun
                        && transition::is_lapsed(record, now)
                        && outlived(record, now)
            }),
        ),
        BrokenStore::new(
            "sweep-ignores-the-least-retention",
            "a sweep goes by the first claim alone, and deletes replies before their time",
            "R11",
            "sweep::takes_only_what_is_over",
            Sweepable(|record, now| {
                transition::is_sweepable(record, now)
                    || matches!(record.state, State::Completed { .. }) && outlived(record, now)
            }),
        ),
        BrokenStore::new(
            "sweep-leaves-what-never-began",
            "a record that marks begun and never began stays for ever",
            "R10, R26",
            "sweep::takes_only_what_is_over",
            Sweepable(|record, now| {
                matches!(record.state, State::Completed { .. })
                    && transition::is_sweepable(record, now)
            }),
        ),
        BrokenStore::new(
            "sweep-takes-young-unbegun-work",
            "a record that never began is swept as soon as its lease is over",
            "R10, R26",
            "sweep::takes_only_what_is_over",
            Sweepable(|record, now| {
                transition::is_sweepable(record, now)
                    || record.marks_begun
                        && record.recovery().is_none()
                        && transition::is_lapsed(record, now)
            }),
        ),
        BrokenStore::new(
            "sweep-without-a-limit",
            "one sweep deletes all there is, however much it was asked for",
            "R11",
            "sweep::batches",
            Sweeps(|data, _, now| listing::sweep(data, MAX_PAGE, now, transition::is_sweepable)),
        ),
        BrokenStore::new(
            "sweep-never-says-more",
            "a sweep never says that more waits, so that the rest waits for the next day",
            "R11",
            "sweep::batches",
            Sweeps(|data, limit, now| {
                let swept = listing::sweep(data, limit, now, transition::is_sweepable);
                Swept { more: false, ..swept }
            }),
        ),
        BrokenStore::new(
            "sweep-always-says-more-when-full",
            "a batch that just fits is taken for one of many, also where nothing is left",
            "R11",
            "sweep::batches",
            Sweeps(|data, limit, now| {
                let swept = listing::sweep(data, limit, now, transition::is_sweepable);
                Swept { more: swept.deleted == limit, ..swept }
            }),
        ),
        BrokenStore::new(
            "sweep-of-nothing-says-more",
            "a sweep that found nothing says that more waits, and its loop never ends",
            "R11",
            "sweep::of_nothing",
            Sweeps(|data, limit, now| {
                let swept = listing::sweep(data, limit, now, transition::is_sweepable);
                Swept { more: swept.more || swept.deleted == 0, ..swept }
            }),
        ),
        BrokenStore::new(
            "sweep-of-limit-zero-takes-all",
            "a limit of zero is taken for no limit",
            "R11",
            "sweep::limits_are_taken_within_bounds",
            Sweeps(|data, limit, now| {
                let limit = if limit == 0 { MAX_PAGE } else { limit };
                listing::sweep(data, limit, now, transition::is_sweepable)
            }),
        ),
        BrokenStore::new(
            "listing-shows-live-work",
            "live records are listed as lapsed, and a reconciler takes them for dead",
            "R10",
            "paging::only_lapsed_records_are_listed",
            Lists(|data, after, limit, now| listing::lapsed(data, after, limit, now, |_, _| true)),
        ),
        BrokenStore::new(
            "listing-hides-what-did-not-begin",
            "only records with a recovery point are listed",
            "R10",
            "paging::only_lapsed_records_are_listed",
            Lists(|data, after, limit, now| {
                listing::lapsed(data, after, limit, now, |record, now| {
                    transition::is_lapsed(record, now) && record.recovery().is_some()
                })
            }),
        ),
        BrokenStore::new(
            "listing-hides-what-is-old",
            "a lapsed record drops out of the listing with its retention",
            "R10",
            "paging::unresolved_work_stays_visible",
            Lists(|data, after, limit, now| {
                listing::lapsed(data, after, limit, now, |record, now| {
                    transition::is_lapsed(record, now) && !outlived(record, now)
                })
            }),
        ),
        BrokenStore::new(
            "listing-in-the-order-of-keys",
            "the oldest lapse is not first: a reconciler starves it",
            "R10",
            "paging::oldest_lease_first",
            Lists(by_key),
        ),
        BrokenStore::new(
            "listing-repeats-the-last-one",
            "a page starts with the record that the cursor names",
            "R10",
            "paging::oldest_lease_first",
            Lists(repeats_the_last),
        ),
        BrokenStore::new(
            "listing-by-offset",
            "a cursor counts records, so that those resolved meanwhile make it skip others",
            "R10",
            "paging::goes_on_behind_what_went",
            Lists(by_offset),
        ),
        BrokenStore::new(
            "listing-starts-over-at-a-foreign-cursor",
            "a cursor that cannot be read is taken for none",
            "R9",
            "paging::foreign_cursors_are_refused",
            Lists(|data, after, limit, now| {
                let after = after.filter(|after| LapsedPosition::from_cursor(after).is_ok());
                listing::lapsed(data, after, limit, now, transition::is_lapsed)
            }),
        ),
        BrokenStore::new(
            "listing-without-a-limit",
            "one page holds everything",
            "R10",
            "paging::limits_are_taken_within_bounds",
            Lists(|data, after, _, now| {
                listing::lapsed(data, after, MAX_PAGE, now, transition::is_lapsed)
            }),
        ),
        BrokenStore::new(
            "listing-without-payloads",
            "listed records come without their input, so that nobody can resume them",
            "R15",
            "paging::records_are_whole",
            Lists(|data, after, limit, now| {
                let mut page = listing::lapsed(data, after, limit, now, transition::is_lapsed)?;
                for seen in &mut page.records {
                    seen.record.input = None;
                }
                Ok(page)
            }),
        ),
    ]
}

fn outlived(record: &Record, now: Timestamp) -> bool {
    record.retention.total().is_some_and(|total| record.created_at.after(total) <= now)
}

struct Sweepable(fn(&Record, Timestamp) -> bool);

impl Rules for Sweepable {
    fn sweep(&self, data: &mut Data, limit: u32, now: Timestamp) -> Swept {
        listing::sweep(data, limit, now, self.0)
    }
}

struct Sweeps(fn(&mut Data, u32, Timestamp) -> Swept);

impl Rules for Sweeps {
    fn sweep(&self, data: &mut Data, limit: u32, now: Timestamp) -> Swept {
        (self.0)(data, limit, now)
    }
}

type ListsLapsed = fn(&Data, Option<&Cursor>, u32, Timestamp) -> Result<Page, StoreError>;

struct Lists(ListsLapsed);

impl Rules for Lists {
    fn lapsed(
        &self,
        data: &Data,
        after: Option<&Cursor>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        (self.0)(data, after, limit, now)
    }
}

fn by_key(
    data: &Data,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let after = after.map(LapsedPosition::from_cursor).transpose()?;
    let mut found = listing::positions(data, now, transition::is_lapsed);
    found.sort_by(|(a, _), (b, _)| (&a.scope, &a.key).cmp(&(&b.scope, &b.key)));
    found.retain(|(position, _)| {
        after
            .as_ref()
            .is_none_or(|after| (&position.scope, &position.key) > (&after.scope, &after.key))
    });
    let more = found.len() > listing::size(limit);
    found.truncate(listing::size(limit));
    let next = found.last().filter(|_| more).map(|(position, _)| position.to_cursor());
    Ok(Page { records: found.into_iter().map(|(_, seen)| seen).collect(), next })
}

fn repeats_the_last(
    data: &Data,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let after = after.map(LapsedPosition::from_cursor).transpose()?;
    let mut found = listing::positions(data, now, transition::is_lapsed);
    found.retain(|(position, _)| after.as_ref().is_none_or(|after| position >= after));
    // At least one more than the repeated one, so that it comes to an end.
    let page = listing::size(limit).max(2);
    let more = found.len() > page;
    found.truncate(page);
    let next = found.last().filter(|_| more).map(|(position, _)| position.to_cursor());
    Ok(Page { records: found.into_iter().map(|(_, seen)| seen).collect(), next })
}

fn by_offset(
    data: &Data,
    after: Option<&Cursor>,
    limit: u32,
    now: Timestamp,
) -> Result<Page, StoreError> {
    let offset = match after {
        None => 0,
        Some(cursor) => match <[u8; 8]>::try_from(cursor.as_bytes()) {
            Ok(bytes) => u64::from_be_bytes(bytes),
            Err(_) => return listing::lapsed(data, after, limit, now, transition::is_lapsed),
        },
    };
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    let found = listing::positions(data, now, transition::is_lapsed);
    let total = found.len();
    let records: Vec<_> =
        found.into_iter().skip(skipped).take(listing::size(limit)).map(|(_, seen)| seen).collect();
    let reached = skipped.saturating_add(records.len());
    let next = (reached < total).then(|| Cursor::from_bytes((reached as u64).to_be_bytes()));
    Ok(Page { records, next })
}
