//! Leases that run out, and a store that does not answer for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::faulty::{Called, Faulty};
use super::{Book, LEASE, outbox_of};
use crate::outbox::Outbox;
use crate::relay::Relay;

const LIMIT: Duration = Duration::from_secs(200);

#[tokio::test(start_paused = true)]
async fn the_first_failure_to_settle_after_a_long_delivery_is_tried_again() {
    let outbox = outbox_of(&[("long", "")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(100)));
    let failed = AtomicBool::new(false);
    let faulty = Faulty::new(&outbox, move |called, _| {
        called == Called::Settle && !failed.swap(true, Ordering::SeqCst)
    });
    let relay = Relay::new(faulty, book.clone()).lease(LEASE).delivery_limit(LIMIT);
    assert_eq!(relay.once().await.unwrap().sent, 1);
    assert_eq!(book.attempts("long").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn settling_is_given_up_a_lease_after_it_began_to_fail() {
    let outbox = outbox_of(&[("long", "")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(100)));
    let faulty = Faulty::new(&outbox, |called, _| called == Called::Settle);
    let relay = Relay::new(faulty, book.clone()).lease(LEASE).delivery_limit(LIMIT);
    let began = tokio::time::Instant::now();
    relay.once().await.unwrap_err();
    let gave_up_after = began.elapsed() - Duration::from_secs(100);
    assert!((LEASE..LEASE + Duration::from_secs(1)).contains(&gave_up_after), "{gave_up_after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_does_not_strike_the_one_that_followed_it() {
    let outbox = outbox_of(&[("first", "a"), ("second", "a"), ("free", "")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(100)));
    // The lease runs out after 30 s, and the same relay takes the messages once more. It has the
    // newer leases when the delivery under the old one ends, after 100 s.
    let until = Duration::from_secs(60);
    let faulty = Faulty::new(&outbox, move |called, time| called == Called::Renew && time < until);
    let relay = Relay::new(faulty, book.clone()).lease(LEASE).delivery_limit(LIMIT);
    let done = relay.once().await.unwrap();
    assert_eq!((done.sent, done.lost), (3, 3), "{done:?}");
    assert_eq!(book.attempts("free").len(), 2);
    assert_eq!(book.attempts("first").len(), 2);
    assert_eq!(book.attempts("second").len(), 1);
    let of_key = book.topics().into_iter().filter(|topic| topic != "free");
    assert_eq!(of_key.collect::<Vec<_>>(), ["first", "first", "second"]);
    assert_eq!(outbox.backlog().await.unwrap().waiting, 0);
}
