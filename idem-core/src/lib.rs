//! Operations that are safe to retry: a claim on (scope, key) taken atomically in the user's own
//! database, a lease so that a crash does not block it for ever, a fence so that a paused worker
//! cannot overwrite a recovered result, and the first answer replayed byte for byte.
//!
//! This crate knows nothing of HTTP, of SQL, or of any backend.

pub mod admin;
pub mod catalog;
pub mod claim;
pub mod codec;
pub mod cursor;
pub mod downstream;
pub mod engine;
pub mod error;
pub mod fingerprint;
pub mod housekeeping;
pub mod input;
pub mod key;
pub mod log_hash;
pub mod memory;
pub mod operation;
pub mod outbox;
pub mod preflight;
pub mod progress;
pub mod record;
pub mod relay;
pub mod reply;
pub mod seal;
pub mod store;
pub mod stored;
pub mod telemetry;
pub mod time;
pub mod transactional;
pub mod transition;

pub use async_trait::async_trait;
