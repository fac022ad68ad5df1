//! Requests and replies that get lost on the way (R5, R9).

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::State;
use idem_core::store::Store;

use crate::ask::{Ask, LONG, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire_at_last, present, setup};
use crate::failure::{CaseResult, Failure, chain, equal, that};
use crate::faults::proxy::{Effect, Fault, Proxy};
use crate::peer::Peer;

/// No call may take longer than this, whatever the network does. Stores bound it far below.
const BOUND: Duration = Duration::from_secs(40);

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "network::lost_reply_of_a_claim",
            "R5, R9",
            "a claim whose reply is lost is never NotApplied, and the same call again acquires",
            |cx| lost(cx, Verb::Claim, Fault::lose_reply()),
        ),
        Case::new(
            "network::lost_reply_of_a_completion",
            "R5, R9",
            "a completion whose reply is lost is never NotApplied, and the same call again is Ok",
            |cx| lost(cx, Verb::Complete, Fault::lose_reply()),
        ),
        Case::new(
            "network::lost_reply_of_a_checkpoint",
            "R5, R9",
            "a checkpoint whose reply is lost is never NotApplied, and the same again is Ok",
            |cx| lost(cx, Verb::Checkpoint, Fault::lose_reply()),
        ),
        Case::new(
            "network::lost_reply_of_a_release",
            "R5, R9",
            "a release whose reply is lost is never NotApplied, and the same again is Ok",
            |cx| lost(cx, Verb::Release, Fault::lose_reply()),
        ),
        Case::new(
            "network::lost_request_of_a_claim",
            "R5, R9",
            "a claim that did not arrive is an honest error, and the same call again acquires",
            |cx| lost(cx, Verb::Claim, Fault::lose_request()),
        ),
        Case::new(
            "network::lost_request_of_a_completion",
            "R5, R9",
            "a completion that did not arrive is an honest error, and the same again is Ok",
            |cx| lost(cx, Verb::Complete, Fault::lose_request()),
        ),
        Case::new(
            "network::reset_connections",
            "R5, R9",
            "connections that are reset in the middle of a reply are honest errors",
            |cx| lost(cx, Verb::Claim, Fault::lose_reply().with(Effect::Reset)),
        ),
        Case::new(
            "network::half_open",
            "R6, R9",
            "a server that falls silent ends in an honest error within a bound",
            half_open,
        ),
        Case::new(
            "network::cut_and_healed",
            "R9, R18",
            "a server that cannot be reached is an error; once it can be, the store serves again",
            cut_and_healed,
        ),
        Case::new(
            "network::slow_reply",
            "R6",
            "a reply that is late is still the reply",
            slow_reply,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::NetworkFaults])).collect()
}

#[derive(Clone, Copy)]
enum Verb {
    Claim,
    Checkpoint,
    Complete,
    Release,
}

async fn through_proxy(cx: &Context) -> Result<(Peer, Proxy), Failure> {
    let opened = cx.fixture().connect_through_proxy().await;
    let (connected, proxy) = opened.map_err(|error| setup("a proxied connection", &error))?;
    Ok((cx.peer(connected), proxy))
}

/// Offsets into the reply or the request at which the rest is lost.
const OFFSETS: [u64; 6] = [0, 1, 4, 7, 16, 33];

/// Loses one call's request or reply at each offset; then the same call again must succeed, and
/// what stands must have been done once.
async fn lost(cx: Context, verb: Verb, fault: Fault) -> CaseResult {
    let direct = cx.connect().await?;
    let (peer, proxy) = through_proxy(&cx).await?;
    for offset in OFFSETS {
        let ask = cx.ask(&format!("k{offset}")).input("input");
        // Through the proxy, so that its connection stands before anything is lost.
        let prepared = match verb {
            Verb::Claim => acquire_patiently(&peer, &cx.ask(&format!("warm{offset}"))).await?,
            _ => acquire_patiently(&peer, &ask).await?,
        };
        let before = proxy.fired();
        proxy.arm(fault.after(offset));
        let first = within(call(&peer, verb, &ask, &prepared)).await?;
        proxy.disarm();
        let fired = proxy.fired() > before;
        cx.trace().add("proxy", format_args!("{fault:?} after {offset}: fired {fired}"));
        match first {
            // The driver may have sent it again by itself; then it is done.
            Ok(Some(_)) => is_applied(&direct, verb, &ask).await?,
            Ok(None) => {
                return Err(Failure::new("a claim of a new key to be Acquired", "another answer"));
            }
            Err(error) => {
                honest(&error)?;
                applied_as_told(&direct, verb, &ask, &error).await?;
            }
        }
        let again = repeat(&peer, verb, &ask, &prepared).await?;
        settled(&cx, &direct, verb, &ask, again).await?;
    }
    Ok(())
}

type Held = idem_core::record::Fence;

async fn acquire_patiently(peer: &Peer, ask: &Ask) -> Result<Held, Failure> {
    Ok(acquire_at_last(peer, ask).await?.fence)
}

/// What a call came to, where it came to anything: the fence of a claim.
async fn call(peer: &Peer, verb: Verb, ask: &Ask, held: &Held) -> Result<Option<Held>, StoreError> {
    match verb {
        Verb::Claim => match peer.claim(&ask.claim()).await? {
            Claimed::Acquired(acquired) => Ok(Some(acquired.fence)),
            _ => Ok(None),
        },
        Verb::Checkpoint => {
            peer.checkpoint(held, &recovery(1, "step"), LONG).await.map(|_| Some(held.clone()))
        }
        Verb::Complete => peer.complete(held, &sealed("done")).await.map(|()| Some(held.clone())),
        Verb::Release => peer.release(held).await.map(|()| Some(held.clone())),
    }
}

/// The same call, until its errors are over.
async fn repeat(peer: &Peer, verb: Verb, ask: &Ask, held: &Held) -> Result<Held, Failure> {
    for _ in 0..100 {
        match within(call(peer, verb, ask, held)).await? {
            Ok(Some(fence)) => return Ok(fence),
            Ok(None) => return Err(Failure::new("the repeat to be Acquired", "another answer")),
            Err(error) if error.kind().is_transient() => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new("the repeat to succeed", "100 errors"))
}

async fn within<T>(call: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(BOUND, call)
        .await
        .map_err(|_| Failure::new("an answer within a bound", format!("none in {BOUND:?}")))
}

fn honest(error: &StoreError) -> CaseResult {
    let known = matches!(error.kind(), ErrorKind::NotApplied | ErrorKind::OutcomeUnknown);
    that(known, "NotApplied or OutcomeUnknown", chain(error))
}

/// An error that says NotApplied must be right about it.
async fn applied_as_told(direct: &Peer, verb: Verb, ask: &Ask, error: &StoreError) -> CaseResult {
    if error.kind() != ErrorKind::NotApplied {
        return Ok(());
    }
    let untouched = !stands(direct, verb, ask).await?;
    that(untouched, "a write that was told as NotApplied not to have happened", chain(error))
}

/// So must one that says Ok.
async fn is_applied(direct: &Peer, verb: Verb, ask: &Ask) -> CaseResult {
    let stands = stands(direct, verb, ask).await?;
    that(stands, "a write that was told as done to stand", "it does not")
}

async fn stands(direct: &Peer, verb: Verb, ask: &Ask) -> Result<bool, Failure> {
    let seen = direct.get(&ask.scope, &ask.key).await?.map(|seen| seen.record);
    Ok(match verb {
        Verb::Claim => seen.is_some(),
        Verb::Release => seen.is_none(),
        Verb::Checkpoint => seen.is_some_and(|record| record.recovery().is_some()),
        Verb::Complete => {
            seen.is_some_and(|record| matches!(record.state, State::Completed { .. }))
        }
    })
}

/// What stands in the end.
async fn settled(cx: &Context, direct: &Peer, verb: Verb, ask: &Ask, fence: Held) -> CaseResult {
    match verb {
        Verb::Claim => {
            equal("the attempt", fence.attempt, 1)?;
            equal("the stored fence", present(direct, ask).await?.record.fence(), fence)
        }
        Verb::Checkpoint => {
            let record = present(direct, ask).await?.record;
            equal("the recovery point", record.recovery(), Some(&recovery(1, "step")))
        }
        Verb::Complete => match direct.claim(&cx.again(ask).claim()).await? {
            Claimed::Completed(replay) => equal("the reply", replay.reply, sealed("done")),
            other => Err(Failure::new("a replay", format!("{other:?}"))),
        },
        Verb::Release => equal("the record", direct.get(&ask.scope, &ask.key).await?, None),
    }
}

async fn half_open(cx: Context) -> CaseResult {
    let direct = cx.connect().await?;
    let (peer, proxy) = through_proxy(&cx).await?;
    acquire_patiently(&peer, &cx.ask("warm")).await?;
    for (label, fault) in [("reply", Fault::lose_reply()), ("request", Fault::lose_request())] {
        let ask = cx.ask(label);
        proxy.arm(fault.with(Effect::Silence));
        let first = within(peer.claim(&ask.claim())).await?;
        proxy.disarm();
        if let Err(error) = first {
            honest(&error)?;
            applied_as_told(&direct, Verb::Claim, &ask, &error).await?;
        }
        let held = acquire_patiently(&peer, &ask).await?;
        equal("the attempt", held.attempt, 1)?;
    }
    Ok(())
}

async fn cut_and_healed(cx: Context) -> CaseResult {
    let (peer, proxy) = through_proxy(&cx).await?;
    let ask = cx.ask("k");
    let held = acquire_patiently(&peer, &ask).await?;
    proxy.cut();
    match within(peer.complete(&held, &sealed("done"))).await? {
        Ok(()) => return Err(Failure::new("an error", "Ok, from a server out of reach")),
        Err(error) => honest(&error)?,
    }
    match within(peer.claim(&cx.ask("other").claim())).await? {
        Ok(claimed) => return Err(Failure::new("an error", format!("{claimed:?}"))),
        Err(error) => honest(&error)?,
    }
    proxy.heal();
    repeat(&peer, Verb::Complete, &ask, &held).await?;
    let direct = cx.connect().await?;
    settled(&cx, &direct, Verb::Complete, &ask, held).await
}

async fn slow_reply(cx: Context) -> CaseResult {
    let (peer, proxy) = through_proxy(&cx).await?;
    acquire_patiently(&peer, &cx.ask("warm")).await?;
    let ask = cx.ask("k");
    proxy.arm(Fault::lose_reply().with(Effect::Delay(Duration::from_millis(50))));
    let first = within(peer.claim(&ask.claim())).await?;
    if let Err(error) = first {
        honest(&error)?;
    }
    let held = acquire_patiently(&peer, &ask).await?;
    equal("the attempt", held.attempt, 1)
}
