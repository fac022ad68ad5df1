//! The short counterexamples, and other orders of events that once went wrong somewhere.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::{Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::store::Renewed;
use idem_core::time::ManualClock;

use crate::support::{LEASE, RETENTION, Request, kind_of, point, print, sealed};

pub(crate) async fn a_delayed_claim_after_expiry_does_not_revive_an_old_fence(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let old = request.acquire(&store).await.fence;
    store.complete(&old, &sealed("first")).await.unwrap();
    clock.advance(RETENTION);
    let new = request.acquire(&store).await.fence;
    assert_eq!((new.owner, new.attempt), (old.owner, old.attempt));
    assert_eq!(kind_of(store.complete(&old, &sealed("first")).await), ErrorKind::FenceLost);
    assert_eq!(kind_of(store.renew(&old, LEASE).await), ErrorKind::FenceLost);
    store.complete(&new, &sealed("second")).await.unwrap();
}

pub(crate) async fn a_delayed_claim_after_release_does_not_revive_an_old_fence(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let old = request.acquire(&store).await.fence;
    store.release(&old).await.unwrap();
    store.release(&old).await.expect("released twice is released");
    let new = request.acquire(&store).await.fence;
    assert_eq!(kind_of(store.release(&old).await), ErrorKind::FenceLost);
    let stands = store.get(&new.scope, &new.key).await.unwrap().unwrap();
    assert_eq!(stands.record.fence(), new);
}

pub(crate) async fn a_delayed_recovery_point_does_not_move_back(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let fence = Request::new("k").acquire(&store).await.fence;
    store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
    store.checkpoint(&fence, &point(1), LEASE).await.expect("the same again is Ok");
    let mut other = point(1);
    other.payload = sealed("other bytes");
    assert_eq!(kind_of(store.checkpoint(&fence, &other, LEASE).await), ErrorKind::Refused);
    store.checkpoint(&fence, &point(2), LEASE).await.unwrap();
    assert_eq!(kind_of(store.checkpoint(&fence, &point(1), LEASE).await), ErrorKind::Refused);
    assert_eq!(kind_of(store.checkpoint(&fence, &point(0), LEASE).await), ErrorKind::Refused);
    let stands = store.get(&fence.scope, &fence.key).await.unwrap().unwrap();
    assert_eq!(stands.record.recovery(), Some(&point(2)));
}

pub(crate) async fn a_second_attempt_is_never_released(store: impl Admin, clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let first = request.acquire(&store).await.fence;
    clock.advance(LEASE);
    let second = request.again().acquire(&store).await.fence;
    assert_eq!(kind_of(store.release(&second).await), ErrorKind::Refused);
    assert_eq!(kind_of(store.release(&first).await), ErrorKind::FenceLost);
    let corrected = request.with(|it| it.fingerprints = print(2).into());
    assert_eq!(corrected.send(&store).await, Claimed::Mismatch { completed: false });
}

pub(crate) async fn hold_counts_only_once_something_began(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let held = Request::new("k").with(|it| {
        it.takeover = Takeover::Never;
        it.marks_begun = true;
    });
    held.acquire(&store).await;
    clock.advance(LEASE);
    let second = held.again().acquire(&store).await.fence;
    store.checkpoint(&second, &point(1), LEASE).await.unwrap();
    clock.advance(LEASE);
    assert!(matches!(held.again().send(&store).await, Claimed::Lapsed(_)));
}

pub(crate) async fn a_reconciler_takes_only_what_it_listed(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let first = request.acquire(&store).await.fence;
    clock.advance(LEASE);
    let listed = store.lapsed(None, 10).await.unwrap().records.remove(0).record;
    store.complete(&first, &sealed("reply")).await.unwrap();
    clock.advance(RETENTION);
    let second = request.again().acquire(&store).await.fence;
    clock.advance(LEASE);
    let reconciler = request.with(|it| {
        it.takeover = Takeover::Only {
            incarnation: listed.incarnation,
            attempt: listed.attempt,
            younger_than: None,
        };
    });
    assert!(matches!(reconciler.send(&store).await, Claimed::Lapsed(_)));
    store.complete(&second, &sealed("its own")).await.expect("the new life is untouched");
}

pub(crate) async fn a_takeover_that_is_too_late_does_not_fence_out_the_holder(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let holder = request.acquire(&store).await.fence;
    clock.advance(Duration::from_secs(600));
    let late = request.with(|it| {
        let younger_than = Duration::from_secs(600);
        it.takeover = Takeover::Below { attempts: 9, younger_than };
    });
    assert!(matches!(late.send(&store).await, Claimed::Lapsed(_)));
    store.complete(&holder, &sealed("reply")).await.expect("the holder still completes");
}

pub(crate) async fn a_late_heartbeat_does_not_bring_back_a_lease_that_was_given_up(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let fence = request.acquire(&store).await.fence;
    assert_eq!(store.renew(&fence, Duration::ZERO).await.unwrap(), Renewed::GivenUp);
    assert_eq!(store.renew(&fence, LEASE).await.unwrap(), Renewed::GivenUp);
    let lease = store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
    assert_eq!(lease.remaining, Duration::ZERO, "a late recovery point neither");
    assert_eq!(request.again().acquire(&store).await.fence.attempt, 2);
    assert_eq!(kind_of(store.renew(&fence, LEASE).await), ErrorKind::FenceLost);
}

/// A loser's clean-up, a stale holder, a second taker: none of them frees or changes the claim.
pub(crate) async fn losers_change_nothing(store: impl Admin, clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let first = request.acquire(&store).await.fence;
    assert!(matches!(request.again().send(&store).await, Claimed::InProgress { .. }));
    assert!(matches!(request.again().send(&store).await, Claimed::InProgress { .. }));
    clock.advance(LEASE);
    let second = request.again().acquire(&store).await.fence;
    assert!(matches!(request.again().send(&store).await, Claimed::InProgress { .. }));
    let before = store.get(&request.scope, &request.key).await.unwrap();
    for lost in [
        kind_of(store.complete(&first, &sealed("stale")).await),
        kind_of(store.release(&first).await),
        kind_of(store.renew(&first, LEASE * 10).await),
        kind_of(store.renew(&first, Duration::ZERO).await),
        kind_of(store.checkpoint(&first, &point(1), LEASE).await),
        kind_of(store.remove(&first).await),
    ] {
        assert_eq!(lost, ErrorKind::FenceLost);
    }
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), before);
    store.complete(&second, &sealed("recovered")).await.unwrap();
    let Claimed::Completed(replay) = request.again().send(&store).await else {
        panic!("expected the recovered reply");
    };
    assert_eq!(replay.reply, sealed("recovered"));
}
