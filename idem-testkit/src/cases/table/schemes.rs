//! Fingerprints under several schemes (R23).

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::fingerprint::Fingerprints;
use idem_core::store::Store;

use crate::ask::{Ask, print, print_under, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, equal, refused, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "table::unknown_scheme_of_a_live_record",
            "R23",
            "a claim that does not know the stored scheme is WrongSchema, and writes nothing",
            |cx| unknown(cx, Shape::Live),
        ),
        Case::new(
            "table::unknown_scheme_of_a_lapsed_record",
            "R23",
            "not even a lapsed record is taken over by a claim that cannot compare",
            |cx| unknown(cx, Shape::Lapsed),
        ),
        Case::new(
            "table::unknown_scheme_of_a_completed_record",
            "R23",
            "a reply is not given to a claim that cannot compare",
            |cx| unknown(cx, Shape::Completed),
        ),
        Case::new(
            "table::each_scheme_is_compared_with_its_like",
            "R23",
            "a record of either scheme is compared with the claim's print of that scheme",
            compared_with_its_like,
        ),
        Case::new(
            "table::insert_writes_the_primary_scheme",
            "R23",
            "an insert stores the first print that the claim carries, scheme and all",
            writes_the_primary,
        ),
        Case::new(
            "table::not_compared_objects_to_nothing",
            "R22, R23",
            "a record or a claim without a print matches whatever it meets",
            not_compared,
        ),
    ]
}

#[derive(Clone, Copy)]
enum Shape {
    Live,
    Lapsed,
    Completed,
}

async fn shaped(cx: &Context, peer: &Peer, ask: &Ask, shape: Shape) -> CaseResult {
    match shape {
        Shape::Live => drop(acquire(peer, ask).await?),
        Shape::Lapsed => drop(cx.lapsed(peer, ask).await?),
        Shape::Completed => {
            let held = acquire(peer, ask).await?;
            peer.complete(&held.fence, &sealed("of scheme 2")).await?;
        }
    }
    Ok(())
}

async fn unknown(cx: Context, shape: Shape) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k").print(print_under(2, 1)).marking_begun();
    shaped(&cx, &peer, &ask, shape).await?;
    let before = present(&peer, &ask).await?.record;
    for request in [1, 2] {
        let next = cx.again(&ask).print(print_under(1, request)).operation("refund");
        refused(peer.claim(&next.claim()).await, ErrorKind::WrongSchema)?;
    }
    equal("the record", present(&peer, &ask).await?.record, before)
}

async fn compared_with_its_like(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for (label, scheme) in [("one", 1), ("two", 2)] {
        let ask = cx.ask(label).print(print_under(scheme, 5));
        acquire(&peer, &ask).await?;
        let both = Fingerprints::new(print_under(1, 5)).also(print_under(2, 5));
        let same = peer.claim(&cx.again(&ask).print(both).claim()).await?;
        let found = matches!(same, Claimed::InProgress { .. });
        that(found, "the same request to be found in progress", &same)?;
        // Only the print of the stored scheme differs.
        let other = 3 - scheme;
        let mixed = Fingerprints::new(print_under(other, 5)).also(print_under(scheme, 6));
        let differs = peer.claim(&cx.again(&ask).print(mixed).claim()).await?;
        equal("another request", differs, Claimed::Mismatch { completed: false })?;
    }
    Ok(())
}

async fn writes_the_primary(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let both = Fingerprints::new(print_under(2, 5)).also(print_under(1, 4));
    let ask = cx.ask("k").print(both);
    let held = acquire(&peer, &ask).await?;
    equal("the fingerprint", held.fingerprint, print_under(2, 5))?;
    let stored = present(&peer, &ask).await?.record.fingerprint;
    equal("the stored fingerprint", stored, print_under(2, 5))
}

async fn not_compared(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let without = cx.ask("without").print(Fingerprints::not_compared());
    acquire(&peer, &without).await?;
    let any = peer.claim(&cx.again(&without).print(print(9)).claim()).await?;
    that(matches!(any, Claimed::InProgress { .. }), "any request to match it", &any)?;

    let with = cx.ask("with").print(print_under(7, 3));
    acquire(&peer, &with).await?;
    let any = peer.claim(&cx.again(&with).print(Fingerprints::not_compared()).claim()).await?;
    that(matches!(any, Claimed::InProgress { .. }), "it to match any record", &any)?;

    let mismatch = cx.again(&with).print(Fingerprints::not_compared()).operation("refund");
    let other = peer.claim(&mismatch.claim()).await?;
    equal("another operation all the same", other, Claimed::Mismatch { completed: false })
}
