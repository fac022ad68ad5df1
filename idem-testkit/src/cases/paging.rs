//! Paging through lapsed records (R10).

use std::time::Duration;

use idem_core::error::ErrorKind;
use idem_core::key::{Key, Scope};
use idem_core::store::{Cursor, MAX_PAGE, Store};

use crate::ask::{Ask, LONG, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, refused, that};
use crate::listing::{lapsed_of, locked_until};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "paging::only_lapsed_records_are_listed",
            "R10",
            "lapsed and given-up records are listed; live, completed and released ones are not",
            only_lapsed,
        ),
        Case::new(
            "paging::oldest_lease_first",
            "R10",
            "pages of any size give each lapsed record once, oldest lease first",
            oldest_first,
        ),
        Case::new(
            "paging::leases_that_end_together",
            "R10",
            "of records whose leases ended at one instant pages of any size give each one once",
            ended_together,
        ),
        Case::new(
            "paging::records_are_whole",
            "R10, R15",
            "a listed record is the record: input, recovery point, fence and all",
            records_are_whole,
        ),
        Case::new(
            "paging::goes_on_behind_what_went",
            "R10",
            "records that are resolved between two pages neither end the listing nor repeat it",
            goes_on_behind_what_went,
        ),
        Case::new(
            "paging::limits_are_taken_within_bounds",
            "R10",
            "a limit of 0 is taken as 1 and a huge one as the largest page",
            limits,
        ),
        Case::new(
            "paging::foreign_cursors_are_refused",
            "R9",
            "a cursor that is not of this listing is InvalidInput, never an empty page",
            foreign_cursors,
        ),
        Case::new(
            "paging::unresolved_work_stays_visible",
            "R10",
            "a lapsed record is listed however old it is, and after any number of sweeps",
            unresolved_work,
        ),
    ]
}

/// Lapsed records `k0`, `k1`, …, each given up after the one before.
async fn given_up(cx: &Context, peer: &Peer, count: usize) -> Result<Vec<Ask>, Failure> {
    let mut asks = Vec::new();
    for number in 0..count {
        // The names run against the order of the leases.
        let ask = cx.ask(&format!("k{:03}", count - number)).input("input");
        let held = acquire(peer, &ask).await?;
        peer.renew(&held.fence, Duration::ZERO).await?;
        cx.pass(Duration::from_millis(1)).await?;
        asks.push(ask);
    }
    Ok(asks)
}

async fn only_lapsed(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let mut expected = Vec::new();
    let (lapsed, began) = (cx.ask("lapsed"), cx.ask("began"));
    let fence = acquire(&peer, &began.clone().lease(cx.brief())).await?.fence;
    peer.checkpoint(&fence, &recovery(1, "x"), cx.brief()).await?;
    acquire(&peer, &lapsed.clone().lease(cx.brief())).await?;
    cx.lapse(&peer, &began).await?;
    cx.lapse(&peer, &lapsed).await?;
    expected.push(began.key.clone());
    expected.push(lapsed.key.clone());
    let given_up = cx.ask("given-up");
    let fence = acquire(&peer, &given_up).await?.fence;
    peer.renew(&fence, Duration::ZERO).await?;
    expected.push(given_up.key.clone());

    acquire(&peer, &cx.ask("live")).await?;
    let done = acquire(&peer, &cx.ask("done")).await?.fence;
    peer.complete(&done, &sealed("x")).await?;
    let released = acquire(&peer, &cx.ask("released")).await?.fence;
    peer.release(&released).await?;
    let renewed = cx.lapsed(&peer, &cx.ask("renewed")).await?.fence;
    peer.renew(&renewed, LONG).await?;
    let taken = cx.ask("taken");
    cx.lapsed(&peer, &taken).await?;
    acquire(&peer, &cx.again(&taken)).await?;

    for limit in [100, 1, 2] {
        let what = format!("the lapsed keys in pages of {limit}");
        listed(&peer, &lapsed.scope, limit, &expected, &what).await?;
    }
    Ok(())
}

/// Expects these keys of a scope to be listed, each once, in any order.
async fn listed(peer: &Peer, of: &Scope, limit: u32, keys: &[Key], what: &str) -> CaseResult {
    let seen: Vec<Key> =
        lapsed_of(peer, of, limit).await?.into_iter().map(|seen| seen.record.key).collect();
    let names = |keys: &[Key]| {
        let mut names: Vec<String> =
            keys.iter().map(|key| key.as_bytes().escape_ascii().to_string()).collect();
        names.sort();
        names
    };
    equal(what, names(&seen), names(keys))
}

async fn ended_together(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (mut keys, mut fences) = (Vec::new(), Vec::new());
    for number in 0..7 {
        let ask = cx.ask(&format!("k{number}"));
        fences.push(acquire(&peer, &ask).await?.fence);
        keys.push(ask.key);
    }
    for fence in &fences {
        // A stepped clock stands still meanwhile; on another one they end almost together.
        peer.renew(fence, Duration::ZERO).await?;
    }
    for limit in [1, 2, 3, 7, 100] {
        let what = format!("the keys in pages of {limit}");
        listed(&peer, &fences[0].scope, limit, &keys, &what).await?;
    }
    Ok(())
}

async fn oldest_first(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let asks = given_up(&cx, &peers[0], 7).await?;
    for limit in [1, 2, 3, 6, 7, 8, 1_000] {
        let seen = lapsed_of(&peers[1], &asks[0].scope, limit).await?;
        let keys: Vec<_> = seen.iter().map(|seen| seen.record.key.as_bytes().to_vec()).collect();
        let expected: Vec<_> = asks.iter().map(|ask| ask.key.as_bytes().to_vec()).collect();
        equal(&format!("the keys in pages of {limit}"), keys, expected)?;
        let ends: Vec<_> = seen.iter().map(|seen| locked_until(&seen.record)).collect();
        that(ends.is_sorted(), "leases in the order of their ends", &ends)?;
    }
    Ok(())
}

async fn records_are_whole(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").input("the input").marking_begun();
    let held = acquire(&peer, &ask).await?;
    peer.checkpoint(&held.fence, &recovery(1, "the point"), LONG).await?;
    peer.renew(&held.fence, Duration::ZERO).await?;
    let seen = lapsed_of(&peer, &ask.scope, 10).await?;
    equal("how many are listed", seen.len(), 1)?;
    equal("the listed record", &seen[0].record, &present(&peer, &ask).await?.record)?;
    that(seen[0].lapsed_for().is_some(), "a now that tells how long it is lapsed", seen[0].now)
}

async fn goes_on_behind_what_went(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let asks = given_up(&cx, &peer, 6).await?;
    let mut seen = Vec::new();
    let mut after: Option<Cursor> = None;
    for _ in 0..10_000 {
        let page = peer.lapsed(after.as_ref(), 2).await?;
        for found in &page.records {
            if found.record.scope == asks[0].scope {
                // What a reconciler does with it; the record that the cursor names is gone.
                peer.complete(&found.record.fence(), &sealed("resolved")).await?;
                seen.push(found.record.key.as_bytes().to_vec());
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<_> = asks.iter().map(|ask| ask.key.as_bytes().to_vec()).collect();
    equal("the keys that were resolved", seen, expected)?;
    equal("what is left", lapsed_of(&peer, &asks[0].scope, 10).await?.len(), 0)
}

async fn limits(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    given_up(&cx, &peer, 2).await?;
    let none = peer.lapsed(None, 0).await?;
    equal("the records of a page of limit 0", none.records.len(), 1)?;
    let all = peer.lapsed(None, u32::MAX).await?;
    let most = usize::try_from(MAX_PAGE).expect("it fits");
    that((2..=most).contains(&all.records.len()), "a page within its bound", all.records.len())
}

async fn foreign_cursors(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    given_up(&cx, &peer, 1).await?;
    let strange: [&[u8]; 4] = [b"", b"\xff\xff\xff", b"not a cursor of any store", &[0xff; 300]];
    for bytes in strange {
        let cursor = Cursor::from_bytes(bytes);
        refused(peer.lapsed(Some(&cursor), 10).await, ErrorKind::InvalidInput)?;
    }
    Ok(())
}

async fn unresolved_work(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let over = idem_core::record::Retention::of(Duration::ZERO);
    let ask = cx.ask("k").retention(over).marking_begun();
    let held = acquire(&peer, &ask).await?;
    peer.checkpoint(&held.fence, &recovery(1, "begun"), LONG).await?;
    peer.renew(&held.fence, Duration::ZERO).await?;
    cx.pass(cx.brief() * 2).await?;
    for _ in 0..3 {
        peer.sweep(MAX_PAGE).await?;
    }
    equal("the lapsed records", lapsed_of(&peer, &ask.scope, 10).await?.len(), 1)
}
