//! Sinks for idem's outbox relay: where [`Relay`](idem_core::relay::Relay) delivers messages to.
//!
//! | feature | sink | delivers to |
//! |---|---|---|
//! | `http` | [`HttpSink`] | a URL, by POST, the message's id as `Idempotency-Key` |
//! | `redis-streams` | [`RedisStreamSink`] | a stream of Redis or Valkey, the id in each entry |
//!
//! Anything else is a [`Sink`](idem_core::relay::Sink) of your own: one method.
//!
//! Delivery is at least once. Each sink passes the message's id on, and its page says how the
//! receiver tells a repeat.

#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "redis-streams")]
mod redis_streams;

#[cfg(feature = "http")]
pub use crate::http::{HttpSink, HttpSinkError};
#[cfg(feature = "redis-streams")]
pub use crate::redis_streams::RedisStreamSink;
#[cfg(feature = "http")]
pub use hyper_util;
#[cfg(feature = "http")]
pub use idem_retry;
#[cfg(feature = "redis-streams")]
pub use redis;
