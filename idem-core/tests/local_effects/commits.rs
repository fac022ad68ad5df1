//! The acknowledgement of a COMMIT is lost: the own record decides, and the body is not run again.

use idem_core::engine::{How, Misuse, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::{LocalForm, OnUnknown};
use idem_core::reply::Reply;
use tokio::time::{Instant, sleep};

use crate::store::{Commit, LOCK_WAIT};
use crate::{BOTH, LEASE, World, body, ordered};

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_applied_is_success() {
    for form in BOTH {
        for fate in [Commit::Unacknowledged { applied: true }, Commit::Silent { applied: true }] {
            let world = World::new(form);
            world.store.commits_go([fate]);
            let outcome = world.order("created").await.unwrap();
            assert_eq!((outcome.how, outcome.stored), (How::Executed, true), "{form:?} {fate:?}");
            assert_eq!((world.rows(), world.runs(), world.commits()), (1, 1, 1));
            assert_eq!(body(&world.retry().await.unwrap()), "created");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_not_applied_is_rolled_back_and_may_be_tried_at_once() {
    let lost = [Commit::Unacknowledged { applied: false }, Commit::Silent { applied: false }];
    for form in BOTH {
        for fate in lost.into_iter().chain([Commit::NotApplied]) {
            let world = World::new(form);
            world.store.commits_go([fate]);
            let error = world.order("created").await.unwrap_err();
            assert!(matches!(error, RunError::RolledBack), "{form:?} {fate:?}: {error}");
            assert_eq!((world.rows(), world.runs()), (0, 1), "the engine runs nothing again");
            let second = world.order("second").await.unwrap();
            assert_eq!((body(&second), world.rows()), ("second", 1), "{form:?} {fate:?}");
        }
    }
}

/// The server still works on the COMMIT: whoever asks the record waits for it.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_still_pending_is_waited_for() {
    for form in BOTH {
        for applied in [true, false] {
            let world = World::new(form);
            // Longer than the store waits for a lock: it answers that somebody holds the record.
            world.store.commits_go([Commit::Pending { applied, after: LOCK_WAIT * 3 }]);
            let result = world.order("created").await;
            match result {
                Ok(outcome) => assert!(applied && body(&outcome) == "created"),
                Err(error) => assert!(!applied && matches!(error, RunError::RolledBack), "{error}"),
            }
            assert_eq!((world.rows(), world.runs()), (usize::from(applied), 1), "{form:?}");
        }
    }
}

/// It stays unknown when the record does not say in time: it is told as neither success nor
/// failure, and the row that lands later stands alone.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_pending_for_too_long_stays_unknown() {
    for form in BOTH {
        let world = World::new(form);
        let after = LEASE * 5;
        world.store.commits_go([Commit::Pending { applied: true, after }]);
        let start = Instant::now();
        let error = world.order("created").await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{form:?} {error}");
        assert!(start.elapsed() < after, "it gives up within a bound");
        let meanwhile = world.retry().await.unwrap_err();
        assert!(matches!(meanwhile, RunError::InProgress { .. }), "{meanwhile}");
        sleep(after).await;
        let replay = world.retry().await.unwrap();
        assert_eq!((replay.how, body(&replay)), (How::Replayed, "created"), "{form:?}");
        assert_eq!((world.rows(), world.runs()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_asked_leaves_it_unknown_and_the_lease_held() {
    for kind in [ErrorKind::NotApplied, ErrorKind::OutcomeUnknown, ErrorKind::CorruptRecord] {
        let world = World::new(LocalForm::ClaimFirst);
        world.store.commits_go([Commit::Unacknowledged { applied: false }]);
        let store = world.store.clone();
        let error = world
            .run(async move |execution, lent| {
                let transaction = ordered(&execution, &lent).await?;
                store.fail(Verb::Claim, kind);
                transaction.commit("created".to_owned()).await
            })
            .await
            .unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{kind}: {error}");
        world.store.heal();
        let early = world.retry().await;
        let held = matches!(early, Err(RunError::InProgress { .. }));
        // A record that stays silent is asked until the lease is over.
        assert!(held || kind != ErrorKind::CorruptRecord, "{kind}: {early:?}");
        assert_eq!(world.rows(), 0);
    }
}

/// R9: while the acknowledgement was awaited another execution completed.
#[tokio::test(start_paused = true)]
async fn a_commit_that_lost_to_another_execution_gets_the_winners_reply() {
    for form in BOTH {
        for commits in [true, false] {
            let world = World::new(form);
            if form == LocalForm::ClaimFirst && !commits {
                continue; // The engine commits nothing itself in this form.
            }
            world.store.commits_go([Commit::Overtaken]);
            let outcome = world
                .run(async move |execution, store| {
                    if !commits {
                        return Ok(Reply::from("loser".to_owned()));
                    }
                    let transaction = ordered(&execution, &store).await?;
                    Ok(transaction.commit("loser".to_owned()).await?.into())
                })
                .await
                .unwrap();
            assert_eq!((outcome.how, body(&outcome)), (How::Replayed, "winner"), "{form:?}");
            assert_eq!((world.rows(), world.runs()), (0, 1));
        }
    }
}

/// A driver that panics in the middle of a COMMIT says nothing about it either.
#[tokio::test(start_paused = true)]
async fn a_panic_in_the_commit_is_not_taken_for_a_rollback() {
    for form in BOTH {
        let world = World::new(form);
        world.store.commits_go([Commit::Panics]);
        let error = world.order("created").await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{form:?} {error}");
        let replay = world.retry().await.unwrap();
        assert_eq!((replay.how, body(&replay)), (How::Replayed, "created"), "{form:?}");
        assert_eq!((world.rows(), world.runs()), (1, 1));
    }
}

/// The reply without a commit of the handler's is committed by the engine in the one-commit form,
/// and its acknowledgement can be lost as well.
#[tokio::test(start_paused = true)]
async fn the_engines_own_commit_is_resolved_in_the_same_way() {
    for (fate, stands) in [
        (Commit::Unacknowledged { applied: true }, true),
        (Commit::Silent { applied: true }, true),
        (Commit::Unacknowledged { applied: false }, false),
        (Commit::NotApplied, false),
    ] {
        let world = World::new(LocalForm::OneCommit);
        world.store.commits_go([fate]);
        match world.run(async |_, _| Ok("alone".to_owned())).await {
            Ok(outcome) => assert!(stands && outcome.stored, "{fate:?}"),
            Err(error) => assert!(!stands && matches!(error, RunError::RolledBack), "{error}"),
        }
        assert_eq!(world.is_completed().await, stands, "{fate:?}");
    }
}

/// Nothing is done after a commit whose outcome is unknown, not even by a handler that swallows
/// the failure.
#[tokio::test(start_paused = true)]
async fn after_an_unknown_commit_the_handler_can_do_nothing_more() {
    let world = World::new(LocalForm::ClaimFirst);
    world.store.commits_go([Commit::Pending { applied: true, after: LEASE * 5 }]);
    let outcome = world
        .run(async |execution, store| {
            let transaction = ordered(&execution, &store).await?;
            let failure = transaction.commit("created".to_owned()).await.unwrap_err();
            assert!(failure.is_unknown(), "{failure}");
            for refused in [
                execution.transaction(&store).await.err(),
                execution.downstream_key("mail").await.err(),
                execution.begin().await.err(),
            ] {
                let refused = refused.expect("refused").to_string();
                let ended = [Misuse::TransactionEnded, Misuse::ExecutionEnded];
                assert!(ended.iter().any(|misuse| refused.contains(&misuse.to_string())));
            }
            Ok("swallowed".to_owned())
        })
        .await;
    assert!(matches!(outcome, Err(RunError::NotStored)), "{outcome:?}");
    sleep(LEASE * 5).await;
    assert_eq!(body(&world.retry().await.unwrap()), "created");
    assert_eq!((world.rows(), world.runs()), (1, 1));
}

/// R15: what follows an unknown outcome is the operation's choice, here too; and a 500 is stored
/// only if the commit did not happen.
#[tokio::test(start_paused = true)]
async fn a_stored_500_never_stands_beside_rows() {
    for applied in [true, false] {
        let choice = OnUnknown::StoreServerError;
        let world = World::with(LocalForm::ClaimFirst, |builder| builder.on_unknown(choice));
        world.store.commits_go([Commit::Unacknowledged { applied }]);
        let outcome = world
            .run(async |execution, store| {
                let transaction = ordered(&execution, &store).await?;
                store.fail(Verb::Claim, ErrorKind::CorruptRecord);
                transaction.commit("created".to_owned()).await
            })
            .await
            .unwrap();
        world.store.heal();
        let stands = if applied { (200, 1) } else { (500, 0) };
        assert_eq!((outcome.reply.status(), world.rows()), stands);
        assert_eq!(world.retry().await.unwrap().reply, outcome.reply);
    }
}

/// R5: the record was completed with this very reply before: the rows would stand twice.
#[tokio::test(start_paused = true)]
async fn a_commit_that_stands_already_takes_its_rows_back() {
    let world = World::new(LocalForm::ClaimFirst);
    let probe = world.clone();
    let outcome = world
        .run(async move |execution, store| {
            let transaction = ordered(&execution, &store).await?;
            store.complete_behind(&probe.engine, "created", false);
            store.fail(Verb::Complete, ErrorKind::AlreadyApplied);
            transaction.commit("created".to_owned()).await
        })
        .await
        .unwrap();
    assert_eq!((body(&outcome), world.rows()), ("created", 0));
    assert_eq!(world.commits(), 0);
}
