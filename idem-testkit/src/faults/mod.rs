//! Tools that make things go wrong on purpose, for the suite and for your own tests.
//!
//! - [`proxy`]: a TCP proxy on loopback that loses a request, or the reply but not the request,
//!   at a byte offset; that delays, resets, or leaves a connection half open.
//! - [`messages`]: a TCP proxy that knows where a message ends, and loses a commit or its reply.
//! - [`cancel`]: drops a future at its first, second, … n-th poll.
//! - [`lossy`]: a store that loses, delays and repeats calls at the level of its verbs.
//! - The clock that can be stepped is [`ManualClock`](idem_core::time::ManualClock).

pub mod cancel;
pub mod lossy;
pub mod messages;
pub mod proxy;
mod relay;
