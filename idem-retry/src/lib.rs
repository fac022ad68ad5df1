//! Retries that are safe, and that do not make an outage worse.
//!
//! ```
//! use idem_retry::{Applied, Attempted, Class, Destination, Outcome, Policy, retry};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let bank = Destination::named("bank.example:443");
//! let mut answers = ["busy", "busy", "paid"].into_iter();
//! let outcome = retry(
//!     &Policy::default(),
//!     &bank,
//!     |attempted: Attempted<'_, &str, std::io::Error>| match attempted {
//!         Attempted::Answer(&"busy") => Class::transient(Applied::No),
//!         Attempted::Answer(_) => Class::answered(),
//!         // Only for a call that may be repeated: idempotent, or under a key.
//!         _ => Class::transient(Applied::Maybe),
//!     },
//!     |_attempt| std::future::ready(Ok(answers.next().unwrap_or("gone"))),
//! )
//! .await;
//! match outcome {
//!     Outcome::Answered(answered) | Outcome::Replayed(answered) => {
//!         assert_eq!((answered.answer, answered.attempts), ("paid", 3));
//!     }
//!     Outcome::GaveUp(why) => panic!("not paid: {why}"),
//!     Outcome::Unknown(why) => panic!("perhaps paid; look before you pay again: {why}"),
//!     other => panic!("{other:?}"),
//! }
//! # }
//! ```
//!
//! - [`Policy`]: attempts, full jitter, one deadline over everything, timeouts from measured
//!   [`latency`]. The default one is over in seconds: a caller that must know the outcome of a call
//!   whose server may die takes [`Policy::outlasting`].
//! - [`Budget`]: how many retries a [`Destination`] can bear; why that is needed stands there.
//! - [`classify`]: which failures are retried, with a key and without.
//! - [`Outcome`]: answered, replayed, given up, or **unknown**.
//! - [`one_layer`]: calls inside calls do not multiply their attempts.
//! - [`IdempotencyKey`]: one for each logical call, kept with the decision and read back.
//! - `reqwest` and `tower`, features of these names: calls of reqwest, a middleware for
//!   reqwest-middleware, and a layer for hyper and tonic.
//!
//! # What it does not do
//! It sends nothing itself, hedges nothing, breaks no circuit, and slows nobody down: a budget
//! refuses retries, never a first attempt. It does not outlive its process: what must happen in the
//! end belongs into a job or an outbox, under the same key.

#[cfg(any(feature = "reqwest", feature = "tower"))]
mod adapter;
mod attempt;
pub mod budget;
mod call;
mod class;
pub mod classify;
pub mod clock;
mod destination;
mod http_date;
mod key;
pub mod latency;
pub mod one_layer;
mod outcome;
mod policy;
pub mod random;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod retry;
mod retry_after;
mod told;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(any(feature = "reqwest", feature = "tower"))]
pub use adapter::{Failed, HttpRetry, Replayable, Report};
pub use attempt::{ATTEMPT_HEADER, Announced, Attempt};
pub use budget::{Budget, BudgetError, Load};
pub use class::{Applied, Attempted, Class, Reason, Transient};
pub use destination::{AlreadyNamed, Destination, MAX_DESTINATIONS, Stats};
pub use key::{IdempotencyKey, KEY_HEADER, KeyError, MAX_KEY_BYTES};
pub use outcome::{Answered, Last, Outcome, Unfinished, Why};
pub use policy::{AttemptTimeout, MAX_ATTEMPTS, MAX_SPAN, Policy, PolicyBuilder, PolicyError};
pub use retry::{CallOptions, Retry, retry};
pub use retry_after::{MAX_HINT, retry_after};
