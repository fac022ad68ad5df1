//! R25: every future can be dropped at any await. Each is polled 0, 1, 2, .. times, dropped, and
//! what is left must be whole.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use idem_core::engine::{Execution, Failure, How, RunError};
use idem_core::error::Verb;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

/// Polls at most so often, with time for others between; `None` when it was dropped unfinished.
pub(crate) async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future: Pin<Box<F>> = Box::pin(future);
    for _ in 0..polls {
        let ready = poll_fn(|context| Poll::Ready(pin!(&mut future).poll(context))).await;
        if let Poll::Ready(output) = ready {
            return Some(output);
        }
        sleep(Duration::from_millis(1)).await;
    }
    None
}

/// A store in which each verb takes a while, so that there are places to be dropped at.
fn slow(world: &World) {
    for verb in [Verb::Claim, Verb::Checkpoint, Verb::Complete, Verb::Renew, Verb::Release] {
        world.store.fail(verb, [Fault::Late(Duration::from_millis(3)); 50]);
    }
}

/// The caller of a whole run: what it asked for is done and stored once, or never started.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_at_any_poll_is_done_once_or_never_started() {
    let mut finished = 0;
    for polls in 0..40 {
        let world = World::new(|builder| builder.resumable());
        slow(&world);
        let running = world.run(async |execution: Execution| {
            let charge = execution.step("charge", |key| async move {
                sleep(Duration::from_millis(3)).await;
                Ok::<_, std::io::Error>(key.to_string())
            });
            charge.await
        });
        finished += usize::from(polled(running, polls).await.is_some());
        sleep(LEASE).await;
        assert_eq!(world.is_completed().await, polls > 0, "{polls} polls");
        let after = world.answer("again").await.unwrap();
        let how = if polls > 0 { How::Replayed } else { How::Executed };
        assert_eq!((after.how, world.runs()), (how, 1), "{polls} polls");
    }
    assert!(finished > 10, "the last ones were polled to their end");
}

/// A caller that waits for a slot or for the first to finish: gone without a trace.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_at_any_poll_leaves_no_trace() {
    for polls in 0..20 {
        let world = World::with(
            |builder| builder.wait(LEASE),
            |builder, _| builder.max_in_flight(2).admission_limit(LEASE),
        );
        let first = world.clone();
        let first = tokio::spawn(async move {
            first
                .run(async |_| {
                    sleep(LEASE / 2).await;
                    Ok("first".to_owned())
                })
                .await
        });
        while world.runs() == 0 {
            tokio::task::yield_now().await;
        }
        // The second one waits in its claim, the third one for a slot.
        let (second, third) = (world.clone(), world.clone());
        let second = polled(second.answer("second"), polls).await;
        let third = polled(third.answer("third"), polls).await;
        assert!(second.is_none() && third.is_none());
        assert_eq!(body(&first.await.unwrap().unwrap()), "first");
        sleep(LEASE).await;
        assert_eq!((world.runs(), world.engine.drain(LEASE).await), (1, 0), "{polls} polls");
    }
}

/// A handler that drops its own step half-way, as a timeout would, and calls it again.
#[tokio::test(start_paused = true)]
async fn a_step_that_is_dropped_at_any_poll_can_be_called_again() {
    for polls in 0..20 {
        let world = World::new(|builder| builder.resumable());
        slow(&world);
        let calls = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&calls);
        let outcome = world
            .run(async move |execution: Execution| {
                let charge = async || {
                    let seen = std::sync::Arc::clone(&seen);
                    execution
                        .step("charge", |key| async move {
                            sleep(Duration::from_millis(2)).await;
                            seen.lock().unwrap().push(key.to_string());
                            Ok::<_, std::io::Error>("charged".to_owned())
                        })
                        .await
                };
                let _ = polled(charge(), polls).await;
                charge().await
            })
            .await
            .unwrap();
        assert_eq!((body(&outcome), outcome.stored), ("charged", true), "{polls} polls");
        let calls = calls.lock().unwrap();
        assert!(calls.iter().all(|key| *key == calls[0]), "{polls} polls: {calls:?}");
    }
}

/// The same for a mark, a key and a generation.
#[tokio::test(start_paused = true)]
async fn a_mark_a_key_and_a_generation_can_be_dropped_and_asked_for_again() {
    for polls in 0..15 {
        let world =
            World::new(|builder| builder.resumable().begun(idem_core::operation::Begun::ByHandler));
        slow(&world);
        let outcome = world
            .run(async move |execution: Execution| {
                let _ = polled(execution.begin(), polls).await;
                let _ = polled(execution.downstream_key("charge"), polls).await;
                let first = execution.downstream_key("charge").await?;
                let _ = polled(execution.next_generation("charge"), polls).await;
                sleep(Duration::from_secs(1)).await;
                let key = execution.downstream_key("charge").await?;
                Ok(if key == first { "same" } else { "next" })
            })
            .await
            .unwrap();
        // Once it was begun, a generation is written to its end.
        assert_eq!(body(&outcome) == "next", polls > 0, "{polls} polls");
    }
}

/// A resumption.
#[tokio::test(start_paused = true)]
async fn a_resumption_that_is_dropped_at_any_poll_is_done_once_or_never_started() {
    for polls in 0..15 {
        let world = World::with(
            |builder| builder.resumable(),
            |builder, operation| {
                builder.register(operation, async |_| Ok::<_, Failure>("resumed".to_owned()))
            },
        );
        let dies = world.run(async |_| Err::<Reply, _>(Failure::unknown("killed"))).await;
        assert!(matches!(dies, Err(RunError::Unknown)));
        sleep(LEASE).await;
        let lapsed = world.record().await.unwrap();
        slow(&world);
        let _ = polled(world.engine.resume(&lapsed), polls).await;
        sleep(LEASE).await;
        let record = world.record().await.unwrap().record;
        assert_eq!(record.attempt, 1 + u32::from(polls > 0), "{polls} polls");
        assert_eq!(world.is_completed().await, polls > 0);
    }
}
