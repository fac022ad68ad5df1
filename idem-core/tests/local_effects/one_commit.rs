//! What only the form has in which claim, rows and completion are one commit.

use std::time::Duration;

use idem_core::engine::{How, RunError};
use idem_core::operation::LocalForm;
use tokio::time::sleep;

use crate::store::LOCK_WAIT;
use crate::{LEASE, LIMIT, World, body, ordered};

/// Nobody sees the claim before it commits: a process that dies leaves nothing behind.
#[test]
fn a_crash_before_the_commit_leaves_nothing() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let first = runtime();
    let world = first.block_on(async {
        let world = World::new(LocalForm::OneCommit);
        let dying = world.clone();
        let never = dying.run(async |execution, store| {
            let _transaction = ordered(&execution, &store).await?;
            std::future::pending::<()>().await;
            Ok(())
        });
        tokio::select! {
            _ = never => unreachable!("it never ends"),
            () = sleep(Duration::from_millis(1)) => {}
        }
        world
    });
    drop(first);
    runtime().block_on(async {
        assert!(world.record().await.is_none());
        let outcome = world.order("second").await.unwrap();
        assert_eq!((body(&outcome), outcome.attempt, world.rows()), ("second", 1, 1));
    });
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_turned_away_within_a_bound_or_waits_for_the_reply() {
    for wait in [None, Some(LEASE)] {
        let world = World::with(LocalForm::OneCommit, |builder| match wait {
            Some(wait) => builder.wait(wait),
            None => builder,
        });
        let first = world.clone();
        let first = tokio::spawn(async move {
            first
                .run(async |execution, store| {
                    let transaction = ordered(&execution, &store).await?;
                    sleep(LIMIT / 2).await;
                    transaction.commit("first".to_owned()).await
                })
                .await
        });
        sleep(Duration::from_millis(1)).await;
        let start = tokio::time::Instant::now();
        match world.retry().await {
            Ok(outcome) => assert!(wait.is_some() && outcome.how == How::Replayed),
            Err(error) => {
                assert!(wait.is_none() && matches!(error, RunError::InProgress { .. }), "{error}");
                assert_eq!(start.elapsed(), LOCK_WAIT);
            }
        }
        assert_eq!(body(&first.await.unwrap().unwrap()), "first");
        assert_eq!((world.rows(), world.runs()), (1, 1));
    }
}

/// What was won to make sure that a lost COMMIT cannot land is given back.
#[tokio::test(start_paused = true)]
async fn making_sure_leaves_no_claim_behind() {
    let world = World::new(LocalForm::OneCommit);
    world.store.commits_go([crate::store::Commit::Unacknowledged { applied: false }]);
    assert!(matches!(world.order("lost").await, Err(RunError::RolledBack)));
    assert!(world.record().await.is_none());
}

/// A claim that got no answer in time is known not to be applied: dropped, it is rolled back.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_answered_in_time_is_not_unknown() {
    let limit = LOCK_WAIT / 10;
    let world = World::with(LocalForm::OneCommit, |builder| builder.claim_limit(limit));
    world.store.hold_row_for(LEASE);
    let error = world.order("never").await.unwrap_err();
    let kind = idem_core::error::ErrorKind::NotApplied;
    assert_eq!((error.store_kind(), world.runs()), (Some(kind), 0));
}
