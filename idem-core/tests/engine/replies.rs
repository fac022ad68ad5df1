//! Storing the reply when the store does not do as it should (R16, R17).

use std::time::Duration;

use idem_core::engine::{Answer, Failure, How, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::operation::Unstored;
use idem_core::reply::Reply;
use tokio::time::Instant;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

#[tokio::test(start_paused = true)]
async fn r16_a_completion_is_repeated_until_it_is_stored() {
    let world = World::new(|builder| builder);
    let lost = [Fault::Request(ErrorKind::NotApplied), Fault::Reply, Fault::Reply];
    world.store.fail(Verb::Complete, lost);
    let outcome = world.answer("once").await.unwrap();
    assert_eq!((outcome.stored, world.store.calls(Verb::Complete)), (true, 4));
    let replay = world.answer("twice").await.unwrap();
    assert_eq!((replay.how, body(&replay), world.runs()), (How::Replayed, "once", 1));
}

#[tokio::test(start_paused = true)]
async fn r16_a_reply_that_cannot_be_stored_is_delivered_marked_and_the_key_is_not_freed() {
    for kind in [ErrorKind::NotApplied, ErrorKind::OutcomeUnknown, ErrorKind::StoreFull] {
        let delay = Duration::from_secs(3);
        let world = World::new(|builder| builder.reply_delay_limit(delay));
        world.store.fail(Verb::Complete, [Fault::Request(kind); 1_000]);
        let start = Instant::now();
        let outcome = world.answer("first").await.unwrap();
        assert_eq!((outcome.how, outcome.stored, body(&outcome)), (How::Executed, false, "first"));
        assert_eq!(start.elapsed(), delay, "{kind}");
        let retry = world.answer("second").await.unwrap_err();
        assert!(matches!(retry, RunError::InProgress { .. }), "{retry}");
        // The engine goes on trying while heartbeats hold the key.
        tokio::time::sleep(LEASE * 3).await;
        assert!(!world.is_completed().await);
        world.store.heal();
        tokio::time::sleep(LEASE).await;
        assert!(world.is_completed().await, "{kind}");
        let replay = world.answer("third").await.unwrap();
        assert_eq!((replay.how, body(&replay), world.runs()), (How::Replayed, "first", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn r16_an_operation_may_refuse_instead_of_delivering() {
    let world = World::new(|builder| builder.unstored(Unstored::Refuse));
    world.store.fail(Verb::Complete, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    assert!(matches!(world.answer("first").await, Err(RunError::NotStored)));
    world.store.heal();
    tokio::time::sleep(LEASE).await;
    assert_eq!(body(&world.answer("second").await.unwrap()), "first");
}

/// A store that renews but cannot complete does not hold a key for ever.
#[tokio::test(start_paused = true)]
async fn r16_heartbeats_end_at_the_longest_run() {
    let longest = LEASE * 4;
    let world = World::new(|builder| builder.max_run_time(longest));
    let down = Fault::Request(ErrorKind::NotApplied);
    world.store.fail(Verb::Complete, std::iter::repeat_n(down, 100_000));
    assert!(!world.answer("first").await.unwrap().stored);
    tokio::time::sleep(longest - LEASE).await;
    assert!(matches!(world.answer("x").await, Err(RunError::InProgress { .. })));
    tokio::time::sleep(LEASE * 3).await;
    world.store.heal();
    let taken = world.answer("second").await.unwrap();
    assert_eq!((taken.how, taken.attempt, body(&taken)), (How::Executed, 2, "second"));
}

/// Nothing unstored is delivered once the lease has run out by the local count: another
/// execution may have taken over.
#[tokio::test(start_paused = true)]
async fn r16_a_holder_that_was_paused_past_its_lease_gets_the_winners_reply() {
    for write_hangs in [false, true] {
        paused_past_its_lease(write_hangs).await;
    }
}

async fn paused_past_its_lease(write_hangs: bool) {
    let world = World::new(|builder| builder);
    let paused = world.clone();
    paused.store.fail(Verb::Renew, [Fault::Silence; 1_000]);
    let old = tokio::spawn(async move {
        paused
            .run(async |_| {
                tokio::time::sleep(LEASE * 2).await;
                Ok("old".to_owned())
            })
            .await
    });
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    assert_eq!(body(&world.answer("new").await.unwrap()), "new");
    if write_hangs {
        // It does not even hear that it was fenced out.
        world.store.fail(Verb::Complete, [Fault::Silence; 100]);
    }
    let outcome = old.await.unwrap().unwrap();
    assert_eq!((outcome.how, body(&outcome), outcome.attempt), (How::Replayed, "new", 2));
    assert_eq!(world.runs(), 2);
}

/// Nor where the holder was told that its lease is lost, whatever its own count says.
#[tokio::test(start_paused = true)]
async fn r16_a_holder_that_knows_its_lease_is_lost_delivers_nothing_unstored() {
    let world = World::new(|builder| builder);
    world.store.fail(Verb::Renew, [Fault::Request(ErrorKind::FenceLost)]);
    world.store.fail(Verb::Complete, [Fault::Request(ErrorKind::NotApplied); 1_000]);
    let result = world
        .run(async |execution| {
            execution.lease_lost().await;
            Ok("lost".to_owned())
        })
        .await;
    assert!(matches!(result, Err(RunError::NotStored)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn r17_a_reply_over_the_limit_is_delivered_once_and_never_runs_again() {
    let world = World::new(|builder| builder.max_reply_bytes(10));
    assert_eq!(body(&world.answer("0123456789").await.unwrap()), "0123456789");
    assert_eq!(world.answer("x").await.unwrap().how, How::Replayed);

    let world = World::new(|builder| builder.max_reply_bytes(10));
    let outcome = world.answer("0123456789a").await.unwrap();
    assert_eq!((outcome.how, outcome.stored, body(&outcome)), (How::Executed, true, "0123456789a"));
    let retry = world.answer("x").await.unwrap_err();
    assert!(matches!(retry, RunError::ReplyNotKept { status: 200 }), "{retry}");
    assert_eq!(world.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn r17_a_streamed_answer_leaves_a_tombstone() {
    let world = World::new(|builder| builder);
    let head = Reply::new(206).unwrap();
    let streamed = head.clone();
    let outcome = world
        .engine
        .run(&world.operation, World::call(), async |_| {
            Ok::<_, Failure>(Answer::streamed(streamed))
        })
        .await
        .unwrap();
    assert_eq!((outcome.reply, outcome.stored), (head, true));
    let retry = world.answer("x").await.unwrap_err();
    assert!(matches!(retry, RunError::ReplyNotKept { status: 206 }), "{retry}");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_is_stored_errors_and_nothing_included() {
    let world = World::new(|builder| builder);
    let error = Reply::new(500).unwrap().with_body("broken");
    let stored = error.clone();
    world.run(async move |_| Ok(stored)).await.unwrap();
    assert_eq!(world.answer("x").await.unwrap().reply, error);

    let world = World::new(|builder| builder);
    world.run(async |_| Ok(())).await.unwrap();
    let replay = world.answer("x").await.unwrap();
    assert_eq!((replay.how, replay.reply), (How::Replayed, Reply::from(())));
}
