//! Idempotency keys for HTTP services: a tower layer that runs a request once for each key of its
//! caller, and answers every retry with the first answer, byte for byte.
//!
//! ```
//! use axum::handler::Handler;
//! use axum::http::header::AUTHORIZATION;
//! use axum::routing::post;
//! use axum::{Json, Router};
//! use idem_core::engine::Engine;
//! use idem_core::memory::MemoryStore;
//! use idem_core::operation::Operation;
//! use idem_http::handler::Checked;
//! use idem_http::{IdempotencyLayer, scope};
//!
//! async fn charge(Checked(Json(amount)): Checked<Json<u64>>) -> String {
//!     format!("charged {amount}")
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.build()?;
//! let charges = Operation::builder("charges.create").build()?;
//! let idem = IdempotencyLayer::new(engine).scope(scope::hashed_header(AUTHORIZATION));
//! let app: Router =
//!     Router::new().route("/v1/charges", post(charge.layer(idem.operation(&charges))));
//! # let _ = app;
//! # Ok(()) }
//! ```
//!
//! | to | see |
//! |---|---|
//! | set the layer up | [`IdempotencyLayer`] |
//! | say whose keys they are | [`scope`] |
//! | say what becomes of an answer | [`Disposition`], [`handler`] |
//! | know what is a key | [`key_header`] |
//! | know what clients are told | [`problem`] |
//! | turn it off in an emergency | [`Switch`] |
//! | describe it in an API document | [`openapi`] |
//!
//! # Order of layers
//! Authentication, rate limits, timeouts, and whatever changes answers go **outside**: what stands
//! inside is stored, and runs once. The service inside runs in a task of its own (R12).
//!
//! In axum the layer goes on handlers or on `Router::route_layer`, not on `Router::layer`, which
//! stores the 404s of paths that are not there: see [`IdempotencyLayer`].
//!
//! # What it does not do
//! It does not bound how long an upload takes, does not speak gRPC's errors, and does not keep
//! event streams, protocol switches, or answers over the operation's limit: they are delivered
//! once, and a retry is told so.
//!
//! # Features
//! `axum`, on by default: the path as the client sent it inside nested routers, and [`handler`].
//! Without it, nested axum routers share their paths. It must be the same axum as the service's.

#[cfg(feature = "axum")]
pub mod handler;
pub mod key_header;
pub mod openapi;
pub mod problem;
pub mod scope;

mod capture;
mod client_uri;
mod collected;
mod deliver;
mod guard;
mod header_filter;
mod layer;
mod mark;
mod reply_body;
mod request;
mod request_body;
mod service;
mod settings;
mod switch;
mod upload;

pub use client_uri::ClientUri;
pub use layer::{IdempotencyLayer, NoOperation, NoScope, Scoped};
pub use mark::{Disposition, failed, replied};
pub use reply_body::ReplyBody;
pub use request_body::RequestBody;
pub use service::{Idempotency, ResponseFuture};
pub use settings::{
    DEFAULT_MAX_BODY_BYTES, DEFAULT_RETRY_HINT, DEFAULT_STREAM_AFTER, KEY_HEADER, LIFETIME_HEADER,
    REPLAYED_HEADER, STORED_HEADER,
};
pub use switch::Switch;

/// Those of the README compile and run, too: this crate has all that they need.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of the page on this crate compile and run.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../docs/http.md")]
struct Page;
