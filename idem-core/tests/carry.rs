//! Task-locals of a caller reach the handler when they are carried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::engine::{Call, CarriedWork, Engine, EngineBuilder, Failure, RunError};
use idem_core::fingerprint::Fingerprints;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;

tokio::task_local! {
    static REQUEST: u64;
    static TENANT: u64;
}

fn builder() -> EngineBuilder {
    Engine::builder(MemoryStore::new()).namespace("test").unwrap()
}

fn request(work: CarriedWork) -> CarriedWork {
    match REQUEST.try_with(|request| *request) {
        Ok(request) => Box::pin(REQUEST.scope(request, work)),
        Err(_) => work,
    }
}

fn tenant(work: CarriedWork) -> CarriedWork {
    match TENANT.try_with(|tenant| *tenant) {
        Ok(tenant) => Box::pin(TENANT.scope(tenant, work)),
        Err(_) => work,
    }
}

/// What the handler of a call under this key sees of both.
async fn seen(engine: &Engine, key: &str) -> Result<String, RunError> {
    let operation = Operation::builder("test").without_comparison().build().unwrap();
    let (scope, key) = (Scope::new("caller").unwrap(), Key::new(key).unwrap());
    let call = Call::new(scope, key, Fingerprints::not_compared());
    let handler = |_| async {
        let request = REQUEST.try_with(|request| *request).ok();
        let tenant = TENANT.try_with(|tenant| *tenant).ok();
        Ok::<_, Failure>(format!("{request:?} {tenant:?}"))
    };
    let outcome = engine.run(&operation, call, handler).await?;
    Ok(String::from_utf8(outcome.reply.body().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn what_is_carried_reaches_the_handler_and_nothing_else_does() {
    let engine = builder().carry(request).build().unwrap();
    let inside = TENANT.scope(3, REQUEST.scope(7, seen(&engine, "inside")));
    assert_eq!(inside.await.unwrap(), "Some(7) None");
    assert_eq!(seen(&engine, "outside").await.unwrap(), "None None");
}

#[tokio::test]
async fn several_are_carried() {
    let engine = builder().carry(request).carry(tenant).build().unwrap();
    let inside = TENANT.scope(3, REQUEST.scope(7, seen(&engine, "k")));
    assert_eq!(inside.await.unwrap(), "Some(7) Some(3)");
}

#[tokio::test]
async fn without_a_carrier_nothing_is() {
    let engine = builder().build().unwrap();
    assert_eq!(REQUEST.scope(7, seen(&engine, "k")).await.unwrap(), "None None");
}

#[tokio::test]
async fn work_that_is_dropped_has_an_unknown_outcome() {
    let engine = builder().carry(|_dropped| Box::pin(async {})).build().unwrap();
    assert!(matches!(seen(&engine, "k").await, Err(RunError::Unknown)));
    // Only the handler's work, the second that is spawned.
    let spawned = Arc::new(AtomicU64::new(0));
    let engine = builder().carry(move |work| match spawned.fetch_add(1, Ordering::SeqCst) {
        1 => Box::pin(async {}),
        _ => work,
    });
    let engine = engine.build().unwrap();
    assert!(matches!(seen(&engine, "k").await, Err(RunError::Unknown)));
}
