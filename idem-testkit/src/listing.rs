//! Reading lists to their end.

use idem_core::admin::{Admin, Filter};
use idem_core::key::Scope;
use idem_core::record::{Observed, Record, State};
use idem_core::store::{Cursor, Store};
use idem_core::time::Timestamp;

use crate::failure::{Failure, that};
use crate::peer::Peer;

/// More pages than any case fills: a listing that goes on after these turns in a circle.
const MAX_PAGES: usize = 10_000;

/// Every lapsed record of a scope, in the order of the pages.
pub(crate) async fn lapsed_of(
    peer: &Peer,
    scope: &Scope,
    limit: u32,
) -> Result<Vec<Observed>, Failure> {
    let (mut seen, mut after): (_, Option<Cursor>) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = peer.lapsed(after.as_ref(), limit).await?;
        fits(&page.records, limit)?;
        seen.extend(page.records.into_iter().filter(|seen| seen.record.scope == *scope));
        after = page.next;
        if after.is_none() {
            return Ok(seen);
        }
    }
    Err(Failure::new("the pages to come to an end", format!("{MAX_PAGES} pages")))
}

/// Every record that `filter` lets pass, in the order of the pages.
pub(crate) async fn listed(
    admin: &dyn Admin,
    filter: &Filter,
    limit: u32,
) -> Result<Vec<Observed>, Failure> {
    let (mut seen, mut after): (_, Option<Cursor>) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = admin.list(filter, after.as_ref(), limit).await?;
        fits(&page.records, limit)?;
        seen.extend(page.records);
        after = page.next;
        if after.is_none() {
            return Ok(seen);
        }
    }
    Err(Failure::new("the pages to come to an end", format!("{MAX_PAGES} pages")))
}

/// Sweeps until nothing more waits; how many records went.
pub(crate) async fn sweep_all(peer: &Peer, limit: u32) -> Result<usize, Failure> {
    let mut deleted = 0;
    for _ in 0..MAX_PAGES {
        let swept = peer.sweep(limit).await?;
        that(swept.deleted <= limit, "a batch of at most its limit", swept)?;
        deleted += usize::try_from(swept.deleted).unwrap_or(usize::MAX);
        if !swept.more {
            return Ok(deleted);
        }
    }
    Err(Failure::new("sweeps to come to an end", format!("{MAX_PAGES} batches")))
}

fn fits(records: &[Observed], limit: u32) -> Result<(), Failure> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    that(records.len() <= most, "a page of at most its limit", records.len())
}

/// When the lease of a record in progress ends; `None` once it is completed.
pub(crate) fn locked_until(record: &Record) -> Option<Timestamp> {
    match record.state {
        State::InProgress { locked_until, .. } => Some(locked_until),
        State::Completed { .. } => None,
    }
}
