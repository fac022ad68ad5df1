//! The history checker on histories known good and known bad, and on a store that double-acquires.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::claim::{Acquired, Claim, Claimed, Replay, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, OperationName, Owner, Retention};
use idem_core::store::{Lease, Renewed, Store};
use idem_core::time::MAX_DURATION;
use idem_testkit::broken::double_acquirer;
use idem_testkit::history::{Answer, Call, History, Hunt, Operation, check};
use idem_testkit::memory::MemoryFixture;

const HOUR: Duration = Duration::from_secs(3_600);

fn fence(life: u8, attempt: u32, owner: u8) -> Fence {
    Fence {
        scope: Scope::new("s").unwrap(),
        key: Key::new("k").unwrap(),
        incarnation: Incarnation::from_bytes([life; 16]),
        attempt,
        owner: Owner::from_bytes([owner; 16]),
    }
}

fn print() -> Fingerprint {
    Fingerprint::from_parts(Scheme::V1, [1; 32])
}

/// A claim by `owner` with this lease, taking over whatever is lapsed.
fn claim(owner: u8, lease: Duration) -> Call {
    claim_kept(owner, lease, Retention::Forever)
}

fn claim_kept(owner: u8, lease: Duration, retention: Retention) -> Call {
    let of = fence(0, 1, owner);
    let (operation, prints) = (OperationName::new("charge").unwrap(), Fingerprints::new(print()));
    let takeover = Takeover::Below { attempts: u32::MAX, younger_than: MAX_DURATION };
    let claim =
        Claim::new(&of.scope, &of.key, of.owner, &operation, &prints, lease, retention, takeover);
    Call::Claim((&claim).into())
}

fn acquired(life: u8, attempt: u32, owner: u8) -> Answer {
    Answer::Claimed(Claimed::Acquired(Acquired::held(fence(life, attempt, owner), HOUR, print())))
}

fn in_progress() -> Answer {
    Answer::Claimed(Claimed::InProgress { remaining: HOUR })
}

fn complete(life: u8, attempt: u32, owner: u8, reply: &'static str) -> Call {
    Call::Complete { fence: fence(life, attempt, owner), reply: Sealed::from_bytes(reply) }
}

fn replay(life: u8, attempt: u32, owner: u8, reply: &'static str) -> Answer {
    let reply = Sealed::from_bytes(reply);
    Answer::Claimed(Claimed::Completed(Replay::new(reply, None, fence(life, attempt, owner))))
}

fn get() -> Call {
    let Fence { scope, key, .. } = fence(0, 1, 1);
    Call::Get { scope, key }
}

/// A call from one millisecond to another; from an unknown one nobody heard again.
fn call(from: u64, to: u64, call: Call, answer: Answer) -> Operation {
    let returned = (answer != Answer::Unknown).then(|| Duration::from_millis(to));
    Operation { client: 0, invoked: Duration::from_millis(from), returned, call, answer }
}

fn good(operations: Vec<Operation>) {
    let count = operations.len();
    match check(&History::new(operations)) {
        Ok(checked) => assert_eq!((checked.operations, checked.undecided), (count, 0)),
        Err(violation) => panic!("this history is right, and it says: {violation}"),
    }
}

fn bad(operations: Vec<Operation>) -> Vec<Operation> {
    let violation = check(&History::new(operations)).expect_err("this history is wrong");
    println!("{violation}");
    violation.window().to_vec()
}

#[test]
fn a_life_in_order_is_explained() {
    good(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, claim(2, HOUR), in_progress()),
        call(4, 5, complete(1, 1, 1, "done"), Answer::Done),
        call(6, 7, complete(1, 1, 1, "done"), Answer::Done),
        call(8, 9, claim(3, HOUR), replay(1, 1, 1, "done")),
    ]);
}

#[test]
fn calls_that_overlap_may_take_effect_in_either_order() {
    // The loser was made first and answered last; the winner lies inside it.
    good(vec![
        call(0, 9, claim(1, HOUR), in_progress()),
        call(3, 5, claim(2, HOUR), acquired(1, 1, 2)),
    ]);
    // A replay may be told before the completion is acknowledged.
    good(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 9, complete(1, 1, 1, "done"), Answer::Done),
        call(3, 5, claim(2, HOUR), replay(1, 1, 1, "done")),
    ]);
}

#[test]
fn two_winners_are_not_explained_and_the_window_is_the_two_claims() {
    let window = bad(vec![
        call(0, 1, claim(9, HOUR), acquired(9, 1, 9)),
        call(2, 3, Call::Release { fence: fence(9, 1, 9) }, Answer::Done),
        call(4, 8, claim(1, HOUR), acquired(1, 1, 1)),
        call(5, 9, claim(2, HOUR), acquired(2, 1, 2)),
        call(5, 9, claim(3, HOUR), in_progress()),
        call(10, 11, claim(4, HOUR), in_progress()),
    ]);
    let owners: Vec<_> = window.iter().map(|operation| operation.invoked.as_millis()).collect();
    assert_eq!(owners, [4, 5], "only the two claims are needed");
}

#[test]
fn an_answer_from_the_past_is_not_explained() {
    // It was acknowledged before the reading was made.
    bad(vec![call(0, 1, claim(1, HOUR), acquired(1, 1, 1)), call(2, 3, get(), Answer::Seen(None))]);
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
        call(4, 5, claim(2, HOUR), in_progress()),
    ]);
}

#[test]
fn another_reply_than_the_stored_one_is_not_explained() {
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
        call(4, 5, claim(2, HOUR), replay(1, 1, 1, "other")),
    ]);
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(2, 9, complete(1, 1, 1, "one"), Answer::Done),
        call(2, 9, complete(1, 1, 1, "two"), Answer::Done),
    ]);
}

#[test]
fn a_write_under_a_lost_fence_is_not_explained() {
    let lapsed = Duration::from_millis(10);
    let takeover = call(500, 501, claim(2, HOUR), acquired(1, 2, 2));
    let start = || call(0, 1, claim(1, lapsed), acquired(1, 1, 1));
    good(vec![
        start(),
        takeover.clone(),
        call(502, 503, complete(1, 1, 1, "late"), Answer::Refused(ErrorKind::FenceLost)),
    ]);
    bad(vec![start(), takeover, call(502, 503, complete(1, 1, 1, "late"), Answer::Done)]);
}

#[test]
fn a_lease_runs_for_as_long_as_it_was_set() {
    // Taken over after a second, although it was set for an hour.
    bad(vec![
        call(0, 1, claim(1, HOUR), acquired(1, 1, 1)),
        call(1_000, 1_001, claim(2, HOUR), acquired(1, 2, 2)),
    ]);
    // Still in progress after a minute, although it was set for a second.
    bad(vec![
        call(0, 1, claim(1, Duration::from_secs(1)), acquired(1, 1, 1)),
        call(60_000, 60_001, claim(2, HOUR), in_progress()),
    ]);
    // Renewed meanwhile, it does run on.
    let held = Answer::Renewed(Renewed::Held(Lease { remaining: HOUR }));
    good(vec![
        call(0, 1, claim(1, Duration::from_secs(1)), acquired(1, 1, 1)),
        call(2, 3, Call::Renew { fence: fence(1, 1, 1), lease: HOUR }, held),
        call(60_000, 60_001, claim(2, HOUR), in_progress()),
    ]);
}

#[test]
fn a_reply_is_kept_for_as_long_as_was_asked() {
    let kept = |retention| {
        vec![
            call(0, 1, claim_kept(1, HOUR, retention), acquired(1, 1, 1)),
            call(2, 3, complete(1, 1, 1, "done"), Answer::Done),
            call(60_000, 60_001, claim(2, HOUR), acquired(2, 1, 2)),
        ]
    };
    bad(kept(Retention::Forever));
    bad(kept(Retention::of(HOUR)));
    good(kept(Retention::of(Duration::from_secs(1))));
    bad(kept(Retention::at_least(Duration::from_secs(1), HOUR)));
}

#[test]
fn an_unknown_call_may_have_happened_or_not_at_any_later_time() {
    let unknown = || call(0, 0, claim(1, HOUR), Answer::Unknown);
    // It never did.
    good(vec![unknown(), call(5, 6, claim(2, HOUR), acquired(2, 1, 2))]);
    // It did, and nobody was told the incarnation until the same call was made again.
    good(vec![
        unknown(),
        call(5, 6, claim(2, HOUR), in_progress()),
        call(7, 8, claim(1, HOUR), acquired(1, 1, 1)),
        call(9, 10, complete(1, 1, 1, "done"), Answer::Done),
    ]);
    // It did, after another life had come and gone.
    good(vec![
        unknown(),
        call(5, 6, claim(2, HOUR), acquired(2, 1, 2)),
        call(7, 8, Call::Release { fence: fence(2, 1, 2) }, Answer::Done),
        call(9, 10, claim(3, HOUR), in_progress()),
    ]);
    // It cannot have happened twice.
    bad(vec![
        unknown(),
        call(1, 2, claim(3, HOUR), in_progress()),
        call(
            3,
            4,
            Call::Get { scope: fence(0, 1, 1).scope, key: fence(0, 1, 1).key },
            Answer::Seen(None),
        ),
    ]);
}

#[test]
fn a_call_that_was_known_not_to_be_applied_explains_itself() {
    let refused = call(2, 3, claim(2, HOUR), Answer::Refused(ErrorKind::NotApplied));
    let operations = vec![call(0, 1, claim(1, HOUR), acquired(1, 1, 1)), refused];
    assert_eq!(check(&History::new(operations)).unwrap().operations, 1);
}

async fn connections(suite: &idem_testkit::conformance::Conformance) -> Vec<Arc<dyn Store>> {
    let fixture = suite.fixture().await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(fixture.connect().await.unwrap().verbs());
    }
    connections
}

fn seed() -> u64 {
    let seed = std::env::var("IDEM_TESTKIT_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) << 20 ^ now.as_secs()
    });
    println!("IDEM_TESTKIT_SEED={seed}");
    seed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_double_acquire_once_in_10_000_claims_is_found_within_a_minute() {
    let connections = connections(&double_acquirer(10_000)).await;
    let started = Instant::now();
    let hunt = Hunt::new(Scope::new("hunt").unwrap(), seed()).budget(Duration::from_secs(60));
    let violation = hunt.run(&connections).await.expect_err("it double-acquires");
    println!("found after {:?}: {violation}", started.elapsed());
    let told = violation.window().iter().filter(|operation| {
        matches!(operation.answer, Answer::Claimed(Claimed::Acquired(_)) | Answer::Unknown)
    });
    assert!(told.count() >= 1, "an acquisition too many is in the window");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_store_s_histories_are_explained() {
    let connections = connections(&MemoryFixture::conformance()).await;
    let hunt = Hunt::new(Scope::new("hunt").unwrap(), seed()).budget(Duration::from_secs(3));
    let checked = hunt.run(&connections).await.unwrap_or_else(|violation| panic!("{violation}"));
    println!("{checked:?}");
    assert!(checked.operations > 1_000, "{checked:?}");
    assert_eq!(checked.undecided, 0);
}
