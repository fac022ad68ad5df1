//! Every other verb in every state.

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::Admin;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::record::Fence;
use idem_core::store::{Lease, Renewed};
use idem_core::time::ManualClock;

use crate::support::{LEASE, RETENTION, Request, point, sealed};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Released,
    Live,
    LiveWithPoint,
    Lapsed,
    GivenUp,
    TakenOver,
    Completed,
    Expired,
}

const STATES: [Found; 8] = [
    Found::Released,
    Found::Live,
    Found::LiveWithPoint,
    Found::Lapsed,
    Found::GivenUp,
    Found::TakenOver,
    Found::Completed,
    Found::Expired,
];

/// Brings a fresh record into a state, and gives the first claim's fence.
async fn bring(store: &impl Admin, clock: &ManualClock, key: &str, state: Found) -> Fence {
    let request = Request::new(key);
    let fence = request.acquire(store).await.fence;
    match state {
        Found::Live => {}
        Found::Released => store.release(&fence).await.unwrap(),
        Found::LiveWithPoint => {
            store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
        }
        Found::Lapsed => clock.advance(LEASE),
        Found::GivenUp => {
            store.renew(&fence, Duration::ZERO).await.unwrap();
        }
        Found::TakenOver => {
            clock.advance(LEASE);
            request.again().acquire(store).await;
        }
        Found::Completed => store.complete(&fence, &sealed("reply")).await.unwrap(),
        Found::Expired => {
            store.complete(&fence, &sealed("reply")).await.unwrap();
            clock.advance(RETENTION);
        }
    }
    fence
}

/// What a verb said: `Ok`, or the kind of its error.
type Said = Result<(), ErrorKind>;

fn said<T>(result: Result<T, StoreError>) -> Said {
    result.map(|_| ()).map_err(|error| error.kind())
}

pub(crate) async fn every_verb_in_every_state(store: impl Admin, clock: Arc<ManualClock>) {
    let lost = Err(ErrorKind::FenceLost);
    let refused = Err(ErrorKind::Refused);
    // In the order of STATES.
    let expected: [(&str, [Said; 8]); 8] = [
        ("renew", [lost, Ok(()), Ok(()), Ok(()), Ok(()), lost, Ok(()), lost]),
        ("checkpoint 1", [lost, Ok(()), Ok(()), Ok(()), Ok(()), lost, lost, lost]),
        ("checkpoint 2", [lost, refused, Ok(()), refused, refused, lost, lost, lost]),
        ("checkpoint 3", [lost, refused, refused, refused, refused, lost, lost, lost]),
        ("complete", [lost, Ok(()), Ok(()), Ok(()), Ok(()), lost, Ok(()), lost]),
        ("complete otherwise", [lost, Ok(()), Ok(()), Ok(()), Ok(()), lost, lost, lost]),
        ("release", [Ok(()), Ok(()), refused, Ok(()), Ok(()), lost, lost, Ok(())]),
        ("remove", [Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), lost, Ok(()), Ok(())]),
    ];
    for (verb, row) in expected {
        for (state, expected) in STATES.into_iter().zip(row) {
            let key = format!("{verb} {state:?}");
            let fence = bring(&store, &clock, &key, state).await;
            let before = store.get(&fence.scope, &fence.key).await.unwrap();
            let seen = match verb {
                "renew" => said(store.renew(&fence, LEASE).await),
                "checkpoint 1" => said(store.checkpoint(&fence, &point(1), LEASE).await),
                "checkpoint 2" => said(store.checkpoint(&fence, &point(2), LEASE).await),
                "checkpoint 3" => said(store.checkpoint(&fence, &point(3), LEASE).await),
                "complete" => said(store.complete(&fence, &sealed("reply")).await),
                "complete otherwise" => said(store.complete(&fence, &sealed("other")).await),
                "release" => said(store.release(&fence).await),
                _ => said(store.remove(&fence).await),
            };
            assert_eq!(seen, expected, "{verb} in state {state:?}");
            if expected.is_err() {
                let after = store.get(&fence.scope, &fence.key).await.unwrap();
                assert_eq!(after, before, "{verb} in state {state:?} wrote something");
            }
        }
    }
}

pub(crate) async fn a_fence_has_to_fit_in_every_part(store: impl Admin, _clock: Arc<ManualClock>) {
    let request = Request::new("k");
    let other = Request::new("other").acquire(&store).await.fence;
    let fence = request.acquire(&store).await.fence;
    let wrong = [
        Fence { incarnation: other.incarnation, ..fence.clone() },
        Fence { attempt: 2, ..fence.clone() },
        Fence { owner: other.owner, ..fence.clone() },
    ];
    let before = store.get(&request.scope, &request.key).await.unwrap();
    for wrong in wrong {
        let lost = Err(ErrorKind::FenceLost);
        assert_eq!(said(store.renew(&wrong, LEASE).await), lost);
        assert_eq!(said(store.checkpoint(&wrong, &point(1), LEASE).await), lost);
        assert_eq!(said(store.complete(&wrong, &sealed("reply")).await), lost);
        assert_eq!(said(store.release(&wrong).await), lost);
        assert_eq!(said(store.remove(&wrong).await), lost);
    }
    assert_eq!(store.get(&request.scope, &request.key).await.unwrap(), before);
}

pub(crate) async fn a_lease_is_counted_from_now_and_never_shortened(
    store: impl Admin,
    clock: Arc<ManualClock>,
) {
    let fence = Request::new("k").acquire(&store).await.fence;
    let held = |remaining| Renewed::Held(Lease { remaining });
    clock.advance(Duration::from_secs(10));
    assert_eq!(store.renew(&fence, LEASE).await.unwrap(), held(LEASE));
    let second = Duration::from_secs(1);
    assert_eq!(store.renew(&fence, second).await.unwrap(), held(LEASE), "not shortened");
    assert_eq!(store.renew(&fence, LEASE * 2).await.unwrap(), held(LEASE * 2));
    let lease = store.checkpoint(&fence, &point(1), second).await.unwrap();
    assert_eq!(lease.remaining, LEASE * 2);

    clock.advance(LEASE * 3);
    assert_eq!(store.renew(&fence, second).await.unwrap(), held(second), "it was lapsed");
    let seen = store.get(&fence.scope, &fence.key).await.unwrap().unwrap();
    assert_eq!(seen.lapsed_for(), None);
}

pub(crate) async fn a_completed_record_has_dropped_what_a_resumption_needed(
    store: impl Admin,
    _clock: Arc<ManualClock>,
) {
    let fence = Request::new("k").acquire(&store).await.fence;
    store.checkpoint(&fence, &point(1), LEASE).await.unwrap();
    store.complete(&fence, &sealed("reply")).await.unwrap();
    let record = store.get(&fence.scope, &fence.key).await.unwrap().unwrap().record;
    assert_eq!((record.input.as_ref(), record.recovery()), (None, None));
    assert_eq!(store.renew(&fence, LEASE).await.unwrap(), Renewed::Completed);
    assert_eq!(store.renew(&fence, Duration::ZERO).await.unwrap(), Renewed::Completed);
}
