//! Drops a future at its first, second, … n-th poll (R25).
//!
//! A caller can go away at any await. What it started must then have happened or not, and nothing
//! may be left for the next caller to trip over. [`at_each_poll`] tries each of those points.
//!
//! ```
//! use idem_testkit::faults::cancel::{Dropped, at_each_poll};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let mut ends = Vec::new();
//! at_each_poll(
//!     10,
//!     || async {
//!         tokio::task::yield_now().await;
//!         tokio::task::yield_now().await;
//!     },
//!     async |end| {
//!         ends.push(end.polls());
//!         Ok::<_, std::convert::Infallible>(())
//!     },
//! )
//! .await?;
//! // Dropped before it was polled, at its two awaits, and then it ran to its end.
//! assert_eq!(ends, [0, 1, 2, 3]);
//! # Ok::<_, std::convert::Infallible>(()) }).unwrap();
//! ```

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// How a future came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped<T> {
    /// It was dropped after so many polls, each of which had it waiting.
    After {
        /// How often it was polled.
        polls: usize,
    },
    /// It ran to its end in so many polls.
    Finished {
        /// How often it was polled.
        polls: usize,
        /// What it came to.
        output: T,
    },
}

impl<T> Dropped<T> {
    /// How often it was polled.
    pub fn polls(&self) -> usize {
        match self {
            Self::After { polls } | Self::Finished { polls, .. } => *polls,
        }
    }

    /// Whether it ran to its end.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

/// Polls `future` up to `polls` times, each time when it asks to be, and then drops it.
///
/// # Cancel safety
/// `future` is dropped with this one.
pub async fn after_polls<F: Future>(polls: usize, future: F) -> Dropped<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(Dropped::After { polls });
        }
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Dropped::Finished { polls: polled, output }),
            // Whoever is to be dropped here is not woken first.
            Poll::Pending if polled == polls => Poll::Ready(Dropped::After { polls }),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Makes a future and drops it before its first poll; makes another and drops it at its first
/// await, then at its second, and so on, until one runs to its end or `limit` polls are reached.
/// After each, `check` looks whether all is well.
///
/// # Errors
/// The first one of `check`.
///
/// # Cancel safety
/// Some points have then been tried.
pub async fn at_each_poll<F, E>(
    limit: usize,
    mut make: impl FnMut() -> F,
    mut check: impl AsyncFnMut(Dropped<F::Output>) -> Result<(), E>,
) -> Result<(), E>
where
    F: Future,
{
    for polls in 0..=limit {
        let end = after_polls(polls, make()).await;
        let finished = end.is_finished();
        check(end).await?;
        if finished {
            break;
        }
    }
    Ok(())
}
