//! The operator's verbs.

use std::time::Duration;

use idem_core::admin::{Filter, StateFilter, Stats};
use idem_core::error::ErrorKind;
use idem_core::record::Retention;
use idem_core::store::{Cursor, Store};

use crate::ask::{Ask, LONG, operation, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, equal, refused, that};
use crate::listing::listed;
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "admin::stats_count_each_sort",
            "R10",
            "records are counted as live, lapsed, begun, completed or expired",
            stats,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "admin::stats_of_nothing",
            "R10",
            "an empty store counts nothing and has no oldest lapse",
            stats_of_nothing,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "admin::list_is_in_byte_order",
            "R3",
            "listings go by scope and key in byte order, each record once, in pages of any size",
            list_is_in_byte_order,
        ),
        Case::new(
            "admin::list_filters",
            "R4, R10",
            "scope, operation and state filter a listing, alone and together",
            list_filters,
        ),
        Case::new(
            "admin::list_leaves_out_what_expired",
            "R11",
            "an expired reply is not listed, swept or not",
            list_leaves_out_what_expired,
        ),
        Case::new(
            "admin::list_goes_on_behind_what_went",
            "R10",
            "records removed between two pages neither end the listing nor repeat it",
            list_goes_on,
        ),
        Case::new(
            "admin::foreign_cursors_are_refused",
            "R9",
            "a cursor that is not of this listing is InvalidInput",
            foreign_cursors,
        ),
        Case::new(
            "admin::forget_leaves_what_is_in_progress",
            "R2, R10",
            "forgetting a scope deletes its replies, and reports what is in progress there",
            forget_leaves_what_is_in_progress,
        ),
        Case::new(
            "admin::forget_goes_in_batches",
            "R11",
            "forgetting deletes at most its limit and says whether more wait",
            forget_goes_in_batches,
        ),
        Case::new(
            "admin::forget_stays_in_its_scope",
            "R4",
            "other scopes are untouched, also those whose names begin alike",
            forget_stays_in_its_scope,
        ),
        Case::new(
            "admin::remove_frees_the_key",
            "R8, R20",
            "a removed record is gone, in any state, and its fence is lost in the next life",
            remove_frees_the_key,
        ),
        Case::new(
            "admin::remove_needs_the_whole_fence",
            "R8",
            "a record that moved on since it was looked at is not removed",
            remove_needs_the_whole_fence,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::Admin])).collect()
}

async fn completed(peer: &Peer, ask: &Ask) -> CaseResult {
    let held = acquire(peer, ask).await?;
    Ok(peer.complete(&held.fence, &sealed("done")).await?)
}

async fn given_up(peer: &Peer, ask: &Ask, begins: bool) -> CaseResult {
    let held = acquire(peer, ask).await?;
    if begins {
        peer.checkpoint(&held.fence, &recovery(1, "begun"), LONG).await?;
    }
    peer.renew(&held.fence, Duration::ZERO).await?;
    Ok(())
}

async fn stats(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    given_up(&peer, &cx.ask("first"), true).await?;
    cx.pass(cx.brief()).await?;
    for label in ["a", "b", "c"] {
        acquire(&peer, &cx.ask(label)).await?;
    }
    given_up(&peer, &cx.ask("d"), true).await?;
    given_up(&peer, &cx.ask("e"), false).await?;
    given_up(&peer, &cx.ask("f").marking_begun(), false).await?;
    for label in ["g", "h", "i", "j"] {
        completed(&peer, &cx.ask(label)).await?;
    }
    completed(&peer, &cx.ask("k").retention(Retention::Forever)).await?;
    completed(&peer, &cx.ask("l").retention(Retention::of(Duration::ZERO))).await?;
    let seen = peer.admin()?.stats().await?;
    let expected = Stats {
        live: 3,
        lapsed_begun: 2,
        lapsed_not_begun: 2,
        completed: 5,
        expired: seen.expired,
        ..seen
    };
    equal("the counts", seen, expected)?;
    // A store that deletes an expired reply by itself has none to count.
    that(seen.expired <= 1, "at most one expired reply", seen.expired)?;
    let oldest = seen.oldest_lapse.unwrap_or_default();
    that(oldest >= cx.brief(), "the longest time since a lease ran out", seen.oldest_lapse)
}

async fn stats_of_nothing(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let seen = peer.admin()?.stats().await?;
    let nothing = Stats { outbox_pending: seen.outbox_pending, ..Stats::default() };
    equal("the counts", seen, nothing)?;
    that(seen.outbox_pending.unwrap_or_default() == 0, "no message waiting", seen.outbox_pending)
}

fn names(seen: &[idem_core::record::Observed]) -> Vec<Vec<u8>> {
    seen.iter().map(|seen| seen.record.key.as_bytes().to_vec()).collect()
}

async fn list_is_in_byte_order(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let admin = peer.admin()?;
    let keys: [&[u8]; 9] = [b"b", b"a", b"B", b"a ", b"a\0", b"\xff", b"\0", b"aa", b"caf\xc3\xa9"];
    let scope = cx.scope("s");
    for key in keys {
        let key = idem_core::key::Key::opaque(key).expect("a short key");
        acquire(&peer, &Ask::new(scope.clone(), key, cx.owner())).await?;
    }
    let mut expected: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
    expected.sort();
    for limit in [1, 2, 4, 9, 100] {
        let seen = listed(&*admin, &Filter::all().scope(scope.clone()), limit).await?;
        equal(&format!("the keys in pages of {limit}"), names(&seen), expected.clone())?;
    }
    // Across scopes: by scope first. Others' records may be among them.
    for label in ["s2", "S", "s "] {
        acquire(&peer, &Ask { scope: cx.scope(label), ..cx.ask("k") }).await?;
    }
    let ours =
        |seen: &idem_core::record::Observed| seen.record.scope.as_str().starts_with(cx.prefix());
    let seen = listed(&*admin, &Filter::all(), 3).await?;
    let scopes: Vec<_> = seen
        .iter()
        .filter(|seen| ours(seen))
        .map(|seen| (seen.record.scope.as_str(), seen.record.key.as_bytes()))
        .collect();
    equal("how many are listed", scopes.len(), keys.len() + 3)?;
    that(scopes.is_sorted(), "scopes and keys in byte order", &scopes)
}

async fn list_filters(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let admin = peer.admin()?;
    let other = |ask: Ask| Ask { scope: cx.scope("other"), ..ask };
    acquire(&peer, &cx.ask("live")).await?;
    acquire(&peer, &cx.ask("live-refund").operation("refund")).await?;
    given_up(&peer, &cx.ask("lapsed"), true).await?;
    completed(&peer, &cx.ask("done")).await?;
    completed(&peer, &cx.ask("done-refund").operation("refund")).await?;
    acquire(&peer, &other(cx.ask("elsewhere"))).await?;
    let scope = cx.scope("s");
    let all = || Filter::all().scope(scope.clone());
    let refund = || operation("refund");
    let expectations: [(Filter, &[&[u8]]); 7] = [
        (all(), &[b"done", b"done-refund", b"lapsed", b"live", b"live-refund"]),
        (all().state(StateFilter::Live), &[b"live", b"live-refund"]),
        (all().state(StateFilter::Lapsed), &[b"lapsed"]),
        (all().state(StateFilter::Completed), &[b"done", b"done-refund"]),
        (all().operation(refund()), &[b"done-refund", b"live-refund"]),
        (all().operation(refund()).state(StateFilter::Live), &[b"live-refund"]),
        (Filter::all().scope(cx.scope("other")), &[b"elsewhere"]),
    ];
    for (filter, expected) in expectations {
        for limit in [1, 100] {
            let seen = names(&listed(&*admin, &filter, limit).await?);
            equal(&format!("the keys under {filter:?}"), &seen[..], &to_vecs(expected)[..])?;
        }
    }
    Ok(())
}

fn to_vecs(keys: &[&[u8]]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.to_vec()).collect()
}

async fn list_leaves_out_what_expired(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    completed(&peer, &cx.ask("old").retention(Retention::of(Duration::ZERO))).await?;
    completed(&peer, &cx.ask("new")).await?;
    let seen = listed(&*peer.admin()?, &Filter::all().scope(cx.scope("s")), 10).await?;
    equal("the listed keys", names(&seen), vec![b"new".to_vec()])
}

async fn list_goes_on(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let admin = peer.admin()?;
    for number in 0..6 {
        acquire(&peer, &cx.ask(&format!("k{number}"))).await?;
    }
    let filter = Filter::all().scope(cx.scope("s"));
    let (mut seen, mut after) = (0, None);
    for _ in 0..100 {
        let page = admin.list(&filter, after.as_ref(), 2).await?;
        for found in &page.records {
            admin.remove(&found.record.fence()).await?;
            seen += 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    equal("how many were removed on the way", seen, 6)?;
    equal("what is left", listed(&*admin, &filter, 10).await?.len(), 0)
}

async fn foreign_cursors(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    acquire(&peer, &cx.ask("k")).await?;
    let strange: [&[u8]; 3] = [b"", b"\xff\xff\xff", b"not a cursor of any store"];
    for bytes in strange {
        let cursor = Cursor::from_bytes(bytes);
        let page = peer.admin()?.list(&Filter::all(), Some(&cursor), 10).await;
        refused(page, ErrorKind::InvalidInput)?;
    }
    Ok(())
}

async fn forget_leaves_what_is_in_progress(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (live, lapsed) = (cx.ask("live"), cx.ask("lapsed"));
    let held = acquire(&peer, &live).await?;
    given_up(&peer, &lapsed, false).await?;
    completed(&peer, &cx.ask("done")).await?;
    completed(&peer, &cx.ask("for ever").retention(Retention::Forever)).await?;
    let forgotten = peer.admin()?.forget(&live.scope, 100).await?;
    equal("what went", (forgotten.deleted, forgotten.more), (2, false))?;
    equal("what is in progress", forgotten.in_progress, 2)?;
    equal("the live record", present(&peer, &live).await?.record.fence(), held.fence.clone())?;
    present(&peer, &lapsed).await?;
    peer.complete(&held.fence, &sealed("done")).await?;
    let next = acquire(&peer, &cx.ask("done")).await?;
    equal("the forgotten key's attempt", next.fence.attempt, 1)
}

async fn forget_goes_in_batches(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for number in 0..5 {
        completed(&peer, &cx.ask(&format!("k{number}"))).await?;
    }
    let scope = cx.scope("s");
    for (deleted, more) in [(2, true), (2, true), (1, false), (0, false)] {
        let forgotten = peer.admin()?.forget(&scope, 2).await?;
        equal("the batch", (forgotten.deleted, forgotten.more), (deleted, more))?;
    }
    Ok(())
}

async fn forget_stays_in_its_scope(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let mut kept = Vec::new();
    for label in ["s2", "S", "", "s ", "s%"] {
        let ask = Ask { scope: cx.scope(label), ..cx.ask("k") };
        completed(&peer, &ask).await?;
        kept.push(ask);
    }
    completed(&peer, &cx.ask("k")).await?;
    equal("what went", peer.admin()?.forget(&cx.scope("s"), 100).await?.deleted, 1)?;
    for ask in kept {
        present(&peer, &ask).await?;
    }
    Ok(())
}

async fn remove_frees_the_key(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let (live, lapsed, done) = (cx.ask("live"), cx.ask("lapsed"), cx.ask("done"));
    acquire(&peer, &live).await?;
    given_up(&peer, &lapsed, true).await?;
    completed(&peer, &done).await?;
    for ask in [live, lapsed, done] {
        let fence = present(&peer, &ask).await?.record.fence();
        peer.admin()?.remove(&fence).await?;
        equal("the record", peer.get(&ask.scope, &ask.key).await?, None)?;
        peer.admin()?.remove(&fence).await?; // Again: it was removed before.
        let next = acquire(&peer, &ask).await?;
        equal("the attempt", next.fence.attempt, 1)?;
        refused(peer.complete(&fence, &sealed("late")).await, ErrorKind::FenceLost)?;
        refused(peer.admin()?.remove(&fence).await, ErrorKind::FenceLost)?;
    }
    Ok(())
}

async fn remove_needs_the_whole_fence(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let listed = cx.lapsed(&peer, &ask).await?.fence;
    let taken = acquire(&peer, &cx.again(&ask)).await?;
    refused(peer.admin()?.remove(&listed).await, ErrorKind::FenceLost)?;
    equal("the record's fence", present(&peer, &ask).await?.record.fence(), taken.fence)
}
