//! Keys, scopes and operation names are opaque bytes (R3, R4).

mod battery;

use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::key::Key;
use idem_core::record::{OperationName, Owner};
use idem_core::store::Store;

use crate::ask::{Ask, print, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal};

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = battery::BATTERIES
        .iter()
        .map(|battery| {
            let name = format!("keys::{}", battery.name);
            Case::new(name, "R3", battery.about, move |cx| never_collide(cx, battery.identities))
        })
        .collect();
    cases.extend([
        Case::new(
            "keys::longest_scopes",
            "R3",
            "scopes of 255 bytes that differ in the last one are two scopes",
            longest_scopes,
        ),
        Case::new(
            "keys::shortest_scopes",
            "R3",
            "scopes of one byte are scopes like any other",
            shortest_scopes,
        )
        .needing(&[Capability::Isolated]),
        Case::new(
            "keys::scopes_do_not_meet",
            "R4",
            "the same key in two scopes is two records, through every verb",
            scopes_do_not_meet,
        ),
        Case::new(
            "keys::operation_names_are_compared_as_bytes",
            "R4",
            "operation names that differ by case, space, accent or length are different",
            operation_names,
        ),
        Case::new(
            "keys::many_at_once",
            "R2, R3",
            "many keys at once, each in progress, are each completed",
            many_keys_at_once,
        ),
    ]);
    cases
}

/// Scope suffixes and keys, all of them different identities.
pub(super) type Identities = fn() -> Vec<(String, Vec<u8>)>;

/// Claims all, and completes each with a reply of its own: every one has to be a record of its
/// own, under exactly these bytes.
async fn never_collide(cx: Context, identities: Identities) -> CaseResult {
    let peer = cx.connect().await?;
    let mut asks = Vec::new();
    for (suffix, key) in identities() {
        let scope = cx.scope_of(format!("{}/{suffix}", cx.prefix()));
        let key = Key::opaque(&key).expect("the battery's keys are of legal length");
        asks.push(Ask::new(scope, key, cx.owner()));
    }
    each_is_its_own(&cx, &peer, &asks).await
}

async fn each_is_its_own(cx: &Context, peer: &crate::peer::Peer, asks: &[Ask]) -> CaseResult {
    let mut held = Vec::new();
    for ask in asks {
        let place = || describe(ask);
        let acquired = acquire(peer, ask).await.map_err(|failure| failure.at(place()))?;
        held.push(acquired.fence);
    }
    for (number, (ask, fence)) in asks.iter().zip(&held).enumerate() {
        let record = present(peer, ask).await.map_err(|failure| failure.at(describe(ask)))?.record;
        equal("the stored scope", record.scope.as_str(), ask.scope.as_str())?;
        equal("the stored key", record.key.as_bytes(), ask.key.as_bytes())?;
        equal("the stored fence", &record.fence(), fence)?;
        peer.complete(fence, &sealed(format!("reply {number}"))).await?;
    }
    for (number, ask) in asks.iter().enumerate() {
        match peer.claim(&cx.again(ask).claim()).await? {
            Claimed::Completed(replay) => {
                equal(&describe(ask), replay.reply, sealed(format!("reply {number}")))?;
            }
            other => return Err(Failure::new("a replay", format!("{other:?}")).at(describe(ask))),
        }
    }
    Ok(())
}

fn describe(ask: &Ask) -> String {
    let scope: String = ask.scope.as_str().chars().rev().take(12).collect();
    let scope: String = scope.chars().rev().collect();
    format!("scope …{scope:?}, key {:?}", ask.key.as_bytes().escape_ascii().to_string())
}

async fn longest_scopes(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let stem = format!("{:x<254}", cx.prefix());
    let key = Key::new("k").expect("a short key");
    let asks: Vec<Ask> = ["a", "b", " ", "A"]
        .map(|last| Ask::new(cx.scope_of(format!("{stem}{last}")), key.clone(), cx.owner()))
        .to_vec();
    each_is_its_own(&cx, &peer, &asks).await
}

async fn shortest_scopes(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let key = Key::new("k").expect("a short key");
    let asks: Vec<Ask> = ["a", "A", " ", "0", "\0", "'", "%", "{"]
        .map(|scope| Ask::new(cx.scope_of(scope), key.clone(), cx.owner()))
        .to_vec();
    each_is_its_own(&cx, &peer, &asks).await
}

async fn scopes_do_not_meet(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let one = cx.ask("k");
    let two = Ask { scope: cx.scope("other"), ..cx.again(&one) };
    let held = acquire(&peer, &one).await?;
    let other = acquire(&peer, &two).await?;
    // A fence with the other's scope is nobody's.
    let mut crossed = held.fence.clone();
    crossed.scope = two.scope.clone();
    let kind = idem_core::error::ErrorKind::FenceLost;
    crate::failure::refused(peer.complete(&crossed, &sealed("x")).await, kind)?;
    crate::failure::refused(peer.renew(&crossed, Duration::ZERO).await, kind)?;
    crate::failure::refused(peer.release(&crossed).await, kind)?;
    peer.complete(&held.fence, &sealed("one")).await?;
    let record = present(&peer, &two).await?.record;
    equal("the other scope's fence", record.fence(), other.fence.clone())?;
    peer.release(&other.fence).await?;
    equal("the other scope's record", peer.get(&two.scope, &two.key).await?, None)?;
    present(&peer, &one).await.map(drop)
}

async fn operation_names(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let longest = "o".repeat(255);
    let names =
        ["charge", "Charge", "charge ", " charge", "chargé", "charge\u{301}", "c", &longest];
    for (index, name) in names.iter().enumerate() {
        let ask = cx.ask(&format!("k{index}")).operation(name).marking_begun();
        acquire(&peer, &ask).await?;
        let stored = present(&peer, &ask).await?.record.operation;
        equal("the stored operation", stored.as_str(), *name)?;
        for other in names.iter().filter(|other| *other != name) {
            let operation = OperationName::new(other).expect("a short name");
            let ask = Ask { operation, ..cx.again(&ask) };
            let claimed = peer.claim(&ask.claim()).await?;
            equal("another operation", claimed, Claimed::Mismatch { completed: false })?;
        }
    }
    Ok(())
}

async fn many_keys_at_once(cx: Context) -> CaseResult {
    let peers = cx.connect_many(2).await?;
    let mut held = Vec::new();
    for number in 0..50 {
        let mut ask = cx.ask(&format!("k{number}")).print(print(number));
        ask.owner = Owner::from_bytes([number; 16]);
        held.push(acquire(&peers[usize::from(number) % 2], &ask).await?.fence);
    }
    for (number, fence) in held.iter().enumerate().rev() {
        peers[number % 2].complete(fence, &sealed([7])).await?;
    }
    Ok(())
}
