//! Keys, scopes and data come back as they went in.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::claim::Claimed;
use idem_core::record::{OperationName, Recovery, Retention};
use idem_core::time::{MAX_DURATION, ManualClock};

use crate::support::{LEASE, Request, sealed};

/// Keys that some database somewhere has taken for one another, or cut, or turned into numbers.
fn lookalikes() -> Vec<Vec<u8>> {
    let longest = [b'k'; 255];
    let mut other_end = longest;
    other_end[254] = b'K';
    let texts: [&str; 24] = [
        "key",
        "KEY",
        "Key",
        "key ",
        " key",
        "key\t",
        "kéy",
        "ke\u{301}y",
        "ss",
        "ß",
        "7",
        "007",
        "7.0",
        "7e0",
        "0x7",
        "NULL",
        "null",
        "'",
        "\"",
        "a;b",
        "%",
        "_",
        "{tag}a",
        "\u{1f600}",
    ];
    let mut keys: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    keys.extend([
        b"key\0".to_vec(),
        b"\0key".to_vec(),
        b"ke\0y".to_vec(),
        b"\0".to_vec(),
        b"\0\0".to_vec(),
        vec![0xff],
        vec![0xff, 0xfe],
        longest.to_vec(),
        other_end.to_vec(),
        longest[..254].to_vec(),
    ]);
    keys
}

pub(crate) async fn keys_that_look_alike_are_different(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let keys = lookalikes();
    for (number, key) in keys.iter().enumerate() {
        let request = Request::opaque("s", key);
        let fence = request.acquire(&store).await.fence;
        store.complete(&fence, &sealed(format!("reply {number}"))).await.unwrap();
    }
    for (number, key) in keys.iter().enumerate() {
        let Claimed::Completed(replay) = Request::opaque("s", key).send(&store).await else {
            panic!("key {number} was not found again");
        };
        assert_eq!(replay.reply, sealed(format!("reply {number}")));
        assert_eq!(replay.fence.key.as_bytes(), key);
    }
    let listed = store.list(&Filter::all(), None, 1_000).await.unwrap().records;
    let mut expected = keys.clone();
    expected.sort();
    let seen: Vec<&[u8]> = listed.iter().map(|seen| seen.record.key.as_bytes()).collect();
    assert_eq!(seen, expected, "byte order");
}

pub(crate) async fn scopes_that_look_alike_are_different(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let longest = "s".repeat(255);
    // (a, bc) and (ab, c) must not meet either.
    let pairs = [
        ("a", "bc"),
        ("ab", "c"),
        ("A", "bc"),
        ("a ", "bc"),
        ("a\0", "bc"),
        ("ä", "bc"),
        ("a\u{308}", "bc"),
        (longest.as_str(), "bc"),
    ];
    for (scope, key) in pairs {
        Request::opaque(scope, key.as_bytes()).acquire(&store).await;
    }
    for (scope, key) in pairs {
        let seen = Request::opaque(scope, key.as_bytes()).send(&store).await;
        assert!(matches!(seen, Claimed::InProgress { .. }), "{scope:?}");
        let listed = store
            .list(&Filter::all().scope(Request::opaque(scope, b"k").scope), None, 10)
            .await
            .unwrap();
        assert_eq!(listed.records.len(), 1, "{scope:?}");
    }
}

pub(crate) async fn operations_are_compared_byte_for_byte(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let names = ["charge", "Charge", "charge ", "charge\0", "chargé", &"o".repeat(255)];
    for (number, name) in names.iter().enumerate() {
        let operation = OperationName::new(name).unwrap();
        let request =
            Request::new(&format!("k{number}")).with(|it| it.operation = operation.clone());
        request.acquire(&store).await;
        for (other_number, other) in names.iter().enumerate() {
            let other = request.with(|it| it.operation = OperationName::new(other).unwrap());
            let seen = other.send(&store).await;
            if number == other_number {
                assert!(matches!(seen, Claimed::InProgress { .. }), "{name:?} {seen:?}");
            } else {
                assert_eq!(seen, Claimed::Mismatch { completed: false }, "{name:?}");
            }
        }
        let listed = store.list(&Filter::all().operation(operation), None, 10).await.unwrap();
        assert_eq!(listed.records.len(), 1, "{name:?}");
    }
}

pub(crate) async fn data_comes_back_byte_for_byte(store: impl Admin, _clock: Arc<ManualClock>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..1024 * 1024_u32).map(|number| (number * 31 % 251) as u8).collect();
    let payloads = [Vec::new(), vec![0], b"text".to_vec(), every_byte, large];
    for (number, payload) in payloads.iter().enumerate() {
        let payload = sealed(payload);
        let request =
            Request::new(&format!("k{number}")).with(|it| it.input = Some(payload.clone()));
        let fence = request.acquire(&store).await.fence;
        let recovery = Recovery { number: 1, payload: payload.clone() };
        store.checkpoint(&fence, &recovery, LEASE).await.unwrap();
        let record = store.get(&fence.scope, &fence.key).await.unwrap().unwrap().record;
        assert_eq!(record.input.as_ref(), Some(&payload), "input {number}");
        assert_eq!(record.recovery(), Some(&recovery), "recovery point {number}");
        store.complete(&fence, &payload).await.unwrap();
        let Claimed::Completed(replay) = request.again().send(&store).await else {
            panic!("expected reply {number}");
        };
        assert_eq!(replay.reply, payload, "reply {number}");
        store.complete(&fence, &payload).await.expect("the same bytes again");
    }
    let without = Request::new("none").with(|it| it.input = None);
    assert_eq!(without.acquire(&store).await.input, None, "no input is not an empty one");
}

pub(crate) async fn durations_at_their_limits_are_kept(store: impl Admin, clock: Arc<ManualClock>) {
    let longest = Request::new("long").with(|it| {
        it.lease = Duration::MAX;
        it.retention = Retention::at_least(Duration::MAX, Duration::MAX);
    });
    let acquired = longest.acquire(&store).await;
    assert_eq!(acquired.lease, MAX_DURATION);
    store.complete(&acquired.fence, &sealed("reply")).await.unwrap();
    let Claimed::Completed(replay) = longest.again().send(&store).await else {
        panic!("expected the reply");
    };
    assert_eq!(replay.expires_in, Some(MAX_DURATION));

    let none = Request::new("short").with(|it| {
        it.lease = Duration::ZERO;
        it.retention = Retention::of(Duration::ZERO);
    });
    let acquired = none.acquire(&store).await;
    assert!(acquired.lease > Duration::ZERO, "zero is a short lease, not none");
    assert!(matches!(none.again().send(&store).await, Claimed::InProgress { .. }));
    clock.advance(acquired.lease);
    assert_eq!(none.again().acquire(&store).await.fence.attempt, 2);
}
