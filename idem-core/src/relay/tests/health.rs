//! What a runtime says of a relay whose pass does not end.

use std::time::Duration;

use tokio::time::sleep;

use super::faulty::{Called, Faulty};
use super::{Book, LEASE, outbox_of};
use crate::engine::Engine;
use crate::housekeeping::{Chore, Runtime};
use crate::memory::MemoryStore;
use crate::outbox::{MemoryOutbox, OutboxMessage};
use crate::relay::Relay;

fn runs(relay: impl Chore) -> Runtime {
    let engine = Engine::builder(MemoryStore::new()).namespace("test").unwrap().build().unwrap();
    Runtime::builder(&engine).chore(relay).start()
}

/// A message in each second of two minutes.
async fn pushed(outbox: &MemoryOutbox) {
    for _ in 0..120 {
        outbox.push(OutboxMessage::new("slow", "").unwrap()).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_always_has_something_slow_in_hand_is_not_late() {
    let outbox = outbox_of(&[]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(5)));
    let runtime = runs(Relay::new(outbox.clone(), book.clone()).lease(LEASE));
    pushed(&outbox).await;
    let health = runtime.health();
    let relay = health.of("relay").unwrap();
    assert!(relay.running_for > Some(Duration::from_secs(60)), "{relay:?}");
    assert!(health.is_good(), "{relay:?}");
    assert!(book.attempts("slow").len() > 100);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_gets_on_no_longer_is_late() {
    let outbox = outbox_of(&[]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(3_600)));
    let half = Duration::from_secs(60);
    let faulty = Faulty::new(&outbox, move |called, time| called != Called::Renew && time > half);
    let relay = Relay::new(faulty, book).lease(LEASE).delivery_limit(Duration::from_secs(7_200));
    let runtime = runs(relay);
    sleep(Duration::from_secs(55)).await;
    outbox.push(OutboxMessage::new("slow", "").unwrap()).unwrap();
    sleep(Duration::from_secs(15)).await;
    assert!(runtime.health().is_good());
    sleep(Duration::from_secs(60)).await;
    assert!(!runtime.health().is_good(), "{:?}", runtime.health());
}
