//! One layer of retries. Three attempts at each of three layers are 27 times the load.
//!
//! The outermost call that is retried is the one layer. What is called inside one of its attempts
//! runs once: a failure goes up to that layer, which has the deadline, and knows whether anybody
//! still waits. A call inside is found by a task-local, so that nobody passes anything around;
//! [`Stats::nested`](crate::Stats::nested) counts them, and a warning names the destination.
//!
//! # Tasks
//! A task-local does not reach a task that is spawned inside an attempt. Wrap the work in
//! [`carried`] where it is spawned:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! tokio::spawn(idem_retry::one_layer::carried(Box::pin(async { /* calls go here */ })))
//! # .await.unwrap() });
//! ```
//!
//! An engine of `idem-core` runs its handlers in tasks of their own. Its builder takes the same
//! function, `.carry(idem_retry::one_layer::carried)`, and calls it where it spawns. Neither crate
//! knows of the other: the function takes a future and returns one.
//!
//! # Loops that are not this crate's
//! A consumer of a queue, or a relay of messages, also tries again what failed, and is then the one
//! layer. It runs each of its attempts [`inside`] one that it announces itself. The HTTP sink of
//! `idem-relay` does so.
//!
//! # Processes
//! Each attempt announces itself with a header, [`ATTEMPT_HEADER`](crate::ATTEMPT_HEADER):
//! `2;max=3` is the second attempt of at most three. A service in the middle that trusts its
//! callers runs the handling of a request [`under`] that header. Its own calls then run once, since
//! its caller retries, and they pass the header on, so that the services behind it do the same.
//! What it decides:
//!
//! | header of the request | calls made while it is handled |
//! |---|---|
//! | none, unreadable, or `1;max=1` | are retried here: this is the outermost layer |
//! | `n;max=m` with m above 1 | run once and pass `n;max=m` on |
//!
//! Trust it only from callers that you operate. A stranger could turn your retries off with it, at
//! the cost of his own requests; nothing becomes unsafe. The header differs from attempt to
//! attempt, so it never counts as part of a request under an idempotency key. It is no proof that
//! something was retried: a load balancer that repeats a request repeats the header.

use std::pin::Pin;

use http::HeaderMap;

use crate::attempt::Announced;

tokio::task_local! {
    static AROUND: Announced;
}

/// A future in a box.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// The attempt of a retried call that this task is in.
pub fn current() -> Option<Announced> {
    AROUND.try_with(|around| *around).ok()
}

/// Takes the attempt that the calling task is in along into a task that is about to be spawned.
pub fn carried(work: Work) -> Work {
    match current() {
        Some(around) => Box::pin(AROUND.scope(around, work)),
        None => work,
    }
}

/// Runs the handling of a request as part of its caller's attempt, if its headers say that the
/// caller retries.
///
/// # Cancel safety
/// That of `handling`.
pub async fn under<F: Future>(headers: &HeaderMap, handling: F) -> F::Output {
    match Announced::from_headers(headers) {
        Some(announced) => inside(announced, handling).await,
        None => handling.await,
    }
}

/// Runs one attempt of a loop that is not this crate's: calls that are made in it run once, and
/// pass `announced` on. Where there is one attempt at most, they are retried as ever.
///
/// ```
/// use idem_retry::{Announced, one_layer};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let second_of_five = Announced { attempt: 2, max: 5 };
/// one_layer::inside(second_of_five, async { /* calls go here */ }).await;
/// # });
/// ```
///
/// # Cancel safety
/// That of `attempt`.
pub async fn inside<F: Future>(announced: Announced, attempt: F) -> F::Output {
    if announced.is_retried() { AROUND.scope(announced, attempt).await } else { attempt.await }
}

/// Starts and runs one attempt, which is inside `announced` if its call is retried.
pub(crate) async fn within<F: Future>(
    announced: Announced,
    start: impl FnOnce() -> F,
) -> F::Output {
    if announced.is_retried() {
        let future = AROUND.sync_scope(announced, start);
        AROUND.scope(announced, future).await
    } else {
        start().await
    }
}
