//! Idempotency keys for HTTP services.
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
