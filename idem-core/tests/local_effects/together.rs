//! What is committed, and what is not, when nothing goes wrong with the commit itself.

use idem_core::engine::{Answer, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::LocalForm;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::store::{LOCK_WAIT, Rows};
use crate::{BOTH, LEASE, LIMIT, World, body, ordered};

#[tokio::test(start_paused = true)]
async fn rows_messages_and_reply_commit_together_and_are_replayed() {
    for form in BOTH {
        let world = World::new(form);
        let outcome = world.order("created").await.unwrap();
        assert_eq!((outcome.how, outcome.stored, body(&outcome)), (How::Executed, true, "created"));
        let stands = Rows { rows: vec!["order".into()], outbox: vec!["order.created".into()] };
        assert_eq!((world.store.rows(), world.commits()), (stands.clone(), 1), "{form:?}");
        let replay = world.retry().await.unwrap();
        assert_eq!((replay.how, body(&replay), world.runs()), (How::Replayed, "created", 1));
        assert_eq!(world.store.rows(), stands);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_a_commit_is_stored_alone() {
    for form in BOTH {
        let world = World::new(form);
        let outcome = world
            .run(async |execution, store| {
                drop(ordered(&execution, &store).await?);
                Ok("out of stock".to_owned())
            })
            .await
            .unwrap();
        assert_eq!((outcome.how, outcome.stored), (How::Executed, true), "{form:?}");
        assert_eq!((world.rows(), body(&world.retry().await.unwrap())), (0, "out of stock"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_takes_the_rows_back_and_the_handler_may_try_again() {
    for form in BOTH {
        for drops in [false, true] {
            let world = World::new(form);
            let outcome = world
                .run(async move |execution, store| {
                    let first = ordered(&execution, &store).await?;
                    if drops {
                        drop(first)
                    } else {
                        first.rollback().await?
                    }
                    let mut second = execution.transaction(&store).await?;
                    second.connection().insert("second");
                    second.commit("second try".to_owned()).await
                })
                .await
                .unwrap();
            assert_eq!((outcome.stored, body(&outcome)), (true, "second try"));
            assert_eq!(world.store.rows().rows, ["second"], "{form:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_committed_is_the_reply_whatever_the_handler_says_afterwards() {
    for form in BOTH {
        for ending in ["another reply", "an error", "a panic"] {
            let world = World::new(form);
            let outcome = world
                .run(async move |execution, store| {
                    let transaction = ordered(&execution, &store).await?;
                    transaction.commit("committed".to_owned()).await?;
                    match ending {
                        "another reply" => Ok("something else".to_owned()),
                        "an error" => Err(Failure::unknown("too late")),
                        _ => panic!("asked for by the test"),
                    }
                })
                .await
                .unwrap();
            assert_eq!((outcome.how, body(&outcome)), (How::Executed, "committed"), "{ending}");
            assert_eq!(body(&world.retry().await.unwrap()), "committed", "{form:?} {ending}");
            assert_eq!((world.rows(), world.runs()), (1, 1));
        }
    }
}

/// R17.
#[tokio::test(start_paused = true)]
async fn a_reply_over_the_limit_leaves_a_tombstone_beside_the_rows() {
    for form in BOTH {
        let world = World::with(form, |builder| builder.max_reply_bytes(3));
        assert_eq!(body(&world.order("too long").await.unwrap()), "too long");
        let retry = world.retry().await.unwrap_err();
        assert!(matches!(retry, RunError::ReplyNotKept { status: 200 }), "{form:?} {retry}");
        assert_eq!((world.rows(), world.runs()), (1, 1));
    }
}

/// R17: an answer that is streamed past the engine is never replayed as an empty one.
#[tokio::test(start_paused = true)]
async fn a_streamed_answer_leaves_a_tombstone_in_both_forms() {
    for form in BOTH {
        let world = World::new(form);
        let head = Reply::new(200).unwrap();
        let outcome = world
            .run(async |execution, store| {
                drop(ordered(&execution, &store).await?);
                Ok(Answer::streamed(head))
            })
            .await
            .unwrap();
        assert_eq!((outcome.reply.status(), outcome.stored), (200, true));
        let retry = world.retry().await.unwrap_err();
        assert!(matches!(retry, RunError::ReplyNotKept { status: 200 }), "{form:?} {retry}");
    }
}

/// R14: nothing was asked for, so the key is free again; a corrected request works.
#[tokio::test(start_paused = true)]
async fn a_rejection_before_the_transaction_frees_the_key() {
    for form in BOTH {
        let world = World::new(form);
        let outcome = world.run(async |_, _| Err::<Reply, _>(rejection())).await.unwrap();
        assert_eq!((outcome.how, outcome.stored), (How::Rejected, false), "{form:?}");
        assert!(world.record().await.is_none());
        assert_eq!(body(&world.order("corrected").await.unwrap()), "corrected");
        assert_eq!((world.rows(), world.runs()), (1, 2));
    }
}

/// R14: once a transaction was asked for, a rejection is a reply like any other.
#[tokio::test(start_paused = true)]
async fn a_rejection_after_the_transaction_was_asked_for_is_stored() {
    for form in BOTH {
        let world = World::new(form);
        let outcome = world
            .run(async |execution, store| {
                let _transaction = ordered(&execution, &store).await?;
                Err::<Reply, _>(rejection())
            })
            .await
            .unwrap();
        assert_eq!((outcome.how, outcome.stored), (How::Executed, true), "{form:?}");
        assert_eq!(world.retry().await.unwrap().reply.status(), 422);
        assert_eq!((world.rows(), world.runs()), (0, 1));
    }
}

fn rejection() -> Failure {
    Failure::reject(Reply::new(422).unwrap())
}

/// R13: no heartbeat touches the row while the transaction holds it, and the lease covers the
/// longest transaction; afterwards heartbeats go on.
#[tokio::test(start_paused = true)]
async fn heartbeats_pause_while_the_transaction_holds_the_row() {
    let limit = LEASE * 5;
    let world = World::with(LocalForm::ClaimFirst, |builder| builder.transaction_limit(limit));
    let probe = world.clone();
    let outcome = world
        .run(async move |execution, store| {
            sleep(LEASE * 2).await;
            let before = store.calls(Verb::Renew);
            assert!(before >= 5, "heartbeats before: {before}");
            let transaction = ordered(&execution, &store).await?;
            let opened = store.calls(Verb::Renew);
            assert_eq!(opened, before + 1, "one renewal for the whole transaction");
            sleep(limit - LOCK_WAIT * 3).await;
            assert_eq!(store.calls(Verb::Renew), opened);
            let seen = probe.record().await.unwrap();
            assert_eq!(seen.lapsed_for(), None, "the lease covers the whole transaction");
            let duplicate = probe.retry().await.unwrap_err();
            assert!(matches!(duplicate, RunError::InProgress { .. }), "{duplicate}");
            transaction.rollback().await?;
            sleep(LEASE * 2).await;
            assert!(store.calls(Verb::Renew) >= opened + 4, "and they go on");
            assert!(!execution.is_lease_lost());
            ordered(&execution, &store).await?.commit("done".to_owned()).await
        })
        .await
        .unwrap();
    assert_eq!((body(&outcome), world.rows(), world.runs()), ("done", 1, 1));
}

/// R16: a reply whose rows were taken back is never delivered as if it stood.
#[tokio::test(start_paused = true)]
async fn a_reply_beside_a_rolled_back_transaction_is_not_delivered_unstored() {
    let world = World::new(LocalForm::ClaimFirst);
    world.store.fail(Verb::Complete, ErrorKind::NotApplied);
    let error = world
        .run(async |execution, store| {
            drop(ordered(&execution, &store).await?);
            Ok("looks fine".to_owned())
        })
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::NotStored), "{error}");
    world.store.heal();
    sleep(LIMIT).await;
    assert_eq!(body(&world.retry().await.unwrap()), "looks fine", "it was stored later");
}

#[tokio::test(start_paused = true)]
async fn fifty_copies_at_once_write_one_row() {
    for form in BOTH {
        let world = World::with(form, |builder| builder.wait(LEASE));
        let mut copies = tokio::task::JoinSet::new();
        for copy in 0..50 {
            let world = world.clone();
            copies.spawn(async move { world.order(&format!("copy {copy}")).await.unwrap().reply });
        }
        let replies = copies.join_all().await;
        assert!(replies.iter().all(|reply| *reply == replies[0]), "{form:?}");
        assert_eq!((replies.len(), world.rows(), world.runs()), (50, 1, 1), "{form:?}");
    }
}
