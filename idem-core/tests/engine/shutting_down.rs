//! A drain under load: every call that got in is waited for, and no other gets in (R12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use idem_core::engine::{Call, Engine, Failure, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;

/// On real threads: calls stream in while the engine is drained.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_execution_starts_after_the_drain_has_returned() {
    for round in 0..100_u32 {
        let builder = Engine::builder(MemoryStore::new()).namespace("test").unwrap();
        let engine = builder.max_in_flight(8).build().unwrap();
        let operation = Operation::builder("op").build().unwrap();
        let drained = Arc::new(AtomicBool::new(false));
        let late = Arc::new(AtomicU32::new(0));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..16 {
            let (engine, operation) = (engine.clone(), operation.clone());
            let (drained, late) = (Arc::clone(&drained), Arc::clone(&late));
            callers.spawn(async move {
                for call in 0.. {
                    let key = Key::new(format!("{caller}/{call}")).unwrap();
                    let of = Call::new(Scope::new("a").unwrap(), key, Fingerprint::of_bytes("x"));
                    let (drained, late) = (Arc::clone(&drained), Arc::clone(&late));
                    let result = engine
                        .run(&operation, of, async move |_| {
                            tokio::task::yield_now().await;
                            late.fetch_add(drained.load(Ordering::SeqCst).into(), Ordering::SeqCst);
                            Ok::<_, Failure>(())
                        })
                        .await;
                    match result {
                        Ok(_) => {}
                        Err(RunError::Draining) => return call,
                        Err(error) => panic!("{error}"),
                    }
                }
                unreachable!()
            });
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let left = engine.drain(Duration::from_secs(60)).await;
        drained.store(true, Ordering::SeqCst);
        callers.join_all().await;
        assert_eq!((left, late.load(Ordering::SeqCst)), (0, 0), "round {round}");
    }
}

/// Those who wait for a slot are told at once, and claim nothing.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_slot_is_told_of_the_drain() {
    let world = crate::World::with(
        |builder| builder,
        |builder, _| builder.max_in_flight(1).admission_limit(crate::LEASE * 9),
    );
    let first = world.clone();
    let first = tokio::spawn(async move {
        first
            .run(async |_| {
                tokio::time::sleep(crate::LEASE).await;
                Ok("first".to_owned())
            })
            .await
    });
    while world.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let waiting = world.clone();
    let waiting = tokio::spawn(async move {
        let start = tokio::time::Instant::now();
        (waiting.answer("second").await, start.elapsed())
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.engine.drain(crate::LEASE).await, 0);
    let (refused, waited) = waiting.await.unwrap();
    assert!(matches!(refused, Err(RunError::Draining)), "{refused:?}");
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
    assert!(first.await.unwrap().is_ok());
    assert_eq!(world.runs(), 1);
}
