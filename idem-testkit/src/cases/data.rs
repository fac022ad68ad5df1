//! Payloads come back byte for byte (R3, R17).

use std::ops::RangeInclusive;

use idem_core::claim::Claimed;
use idem_core::codec::{Codec, Sealed};
use idem_core::error::ErrorKind;
use idem_core::reply::{Reply, StoredReply, Tombstone};
use idem_core::store::Store;

use crate::ask::{LONG, recovery, sealed};
use crate::case::Case;
use crate::context::{Context, acquire, present};
use crate::failure::{CaseResult, Failure, equal, refused, that};
use crate::peer::Peer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "data::bytes_come_back",
            "R3",
            "reply, input and recovery point keep all 256 byte values, ends and middles",
            bytes_come_back,
        ),
        Case::new(
            "data::one_mebibyte",
            "R3, R17",
            "a payload of 1 MiB comes back whole, or is refused before anything is written",
            one_mebibyte,
        ),
        Case::new(
            "data::around_powers_of_two",
            "R3",
            "nothing is cut at 255, 256, 65,535 or 65,536 bytes",
            around_powers_of_two,
        ),
        Case::new(
            "data::no_input_is_not_an_empty_one",
            "R15",
            "a record without an input and one with an input of few bytes are told apart",
            no_input,
        ),
        Case::new(
            "data::replies_of_every_shape",
            "R8",
            "status, header order, repeats and case, bytes, trailers, empty body and none",
            replies_of_every_shape,
        ),
        Case::new(
            "data::every_status",
            "R8",
            "replies of status 100 to 599 come back with it",
            every_status,
        ),
        Case::new(
            "data::recovery_points_follow_each_other",
            "R8",
            "a hundred recovery points, each of its own size, each readable in its turn",
            many_recovery_points,
        ),
        Case::new(
            "data::same_reply_other_bytes",
            "R5, R8",
            "a repeated completion is the same only with the very same bytes",
            same_reply_other_bytes,
        ),
    ]
}

fn payloads() -> Vec<Vec<u8>> {
    vec![
        (0..=255).collect(),
        (0..=255).rev().collect(),
        vec![0],
        vec![0; 17],
        b"ends in nul\0".to_vec(),
        b"\0starts with nul".to_vec(),
        b"ends in space ".to_vec(),
        b"line\r\nends\n".to_vec(),
        b"quote ' and \\ and \" and % and $1".to_vec(),
        b"\xff\xfe\xfd not text".to_vec(),
        "snow \u{2603}, and a face \u{1f600}".as_bytes().to_vec(),
        b"{\"json\":true}".to_vec(),
        b"007".to_vec(),
    ]
}

/// Writes `payload` everywhere it can stand, and reads it back wherever it can be read.
async fn comes_back(cx: &Context, peer: &Peer, label: &str, payload: &[u8]) -> CaseResult {
    let ask = cx.ask(label).input(payload);
    let whole = |what: &str, seen: Option<&Sealed>| {
        let same = seen.is_some_and(|seen| seen.as_bytes() == payload);
        let told = (what.to_owned(), seen.map(Sealed::len));
        that(same, &format!("{what} of these {} bytes", payload.len()), told)
    };
    let held = acquire(peer, &ask).await?;
    whole("the input", held.input.as_ref())?;
    peer.checkpoint(&held.fence, &recovery(1, payload), LONG).await?;
    let record = present(peer, &ask).await?.record;
    whole("the stored input", record.input.as_ref())?;
    whole("the recovery point", record.recovery().map(|point| &point.payload))?;
    let again = acquire(peer, &ask).await?;
    whole("the recovery point of a repeat", again.recovery.as_ref().map(|point| &point.payload))?;
    peer.complete(&held.fence, &sealed(payload)).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => whole("the reply", Some(&replay.reply)),
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn bytes_come_back(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for (number, payload) in payloads().iter().enumerate() {
        comes_back(&cx, &peer, &format!("k{number}"), payload).await?;
    }
    Ok(())
}

fn noise(cx: &Context, length: usize) -> Vec<u8> {
    let mut random = cx.random();
    (0..length).map(|_| random.next().to_le_bytes()[0]).collect()
}

async fn one_mebibyte(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let big = noise(&cx, 1024 * 1024);
    let Some(most) = cx.capabilities().max_value_bytes().filter(|most| *most < big.len()) else {
        return comes_back(&cx, &peer, "k", &big).await;
    };
    comes_back(&cx, &peer, "most", &noise(&cx, most)).await?;
    let over = noise(&cx, most + 1);
    let ask = cx.ask("over").input(over.clone());
    refused(peer.claim(&ask.claim()).await, ErrorKind::InvalidInput)?;
    equal("the record", peer.get(&ask.scope, &ask.key).await?, None)?;
    let held = acquire(&peer, &cx.ask("over")).await?;
    let before = present(&peer, &ask).await?.record;
    let point = recovery(1, over.clone());
    refused(peer.checkpoint(&held.fence, &point, LONG).await, ErrorKind::InvalidInput)?;
    refused(peer.complete(&held.fence, &sealed(over)).await, ErrorKind::InvalidInput)?;
    equal("the record", present(&peer, &ask).await?.record, before)
}

async fn around_powers_of_two(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let most = cx.capabilities().max_value_bytes().unwrap_or(usize::MAX);
    let around = |middle: usize| -> RangeInclusive<usize> { middle - 1..=middle + 1 };
    for middle in [128, 256, 1024, 8_192, 65_536] {
        for length in around(middle).filter(|length| *length <= most) {
            comes_back(&cx, &peer, &format!("k{length}"), &noise(&cx, length)).await?;
        }
    }
    Ok(())
}

async fn no_input(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let without = cx.ask("without");
    equal("no input", acquire(&peer, &without).await?.input, None)?;
    equal("no stored input", present(&peer, &without).await?.record.input, None)?;
    let with = cx.ask("with").input([0]);
    equal("an input", acquire(&peer, &with).await?.input, Some(sealed([0])))?;
    equal("a stored input", present(&peer, &with).await?.record.input, Some(sealed([0])))
}

/// Through the codec and the store and back.
async fn replays(cx: &Context, peer: &Peer, label: &str, reply: &StoredReply) -> CaseResult {
    let ask = cx.ask(label);
    let codec = Codec::new();
    let coded = codec.encode_reply(reply, &ask.scope, &ask.key);
    let coded = coded.map_err(|error| Failure::new("the codec to take it", error.to_string()))?;
    let held = acquire(peer, &ask).await?;
    peer.complete(&held.fence, &coded).await?;
    match peer.claim(&cx.again(&ask).claim()).await? {
        Claimed::Completed(replay) => {
            let read = codec.decode_reply(&replay.reply, &ask.scope, &ask.key);
            let read = read.map_err(|error| Failure::new("a readable reply", error.to_string()))?;
            that(read == *reply, "the very reply", (label, read, reply))
        }
        other => Err(Failure::new("a replay", format!("{other:?}"))),
    }
}

async fn replies_of_every_shape(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let all: Vec<u8> = (0..=255).collect();
    let shapes = [
        ("no body", Reply::empty()),
        ("empty body", Reply::empty().with_body("")),
        ("all bytes", Reply::from(all)),
        (
            "headers",
            Reply::from("x")
                .with_header("Set-Cookie", "a=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT")
                .with_header("set-cookie", "b=2")
                .with_header("X-Latin", &b"caf\xe9"[..])
                .with_header("X-Empty", "")
                .with_header("Set-Cookie", "a=1"),
        ),
        ("trailers", Reply::from("x").with_trailer("Digest", "1").with_trailer("digest", "2")),
    ];
    for (label, reply) in shapes {
        replays(&cx, &peer, label, &reply.into()).await?;
    }
    let tombstone = Tombstone::new(201).expect("a status").with_body_bytes_seen(1 << 40);
    replays(&cx, &peer, "tombstone", &tombstone.into()).await
}

async fn every_status(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for status in (100..=599).step_by(7).chain([100, 199, 204, 304, 500, 599]) {
        let reply = Reply::empty().with_status(status).expect("a legal status");
        replays(&cx, &peer, &format!("s{status}-{}", cx.random().next()), &reply.into()).await?;
    }
    Ok(())
}

async fn many_recovery_points(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let ask = cx.ask("k");
    let held = acquire(&peer, &ask).await?;
    for number in 1..=100_u32 {
        let point = recovery(number, noise(&cx, usize::try_from(number).expect("small") * 37));
        peer.checkpoint(&held.fence, &point, LONG).await?;
        if number % 10 == 0 {
            let record = present(&peer, &ask).await?.record;
            equal("the recovery point", record.recovery(), Some(&point))?;
        }
    }
    Ok(())
}

async fn same_reply_other_bytes(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    let pairs: [(&[u8], &[u8]); 5] = [
        (b"reply", b"reply "),
        (b"reply", b"Reply"),
        (b"reply", b"reply\0"),
        (b"{\"a\":1}", b"{\"a\": 1}"),
        (b"\xff", b"\xfe"),
    ];
    for (number, (one, other)) in pairs.into_iter().enumerate() {
        let ask = cx.ask(&format!("k{number}"));
        let held = acquire(&peer, &ask).await?;
        peer.complete(&held.fence, &sealed(one)).await?;
        peer.complete(&held.fence, &sealed(one)).await?;
        refused(peer.complete(&held.fence, &sealed(other)).await, ErrorKind::FenceLost)?;
        match peer.claim(&cx.again(&ask).claim()).await? {
            Claimed::Completed(replay) => equal("the reply", replay.reply, sealed(one))?,
            other => return Err(Failure::new("a replay", format!("{other:?}"))),
        }
    }
    Ok(())
}
