//! The words that histories are written in by hand.

use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Replay, Takeover};
use idem_core::codec::Sealed;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, OperationName, Owner, Retention};
use idem_core::time::MAX_DURATION;
use idem_testkit::history::{Answer, Call, History, Operation, check};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn fence(life: u8, attempt: u32, owner: u8) -> Fence {
    Fence {
        scope: Scope::new("s").unwrap(),
        key: Key::new("k").unwrap(),
        incarnation: Incarnation::from_bytes([life; 16]),
        attempt,
        owner: Owner::from_bytes([owner; 16]),
    }
}

pub(crate) fn print() -> Fingerprint {
    Fingerprint::from_parts(Scheme::V1, [1; 32])
}

/// A claim by `owner` with this lease, taking over whatever is lapsed.
pub(crate) fn claim(owner: u8, lease: Duration) -> Call {
    claim_kept(owner, lease, Retention::Forever)
}

pub(crate) fn claim_kept(owner: u8, lease: Duration, retention: Retention) -> Call {
    let takeover = Takeover::Below { attempts: u32::MAX, younger_than: MAX_DURATION };
    claim_with(owner, lease, retention, takeover)
}

/// A claim that takes over this very attempt and never inserts.
pub(crate) fn claim_only(owner: u8, of: Fence) -> Call {
    let Fence { incarnation, attempt, .. } = of;
    let takeover = Takeover::Only { incarnation, attempt, younger_than: None };
    claim_with(owner, HOUR, Retention::Forever, takeover)
}

fn claim_with(owner: u8, lease: Duration, retention: Retention, takeover: Takeover) -> Call {
    let of = fence(0, 1, owner);
    let (operation, prints) = (OperationName::new("charge").unwrap(), Fingerprints::new(print()));
    let claim =
        Claim::new(&of.scope, &of.key, of.owner, &operation, &prints, lease, retention, takeover);
    Call::Claim((&claim).into())
}

pub(crate) fn acquired(life: u8, attempt: u32, owner: u8) -> Answer {
    Answer::Claimed(Claimed::Acquired(Acquired::held(fence(life, attempt, owner), HOUR, print())))
}

pub(crate) fn in_progress() -> Answer {
    Answer::Claimed(Claimed::InProgress { remaining: HOUR })
}

pub(crate) fn complete(life: u8, attempt: u32, owner: u8, reply: &'static str) -> Call {
    Call::Complete { fence: fence(life, attempt, owner), reply: Sealed::from_bytes(reply) }
}

pub(crate) fn replay(life: u8, attempt: u32, owner: u8, reply: &'static str) -> Answer {
    let reply = Sealed::from_bytes(reply);
    Answer::Claimed(Claimed::Completed(Replay::new(reply, None, fence(life, attempt, owner))))
}

pub(crate) fn get() -> Call {
    let Fence { scope, key, .. } = fence(0, 1, 1);
    Call::Get { scope, key }
}

/// A call from one millisecond to another; from an unknown one nobody heard again.
pub(crate) fn call(from: u64, to: u64, call: Call, answer: Answer) -> Operation {
    let returned = (answer != Answer::Unknown).then(|| Duration::from_millis(to));
    Operation { client: 0, invoked: Duration::from_millis(from), returned, call, answer }
}

pub(crate) fn good(operations: Vec<Operation>) {
    let count = operations.len();
    match check(&History::new(operations)) {
        Ok(checked) => assert_eq!((checked.operations, checked.undecided), (count, 0)),
        Err(violation) => panic!("this history is right, and it says: {violation}"),
    }
}

pub(crate) fn bad(operations: Vec<Operation>) -> Vec<Operation> {
    let violation = check(&History::new(operations)).expect_err("this history is wrong");
    let text = violation.to_string();
    println!("{text}");
    let shown = violation.window().iter().all(|operation| text.contains(&operation.to_string()));
    assert!(shown, "the window is printed whole");
    violation.window().to_vec()
}

/// When the calls of a window were made, in milliseconds.
pub(crate) fn moments(window: &[Operation]) -> Vec<u128> {
    window.iter().map(|operation| operation.invoked.as_millis()).collect()
}
