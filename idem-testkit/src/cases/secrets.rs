//! Keys, scopes and payloads are in no message (R24).

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use idem_core::error::{ErrorKind, StoreError};
use idem_core::store::Store;

use crate::ask::{Ask, LONG, print_under, recovery, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, setup};
use crate::failure::{CaseResult, Failure};

/// Looks like nothing that a message would say by itself.
const SECRET: &str = "xyzzy-4242-plugh";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "secrets::refusals_tell_nothing",
            "R24",
            "the errors of refused calls hold neither scope, key, input, reply nor operation",
            refusals,
        ),
        Case::new(
            "secrets::answers_tell_nothing",
            "R24",
            "answers and records, printed for a log, hold neither scope, key nor payload",
            answers,
        ),
        Case::new(
            "secrets::lost_connections_tell_nothing",
            "R24",
            "the errors of a server out of reach hold neither key, payload nor password",
            lost_connections,
        )
        .needing(&[Capability::NetworkFaults]),
        Case::new(
            "secrets::corrupt_records_tell_nothing",
            "R9, R24",
            "the errors about a damaged record do not hold what is in it",
            corrupt_records,
        )
        .needing(&[Capability::Damage]),
    ]
}

fn secret(cx: &Context) -> Ask {
    Ask { scope: cx.scope(SECRET), ..cx.ask(SECRET) }.input(SECRET)
}

/// Whether the secret is in a text, as it is or as a byte list or in hexadecimal.
fn tells(text: &str) -> bool {
    let bytes: Vec<String> = SECRET.bytes().take(8).map(|byte| byte.to_string()).collect();
    let hex: String = SECRET.bytes().take(8).map(|byte| format!("{byte:02x}")).collect();
    text.contains(SECRET) || text.contains(&bytes.join(", ")) || text.to_lowercase().contains(&hex)
}

fn silent(error: &StoreError) -> CaseResult {
    let mut texts = vec![error.to_string(), format!("{error:?}"), format!("{error:#?}")];
    let mut source = error.source();
    while let Some(cause) = source {
        texts.extend([cause.to_string(), format!("{cause:?}")]);
        source = cause.source();
    }
    match texts.iter().find(|text| tells(text)) {
        None => Ok(()),
        // Not the text itself: a report is a log too.
        Some(_) => Err(Failure::new(
            "an error without the key, the scope and the payloads",
            format!("one of kind {} of {} that holds them", error.kind(), error.verb()),
        )),
    }
}

fn silent_refusal<T: Debug>(result: Result<T, StoreError>, kind: ErrorKind) -> CaseResult {
    match result {
        Ok(answer) => Err(Failure::new(format!("an error of kind {kind}"), format!("{answer:?}"))),
        Err(error) => silent(&error),
    }
}

async fn refusals(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = secret(&cx);
    let held = acquire(&peer, &ask).await?;
    let stranger = cx.again(&ask).print(print_under(77, 1));
    silent_refusal(peer.claim(&stranger.claim()).await, ErrorKind::WrongSchema)?;
    let mut lost = held.fence.clone();
    lost.attempt = 9;
    let (lost_kind, refused) = (ErrorKind::FenceLost, ErrorKind::Refused);
    silent_refusal(peer.renew(&lost, Duration::ZERO).await, lost_kind)?;
    silent_refusal(peer.complete(&lost, &sealed(SECRET)).await, lost_kind)?;
    silent_refusal(peer.release(&lost).await, lost_kind)?;
    let far = recovery(7, SECRET);
    silent_refusal(peer.checkpoint(&held.fence, &far, LONG).await, refused)?;
    peer.checkpoint(&held.fence, &recovery(1, SECRET), LONG).await?;
    silent_refusal(peer.release(&held.fence).await, refused)?;
    let cursor = idem_core::store::Cursor::from_bytes(SECRET);
    silent_refusal(peer.lapsed(Some(&cursor), 1).await, ErrorKind::InvalidInput)
}

async fn answers(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = secret(&cx);
    let mut texts = vec![format!("{:?}", peer.claim(&ask.claim()).await?)];
    let held = acquire(&peer, &ask).await?;
    peer.checkpoint(&held.fence, &recovery(1, SECRET), LONG).await?;
    texts.push(format!("{:?}", peer.get(&ask.scope, &ask.key).await?));
    peer.complete(&held.fence, &sealed(SECRET)).await?;
    texts.push(format!("{:?}", peer.claim(&cx.again(&ask).claim()).await?));
    texts.push(format!("{:?}", peer.get(&ask.scope, &ask.key).await?));
    match texts.iter().position(|text| tells(text)) {
        None => Ok(()),
        Some(at) => Err(Failure::new("answers that hide what is secret", format!("answer {at}"))),
    }
}

async fn lost_connections(cx: Context) -> CaseResult {
    let opened = cx.fixture().connect_through_proxy().await;
    let (connected, proxy) = opened.map_err(|error| setup("a proxied connection", &error))?;
    let peer = cx.peer(connected);
    let ask = secret(&cx);
    let held = acquire(&peer, &ask).await?;
    proxy.cut();
    for _ in 0..3 {
        silent_refusal(peer.claim(&cx.again(&ask).claim()).await, ErrorKind::NotApplied)?;
        let completed = peer.complete(&held.fence, &sealed(SECRET)).await;
        silent_refusal(completed, ErrorKind::OutcomeUnknown)?;
    }
    Ok(())
}

async fn corrupt_records(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = secret(&cx);
    acquire(&peer, &ask).await?;
    let damaged = cx.fixture().damage(&ask.scope, &ask.key).await;
    damaged.map_err(|error| setup("a damaged record", &error))?;
    silent_refusal(peer.claim(&cx.again(&ask).claim()).await, ErrorKind::CorruptRecord)?;
    silent_refusal(peer.get(&ask.scope, &ask.key).await, ErrorKind::CorruptRecord)
}
