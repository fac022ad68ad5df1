//! R6: the holder counts its lease from the instant before it sent the call, however late the
//! answer comes. Whoever counted from the answer would act under a lease that is over.

use std::time::Duration;

use idem_core::engine::Execution;
use idem_core::error::{ErrorKind, Verb};
use tokio::time::{Instant, sleep_until};

use crate::faulty::Fault;
use crate::{LEASE, World};

/// What was answered late; by how much; and when the lease that it gave is over.
struct Late {
    verb: Verb,
    by: Duration,
    over: Duration,
}

/// After the lease is over by the right count, and before it is by the wrong one, the holder has
/// to ask for it before it acts.
async fn asks_once_the_lease_is_over(late: Late) {
    let world = World::new(|builder| match late.verb {
        // Its only recovery point is the one before the handler.
        Verb::Checkpoint => builder.resumable(),
        _ => builder.claim_limit(LEASE),
    });
    world.store.fail(late.verb, [Fault::Late(late.by)]);
    // No other heartbeat is answered.
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let (store, start) = (world.store.clone(), Instant::now());
    let outcome = world
        .run(async move |execution: Execution| {
            for (at, asks) in [(late.over - Duration::from_secs(1), 0), (late.over, 1)] {
                sleep_until(start + at).await;
                store.heal();
                let before = store.calls(Verb::Renew);
                execution.downstream_key("charge").await?;
                assert_eq!(store.calls(Verb::Renew) - before, asks, "{} at {at:?}", late.verb);
                store.fail(Verb::Renew, [Fault::Request(ErrorKind::NotApplied); 1_000]);
            }
            Ok(())
        })
        .await;
    assert!(outcome.unwrap().stored);
}

#[tokio::test(start_paused = true)]
async fn r6_a_claim() {
    let by = Duration::from_secs(9);
    asks_once_the_lease_is_over(Late { verb: Verb::Claim, by, over: LEASE }).await;
}

#[tokio::test(start_paused = true)]
async fn r6_a_recovery_point() {
    let by = Duration::from_secs(9);
    asks_once_the_lease_is_over(Late { verb: Verb::Checkpoint, by, over: LEASE }).await;
}

#[tokio::test(start_paused = true)]
async fn r6_a_heartbeat() {
    // The first one is sent after a third of the lease.
    let by = Duration::from_secs(9);
    asks_once_the_lease_is_over(Late { verb: Verb::Renew, by, over: LEASE / 3 + LEASE }).await;
}
