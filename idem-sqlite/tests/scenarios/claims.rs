//! Every row of the claim table.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::claim::{Claimed, Takeover};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::record::{Incarnation, OperationName, Retention};
use idem_core::store::Renewed;
use idem_core::time::ManualClock;

use crate::support::{LEASE, RETENTION, Request, kind_of, point, print, sealed};

fn only(incarnation: Incarnation, attempt: u32) -> Takeover {
    Takeover::Only { incarnation, attempt, younger_than: None }
}

pub(crate) async fn nothing_there_is_inserted_and_only_inserts_nothing(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let absent = request.with(|it| it.takeover = only(Incarnation::random(), 1));
    assert_eq!(absent.send(&store).await, Claimed::Gone);
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), None);

    let acquired = request.acquire(&store).await;
    assert_eq!(acquired.fence.attempt, 1);
    assert_eq!(acquired.fence.owner, request.owner);
    assert_eq!((acquired.lease, acquired.age), (LEASE, Duration::ZERO));
    assert_eq!((acquired.recovery, acquired.replaced), (None, false));
    assert_eq!(acquired.input, request.input);
    let seen = store.get(&request.scope, &request.key).await.unwrap().unwrap();
    assert_eq!(seen.record.fence(), acquired.fence);
}

pub(crate) async fn an_expired_reply_counts_as_absent(store: impl Admin, clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let first = request.acquire(&store).await;
    store.checkpoint(&first.fence, &point(1), LEASE).await.unwrap();
    store.complete(&first.fence, &sealed("old reply")).await.unwrap();
    clock.advance(RETENTION - Duration::from_micros(1));
    assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
    clock.advance(Duration::from_micros(1));

    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), None);
    let gone = request.with(|it| it.takeover = only(first.fence.incarnation, 1));
    assert_eq!(gone.send(&store).await, Claimed::Gone);
    let second = request.with(|it| it.fingerprints = print(9).into()).acquire(&store).await;
    assert_eq!((second.fence.attempt, &second.recovery), (1, &None));
    assert_ne!(second.fence.incarnation, first.fence.incarnation);
    assert_eq!(second.age, Duration::ZERO);
}

pub(crate) async fn the_same_call_again_is_acquired_again(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let first = request.acquire(&store).await;
    store.checkpoint(&first.fence, &point(1), LEASE).await.unwrap();
    clock.advance(LEASE * 2);

    let again = request.acquire(&store).await;
    assert_eq!(again.fence, first.fence);
    assert_eq!((again.lease, again.age), (LEASE, LEASE * 2), "its lease is not already over");
    assert_eq!((again.recovery, again.input), (Some(point(1)), request.input.clone()));
    let mut shorter = request.clone();
    shorter.lease = Duration::from_secs(1);
    assert_eq!(shorter.acquire(&store).await.lease, LEASE, "a repeat never shortens a lease");
}

pub(crate) async fn a_scheme_that_is_not_known_stops_everything(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let newer = Fingerprint::from_parts(Scheme::from_byte(7), [1; 32]);
    let request = Request::new("k").with(|it| it.fingerprints = newer.into());
    let held = request.acquire(&store).await;
    let older = request.with(|it| it.fingerprints = print(1).into());
    assert_eq!(kind_of(store.claim(&older.claim()).await), ErrorKind::WrongSchema);
    clock.advance(LEASE);
    assert_eq!(kind_of(store.claim(&older.claim()).await), ErrorKind::WrongSchema);
    store.complete(&held.fence, &sealed("reply")).await.unwrap();
    assert_eq!(kind_of(store.claim(&older.claim()).await), ErrorKind::WrongSchema);

    let both = older.with(|it| it.fingerprints = Fingerprints::new(print(1)).also(newer));
    assert!(matches!(both.send(&store).await, Claimed::Completed(_)));
}

pub(crate) async fn a_lapsed_record_that_never_began_gives_way(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k").with(|it| it.marks_begun = true);
    let other = request.with(|it| it.fingerprints = print(2).into());
    let held = request.acquire(&store).await;
    assert_eq!(other.send(&store).await, Claimed::Mismatch { completed: false }, "it is live");
    clock.advance(LEASE);
    let reconciler = other.with(|it| it.takeover = only(held.fence.incarnation, 1));
    assert_eq!(reconciler.send(&store).await, Claimed::Mismatch { completed: false });
    let taken = other.acquire(&store).await;
    assert!(taken.replaced);
    assert_eq!((taken.fence.attempt, taken.age), (1, Duration::ZERO));
    assert_ne!(taken.fence.incarnation, held.fence.incarnation);

    // With a recovery point it began, and nothing makes it give way.
    store.checkpoint(&taken.fence, &point(1), LEASE).await.unwrap();
    clock.advance(RETENTION * 2);
    let third = request.with(|it| it.fingerprints = print(3).into());
    assert_eq!(third.send(&store).await, Claimed::Mismatch { completed: false });
}

pub(crate) async fn a_lapsed_record_past_its_retention_gives_way(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let other = request.with(|it| it.operation = OperationName::new("refund").unwrap());
    request.acquire(&store).await;
    clock.advance(RETENTION - Duration::from_micros(1));
    assert_eq!(other.send(&store).await, Claimed::Mismatch { completed: false });
    clock.advance(Duration::from_micros(1));
    assert!(other.acquire(&store).await.replaced);

    let forever = Request::new("f").with(|it| it.retention = Retention::Forever);
    forever.acquire(&store).await;
    clock.advance(RETENTION * 1_000);
    let other = forever.with(|it| it.fingerprints = print(2).into());
    assert_eq!(other.send(&store).await, Claimed::Mismatch { completed: false });
}

pub(crate) async fn another_request_under_the_key_is_a_mismatch(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let body = request.with(|it| it.fingerprints = print(2).into());
    let operation = request.with(|it| it.operation = OperationName::new("Charge").unwrap());
    let held = request.acquire(&store).await;
    for other in [&body, &operation] {
        assert_eq!(other.send(&store).await, Claimed::Mismatch { completed: false });
    }
    store.complete(&held.fence, &sealed("reply")).await.unwrap();
    for other in [&body, &operation] {
        assert_eq!(other.send(&store).await, Claimed::Mismatch { completed: true });
    }
    let uncompared = request.with(|it| it.fingerprints = Fingerprints::not_compared());
    assert!(matches!(uncompared.send(&store).await, Claimed::Completed(_)));
}

pub(crate) async fn a_live_record_is_in_progress(store: impl Admin, clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let held = request.acquire(&store).await;
    clock.advance(Duration::from_secs(10));
    let before = store.get(&request.scope, &request.key).await.unwrap().unwrap();
    let remaining = LEASE - Duration::from_secs(10);
    assert_eq!(request.again().send(&store).await, Claimed::InProgress { remaining });
    let never = request.with(|it| it.takeover = Takeover::Never);
    assert_eq!(never.send(&store).await, Claimed::InProgress { remaining });
    let after = store.get(&request.scope, &request.key).await.unwrap().unwrap();
    assert_eq!(after, before, "losers change nothing");

    clock.advance(remaining - Duration::from_micros(1));
    let last = Duration::from_micros(1);
    assert_eq!(request.again().send(&store).await, Claimed::InProgress { remaining: last });
    clock.advance(last);
    assert_eq!(request.again().acquire(&store).await.fence.attempt, 2);
    assert_eq!(kind_of(store.complete(&held.fence, &sealed("r")).await), ErrorKind::FenceLost);
}

pub(crate) async fn a_takeover_keeps_what_the_first_claim_said(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let first = request.acquire(&store).await;
    store.checkpoint(&first.fence, &point(1), LEASE).await.unwrap();
    clock.advance(LEASE);
    let second = request.with(|it| {
        it.input = Some(sealed("another input"));
        it.marks_begun = true;
        it.retention = Retention::Forever;
        it.fingerprints = Fingerprints::not_compared();
    });
    let taken = second.acquire(&store).await;
    assert_eq!((taken.fence.attempt, taken.fence.owner), (2, second.owner));
    assert_eq!(taken.fence.incarnation, first.fence.incarnation);
    assert_eq!((taken.age, taken.lease), (LEASE, LEASE));
    assert_eq!((taken.recovery, taken.input), (Some(point(1)), request.input.clone()));
    assert_eq!(taken.fingerprint, print(1));
    let record = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
    assert_eq!(record.retention, Retention::of(RETENTION));
    assert!(!record.marks_begun);
}

pub(crate) async fn the_policy_decides_on_a_lapsed_record(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let held = request.acquire(&store).await;
    store.checkpoint(&held.fence, &point(1), LEASE).await.unwrap();
    let incarnation = held.fence.incarnation;
    clock.advance(LEASE + Duration::from_secs(5));
    let age = LEASE + Duration::from_secs(5);

    let below = |attempts, younger_than| Takeover::Below { attempts, younger_than };
    let only =
        |incarnation, attempt, younger_than| Takeover::Only { incarnation, attempt, younger_than };
    let forbidden = [
        Takeover::Never,
        below(1, Duration::MAX),
        below(2, age),
        only(Incarnation::random(), 1, None),
        only(incarnation, 2, None),
        only(incarnation, 1, Some(age)),
    ];
    let before = store.get(&request.scope, &request.key).await.unwrap();
    for takeover in forbidden {
        match request.with(|it| it.takeover = takeover).send(&store).await {
            Claimed::Lapsed(lapsed) => {
                assert_eq!((lapsed.attempt, lapsed.since), (1, Duration::from_secs(5)));
            }
            other => panic!("{takeover:?}: expected Lapsed, seen {other:?}"),
        }
    }
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), before);

    let moment = Duration::from_micros(1);
    let allowed = [
        (below(2, age + moment), 2),
        (only(incarnation, 2, None), 3),
        (only(incarnation, 3, Some(Duration::MAX)), 4),
    ];
    for (takeover, attempt) in allowed {
        let next = request.with(|it| it.takeover = takeover).acquire(&store).await;
        assert_eq!(next.fence.attempt, attempt, "{takeover:?}");
        assert_eq!(
            store.renew(&next.fence, Duration::ZERO).await.unwrap(),
            Renewed::GivenUp,
            "given up, so that the next one can take over"
        );
    }
}

pub(crate) async fn a_completed_record_is_replayed(store: impl Admin, clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let held = request.acquire(&store).await;
    store.complete(&held.fence, &sealed([0, 255, 10])).await.unwrap();
    clock.advance(Duration::from_secs(60));
    let own = request.clone();
    for caller in [own, request.again(), request.with(|it| it.takeover = Takeover::Never)] {
        let Claimed::Completed(replay) = caller.send(&store).await else {
            panic!("expected the reply");
        };
        assert_eq!(replay.reply, sealed([0, 255, 10]));
        assert_eq!(replay.expires_in, Some(RETENTION - Duration::from_secs(60)));
        assert_eq!(replay.fence, held.fence);
    }
    let forever = Request::new("f").with(|it| it.retention = Retention::Forever);
    let held = forever.acquire(&store).await;
    store.complete(&held.fence, &sealed("kept")).await.unwrap();
    clock.advance(RETENTION * 100_000);
    let Claimed::Completed(replay) = forever.again().send(&store).await else {
        panic!("expected the reply");
    };
    assert_eq!(replay.expires_in, None);
}

pub(crate) async fn a_reply_is_kept_for_the_least_time_after_completion(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let least = Duration::from_secs(600);
    let request = Request::new("k").with(|it| it.retention = Retention::at_least(RETENTION, least));
    let held = request.acquire(&store).await;
    clock.advance(RETENTION * 2);
    store.complete(&held.fence, &sealed("late")).await.unwrap();
    clock.advance(least - Duration::from_micros(1));
    assert!(matches!(request.again().send(&store).await, Claimed::Completed(_)));
    clock.advance(Duration::from_micros(1));
    assert_eq!(request.again().acquire(&store).await.fence.attempt, 1);
}

pub(crate) async fn a_clock_that_steps_back_frees_nothing(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let request = Request::new("k");
    let held = request.acquire(&store).await;
    clock.step_back(Duration::from_secs(60));
    let remaining = LEASE + Duration::from_secs(60);
    assert_eq!(request.again().send(&store).await, Claimed::InProgress { remaining });
    store.complete(&held.fence, &sealed("reply")).await.unwrap();
    let Claimed::Completed(replay) = request.again().send(&store).await else {
        panic!("expected the reply");
    };
    assert_eq!(replay.expires_in, Some(RETENTION + Duration::from_secs(60)));
}
