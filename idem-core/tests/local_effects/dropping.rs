//! R25: a transaction's futures dropped at any await, by a handler that gave up waiting. What is
//! left is whole: the row and the reply stand together, or neither does.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use idem_core::engine::{Failure, RunError};
use idem_core::operation::LocalForm;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::store::Commit;
use crate::{BOTH, LEASE, LIMIT, World, body, ordered};

/// Polls at most so often, with time for others between; then drops it.
async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        let ready = poll_fn(|context| Poll::Ready(pin!(&mut future).poll(context))).await;
        if let Poll::Ready(output) = ready {
            return Some(output);
        }
        sleep(Duration::from_millis(1)).await;
    }
    None
}

const FATES: [Option<Commit>; 5] = [
    None,
    Some(Commit::NotApplied),
    Some(Commit::Unacknowledged { applied: true }),
    Some(Commit::Unacknowledged { applied: false }),
    Some(Commit::Pending { applied: true, after: Duration::from_millis(5) }),
];

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_dropped_at_any_poll_goes_to_its_end() {
    for form in BOTH {
        for fate in FATES {
            for polls in 0..8 {
                let world = World::new(form);
                world.store.commits_go(fate);
                let result = world
                    .run(async move |execution, store| {
                        let transaction = ordered(&execution, &store).await?;
                        let _ = polled(transaction.commit("created".to_owned()), polls).await;
                        Err::<Reply, _>(Failure::unknown("gave up waiting"))
                    })
                    .await;
                let label = format!("{form:?} {fate:?} {polls} polls: {result:?}");
                match &result {
                    Ok(outcome) => assert_eq!((body(outcome), world.rows()), ("created", 1)),
                    Err(RunError::RolledBack) => assert_eq!(world.rows(), 0, "{label}"),
                    Err(_) => panic!("{label}"),
                }
                let applied = !matches!(
                    fate,
                    Some(Commit::NotApplied | Commit::Unacknowledged { applied: false })
                );
                assert_eq!(result.is_ok(), applied && polls > 0, "{label}");
                assert_eq!(world.is_completed().await, result.is_ok(), "{label}");
                world.store.heal();
                let retry = world.order("retry").await.unwrap();
                assert_eq!((retry.stored, world.rows()), (true, 1), "{label}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_commits_and_is_dropped_at_any_poll_goes_to_its_end() {
    for fate in FATES {
        for polls in 0..8 {
            let world = World::new(LocalForm::ClaimFirst);
            world.store.commits_go(fate);
            let reserves = async move |execution: idem_core::engine::Execution, store, drops| {
                if execution.done::<u8>("reserve").await?.is_none() {
                    let transaction = ordered(&execution, &store).await?;
                    let committing = transaction.commit_step("reserve", &1_u8);
                    if drops {
                        let _ = polled(committing, polls).await;
                        return Err(Failure::unknown("gave up waiting"));
                    }
                    committing.await?;
                }
                Ok("reserved")
            };
            let dropped =
                world.run(async move |execution, store| reserves(execution, store, true).await);
            assert!(dropped.await.is_err());
            world.store.heal();
            sleep(LEASE + LIMIT).await;
            let outcome = world
                .run(async move |execution, store| reserves(execution, store, false).await)
                .await
                .unwrap();
            assert_eq!((body(&outcome), world.rows()), ("reserved", 1), "{fate:?} {polls} polls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_dropped_while_it_opens_leaves_nothing_open() {
    for form in BOTH {
        for polls in 0..6 {
            let world = World::new(form);
            let probe = world.clone();
            let outcome = world
                .run(async move |execution, store| {
                    // Somebody has the row for a moment, so that opening has to wait.
                    if form == LocalForm::ClaimFirst {
                        probe.store.hold_row_for(Duration::from_millis(3));
                    }
                    let _ = polled(execution.transaction(&store), polls).await;
                    ordered(&execution, &store).await?.commit("created".to_owned()).await
                })
                .await
                .unwrap();
            assert_eq!((body(&outcome), world.rows()), ("created", 1), "{form:?} {polls} polls");
        }
    }
}
