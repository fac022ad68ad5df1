//! Winning a claim when the store does not answer as it should (R5, R6, R18).

use std::time::Duration;

use idem_core::engine::{How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::StoreDown;
use tokio::time::Instant;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

#[tokio::test(start_paused = true)]
async fn r5_a_claim_whose_acknowledgement_was_lost_finds_its_own_row() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Claim, [Fault::Reply, Fault::Reply]);
    let outcome = world.answer("once").await.unwrap();
    assert_eq!((outcome.how, outcome.attempt, world.runs()), (How::Executed, 1, 1));
    assert_eq!(world.store.calls(Verb::Claim), 3);
}

#[tokio::test(start_paused = true)]
async fn r6_a_claim_that_is_answered_after_its_lease_does_not_run_on_it() {
    let world = World::new(|builder| builder.claim_limit(LEASE * 3));
    world.store.fail(Verb::Claim, [Fault::Late(LEASE)]);
    let outcome = world.answer("once").await.unwrap();
    assert_eq!((outcome.how, world.runs()), (How::Executed, 1));
    assert_eq!(world.store.calls(Verb::Claim), 2);
}

#[tokio::test(start_paused = true)]
async fn r18_a_store_that_is_down_refuses_within_a_bound_and_nothing_runs() {
    for fault in [Fault::Request(ErrorKind::NotApplied), Fault::Silence] {
        let world = World::new(|builder| builder.claim_limit(Duration::from_secs(2)));
        world.store.fail(Verb::Claim, [fault; 1_000]);
        let start = Instant::now();
        let error = world.answer("never").await.unwrap_err();
        assert!(matches!(error, RunError::Store(_)), "{error}");
        assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(world.runs(), 0);
        world.store.heal();
        assert_eq!(body(&world.answer("later").await.unwrap()), "later");
    }
}

#[tokio::test(start_paused = true)]
async fn r18_errors_that_time_does_not_cure_are_told_at_once() {
    for kind in [ErrorKind::WrongSchema, ErrorKind::CorruptRecord, ErrorKind::InvalidInput] {
        let world = World::new(|builder| builder);
        world.store.fail(Verb::Claim, [Fault::Request(kind)]);
        let error = world.answer("never").await.unwrap_err();
        assert_eq!((error.store_kind(), world.store.calls(Verb::Claim)), (Some(kind), 1));
        assert_eq!(world.runs(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn r18_open_runs_only_where_the_claim_provably_never_left() {
    let open = |builder: idem_core::operation::OperationBuilder| {
        builder.store_down(StoreDown::RunWithoutProtection)
    };
    let world = World::new(open);
    world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let outcome = world.answer("unprotected").await.unwrap();
    assert_eq!((outcome.how, outcome.stored, world.runs()), (How::Unprotected, false, 1));

    // One try may have been applied: from then on nothing is provable.
    let world = World::new(open);
    world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::OutcomeUnknown)]);
    world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    assert!(matches!(world.answer("never").await, Err(RunError::Store(_))));
    let world = World::new(open);
    world.store.fail(Verb::Claim, [Fault::Silence]);
    assert!(matches!(world.answer("never").await, Err(RunError::Store(_))));
    assert_eq!(world.runs(), 0);
}

/// Whoever waits for the first one knows that it runs: when the store goes down meanwhile, nothing
/// runs beside it.
#[tokio::test(start_paused = true)]
async fn r18_open_never_runs_beside_a_first_one_that_it_has_seen() {
    let wait = Duration::from_secs(20);
    let world =
        World::new(|builder| builder.store_down(StoreDown::RunWithoutProtection).wait(wait));
    let first = world.clone();
    let first = tokio::spawn(async move {
        first
            .run(async move |_| {
                tokio::time::sleep(wait).await;
                Ok("first".to_owned())
            })
            .await
    });
    while world.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let waiter = world.clone();
    let waiter = tokio::spawn(async move { waiter.answer("second").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let refused = waiter.await.unwrap();
    assert!(matches!(refused, Err(RunError::Store(_))), "{refused:?}");
    assert_eq!(body(&first.await.unwrap().unwrap()), "first");
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r18_an_unprotected_execution_has_no_steps_and_no_downstream_keys() {
    let world = World::new(|builder| builder.store_down(StoreDown::RunWithoutProtection));
    world.store.fail(Verb::Claim, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let outcome = world
        .run(async |execution| {
            assert!(execution.downstream_key("charge").await.is_err());
            assert!(execution.begin().await.is_err());
            let step = execution
                .step("charge", |_| async { Ok::<_, std::io::Error>("charged".to_owned()) })
                .await;
            assert!(step.is_err());
            Ok("looked".to_owned())
        })
        .await
        .unwrap();
    assert_eq!(outcome.how, How::Unprotected);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_waits_for_the_first_and_no_longer_than_it_was_told() {
    let wait = Duration::from_secs(5);
    for (slow, waits_long_enough) in [(3, true), (8, false)] {
        let world = World::new(|builder| builder.wait(wait));
        let first = world.clone();
        let first = tokio::spawn(async move {
            first
                .run(async move |_| {
                    tokio::time::sleep(Duration::from_secs(slow)).await;
                    Ok("first".to_owned())
                })
                .await
        });
        while world.runs() == 0 {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        match world.answer("second").await {
            Ok(outcome) => {
                assert!(waits_long_enough);
                assert_eq!((outcome.how, body(&outcome)), (How::Replayed, "first"));
            }
            Err(error) => {
                assert!(!waits_long_enough);
                assert!(matches!(error, RunError::InProgress { .. }), "{error}");
                assert!(start.elapsed() >= wait && start.elapsed() < wait * 2);
            }
        }
        assert_eq!(body(&first.await.unwrap().unwrap()), "first");
        assert_eq!(world.runs(), 1);
    }
}
