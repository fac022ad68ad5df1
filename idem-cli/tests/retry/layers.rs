//! The engine takes the layer of a retried call along to its handlers, and knows nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::engine::{Call, Engine, EngineBuilder, Failure};
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_retry::random::Pinned;
use idem_retry::{Applied, Attempted, Budget, Class, Destination, Policy, Retry, one_layer};

/// How many times the bank is called when a retried call runs an operation whose handler calls the
/// bank with retries, and the bank is down.
async fn calls_of_the_bank(builder: EngineBuilder) -> (u64, u64) {
    let engine = builder.build().unwrap();
    let operation = Operation::builder("pay").without_comparison().build().unwrap();
    let retry = Retry::new(Policy::default()).random(Pinned(0));
    let outer = Destination::separate("operation", Budget::unlimited());
    let bank = Destination::separate("bank", Budget::unlimited());
    let calls = Arc::new(AtomicU64::new(0));
    let fails = |_: Attempted<'_, (), ()>| Class::transient(Applied::No);
    let outcome = retry.call(&outer, fails, |attempt| {
        let (scope, key) = (Scope::new("caller").unwrap(), attempt.number().to_string());
        // A key of its own for each attempt: the handler is to run each time.
        let call = Call::new(scope, Key::new(key).unwrap(), Fingerprints::not_compared());
        let (retry, bank, calls) = (retry.clone(), bank.clone(), calls.clone());
        let running = engine.run(&operation, call, move |_| async move {
            let outcome = retry
                .call(
                    &bank,
                    |_: Attempted<'_, (), ()>| Class::transient(Applied::No),
                    |_| {
                        calls.fetch_add(1, Ordering::SeqCst);
                        std::future::ready(Err(()))
                    },
                )
                .await;
            Ok::<_, Failure>(format!("{} attempts", outcome.attempts()))
        });
        async {
            running.await.unwrap();
            Err(())
        }
    });
    assert_eq!(outcome.await.attempts(), 3);
    (calls.load(Ordering::SeqCst), bank.stats().nested)
}

fn builder() -> EngineBuilder {
    Engine::builder(MemoryStore::new()).namespace("test").unwrap()
}

#[tokio::test]
async fn a_handler_inside_a_retried_call_calls_once() {
    let carried = builder().carry(one_layer::carried);
    assert_eq!(calls_of_the_bank(carried).await, (3, 3));
}

#[tokio::test]
async fn without_the_hook_the_engine_hides_the_layer() {
    assert_eq!(calls_of_the_bank(builder()).await, (9, 0));
}
