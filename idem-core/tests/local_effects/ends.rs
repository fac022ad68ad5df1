//! How a handler with a transaction can end without a reply.

use std::time::Duration;

use idem_core::engine::{Execution, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::{Begun, LocalForm, OnUnknown, OperationBuilder};
use idem_core::reply::Reply;
use tokio::time::{Instant, sleep};

use crate::store::TxStore;
use crate::{BOTH, LEASE, LIMIT, World, body, ordered};

/// R15: before the commit of a purely local effect it is known that nothing was changed.
#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_before_the_commit_is_rolled_back_and_may_be_tried_at_once() {
    for form in BOTH {
        for panics in [false, true] {
            let world = World::new(form);
            let error = world
                .run(async move |execution, store| {
                    let _transaction = ordered(&execution, &store).await?;
                    assert!(!panics, "asked for by the test");
                    Err::<Reply, _>(Failure::unknown("broken"))
                })
                .await
                .unwrap_err();
            assert!(matches!(error, RunError::RolledBack), "{form:?} {error}");
            assert_eq!(world.rows(), 0);
            let next = world.order("second").await.unwrap();
            let attempt = if form == LocalForm::ClaimFirst { 2 } else { 1 };
            assert_eq!((body(&next), next.attempt, world.rows()), ("second", attempt, 1));
        }
    }
}

/// R15: not so once a downstream key was asked for.
#[tokio::test(start_paused = true)]
async fn an_error_after_an_external_effect_stays_unknown() {
    for (choice, told) in [(OnUnknown::Resume, None), (OnUnknown::StoreServerError, Some(500))] {
        let world = World::with(LocalForm::ClaimFirst, |builder| builder.on_unknown(choice));
        let result = world
            .run(async |execution, store| {
                execution.downstream_key("charge").await?;
                let _transaction = ordered(&execution, &store).await?;
                Err::<Reply, _>(Failure::unknown("broken"))
            })
            .await;
        match told {
            Some(status) => assert_eq!(result.unwrap().reply.status(), status),
            None => {
                assert!(matches!(result, Err(RunError::Unknown)));
                assert!(matches!(world.retry().await, Err(RunError::InProgress { .. })));
            }
        }
        assert_eq!(world.rows(), 0);
    }
}

/// The handler may do something else meanwhile, or wait for ever: the limit is for the whole time
/// in which the database's transaction is open.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_open_for_too_long_is_taken_back() {
    for form in BOTH {
        let world = World::new(form);
        let start = Instant::now();
        let error = world
            .run(async |execution, store| {
                let _transaction = ordered(&execution, &store).await?;
                std::future::pending::<()>().await;
                Ok(())
            })
            .await
            .unwrap_err();
        assert!(matches!(error, RunError::RolledBack), "{form:?} {error}");
        assert_eq!((start.elapsed(), world.rows()), (LIMIT, 0));
        assert_eq!(body(&world.order("second").await.unwrap()), "second");
    }
}

/// The claim of the one-commit form is in a transaction that is open all the time, whether the
/// handler has asked for it, or has given it back.
#[tokio::test(start_paused = true)]
async fn the_transaction_of_the_one_commit_form_is_limited_even_when_the_handler_does_not_hold_it()
{
    for asks in [false, true] {
        let world = World::new(LocalForm::OneCommit);
        let start = Instant::now();
        let error = world
            .run(async move |execution, store| {
                if asks {
                    ordered(&execution, &store).await?.rollback().await?;
                }
                sleep(LIMIT * 3).await;
                Ok(())
            })
            .await
            .unwrap_err();
        assert!(matches!(error, RunError::RolledBack), "{error}");
        assert_eq!((start.elapsed(), world.is_completed().await), (LIMIT, false));
    }
}

/// Each has the whole limit, although nothing happens between the two.
#[tokio::test(start_paused = true)]
async fn two_transactions_one_after_the_other_are_not_one_long_one() {
    let world = World::new(LocalForm::ClaimFirst);
    let outcome = world
        .run(async |execution, store| {
            for _ in 0..3 {
                let transaction = ordered(&execution, &store).await?;
                sleep(LIMIT - Duration::from_secs(1)).await;
                drop(transaction);
            }
            ordered(&execution, &store).await?.commit("done".to_owned()).await
        })
        .await
        .unwrap();
    assert_eq!((body(&outcome), world.rows()), ("done", 1));
}

/// The handler is gone, and its transaction lives on in a task of its own: it cannot commit any
/// more, and what the handler said is stored.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_outlives_its_handler_cannot_commit() {
    for form in BOTH {
        let world = World::new(form);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let result = world
            .run(async move |execution, store| {
                let transaction = ordered(&execution, &store).await?;
                tokio::spawn(async move {
                    sleep(LIMIT * 2).await;
                    let commit = transaction.commit("too late".to_owned()).await;
                    sender.send(commit.is_err()).unwrap();
                });
                Ok("said by the handler".to_owned())
            })
            .await;
        assert!(receiver.await.unwrap(), "{form:?}: it was refused");
        sleep(LEASE).await;
        assert_eq!(world.rows(), 0, "{form:?} {result:?}");
        let retry = world.retry().await.unwrap();
        match form {
            LocalForm::ClaimFirst => assert_eq!(body(&retry), "said by the handler"),
            _ => assert_eq!((body(&retry), retry.how), ("ran again", How::Executed)),
        }
    }
}

/// R9: the lease was lost before the transaction, or in it.
#[tokio::test(start_paused = true)]
async fn a_holder_that_was_fenced_out_commits_nothing_and_gets_the_winners_reply() {
    for late in [false, true] {
        let world = World::new(LocalForm::ClaimFirst);
        let probe = world.clone();
        let outcome = world
            .run(async move |execution, store| {
                if late {
                    let transaction = ordered(&execution, &store).await?;
                    // As if the database had let go of the row.
                    store.complete_behind(&probe.engine, "winner", true);
                    store.fail(Verb::Complete, ErrorKind::FenceLost);
                    return transaction.commit("loser".to_owned()).await;
                }
                store.complete_behind(&probe.engine, "winner", true);
                let transaction = ordered(&execution, &store).await?;
                transaction.commit("loser".to_owned()).await
            })
            .await
            .unwrap();
        assert_eq!((outcome.how, body(&outcome), outcome.attempt), (How::Replayed, "winner", 2));
        assert_eq!((world.rows(), world.commits()), (0, 0));
    }
}

/// A database that cannot be reached for the transaction: nothing was changed.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_cannot_be_opened_is_known_to_have_changed_nothing() {
    for verb in [Verb::Begin, Verb::Hold] {
        let world = World::new(LocalForm::ClaimFirst);
        world.store.fail(verb, ErrorKind::NotApplied);
        let error = world.order("created").await.unwrap_err();
        assert!(matches!(error, RunError::RolledBack), "{verb} {error}");
        world.store.heal();
        assert_eq!(body(&world.order("second").await.unwrap()), "second");
    }
    // In the one-commit form nothing ran at all.
    let world = World::new(LocalForm::OneCommit);
    world.store.fail(Verb::Begin, ErrorKind::NotApplied);
    let error = world.order("created").await.unwrap_err();
    assert_eq!((error.store_kind(), world.runs()), (Some(ErrorKind::NotApplied), 0));
}

/// R26: an operation that is held, and says itself when it begins, is not held for an attempt of
/// which nothing is left.
#[tokio::test(start_paused = true)]
async fn hold_does_not_apply_to_an_attempt_that_was_rolled_back_and_never_began() {
    let held =
        |builder: OperationBuilder| builder.on_unknown(OnUnknown::Hold).begun(Begun::ByHandler);
    let fails = async |execution: Execution, store: TxStore| {
        let _transaction = ordered(&execution, &store).await?;
        Err::<Reply, _>(Failure::unknown("broken"))
    };
    let world = World::with(LocalForm::ClaimFirst, held);
    assert!(matches!(world.run(fails).await, Err(RunError::RolledBack)));
    assert_eq!(body(&world.order("second").await.unwrap()), "second");

    // One that began is.
    let world = World::with(LocalForm::ClaimFirst, held);
    let result = world
        .run(async move |execution, store| {
            execution.begin().await?;
            fails(execution, store).await
        })
        .await;
    assert!(matches!(result, Err(RunError::Held { attempt: 1 })), "{result:?}");
    assert!(matches!(world.retry().await, Err(RunError::Held { attempt: 1 })));
    assert_eq!(world.rows(), 0);

    // So is one that marks begun before its handler: its transaction may not be all that it did.
    // It is told what a retry will be told.
    let world = World::with(LocalForm::ClaimFirst, |builder| builder.on_unknown(OnUnknown::Hold));
    let result = world.run(fails).await;
    assert!(matches!(result, Err(RunError::Held { attempt: 1 })), "{result:?}");
    assert!(matches!(world.retry().await, Err(RunError::Held { attempt: 1 })));
    assert_eq!((world.rows(), world.runs()), (0, 1));
}

/// A handler that says that it is about to act may have acted: that its transaction was rolled
/// back does not say that nothing was done.
#[tokio::test(start_paused = true)]
async fn a_rollback_after_the_handler_said_that_it_begins_is_not_nothing() {
    let world =
        World::with(LocalForm::ClaimFirst, |builder| builder.resumable().begun(Begun::ByHandler));
    let result = world
        .run(async |execution, store| {
            execution.begin().await?;
            let _transaction = ordered(&execution, &store).await?;
            Err::<Reply, _>(Failure::unknown("broken"))
        })
        .await;
    assert!(matches!(result, Err(RunError::Unknown)), "{result:?}");
    assert_eq!(body(&world.order("second").await.unwrap()), "second");
}
