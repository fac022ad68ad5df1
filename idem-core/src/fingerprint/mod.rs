//! What was asked, as a hash that is stored with the record (R22, R23).
//!
//! A key that comes back with another request is a mistake of its caller, and must not be answered
//! with the first one's reply. So a record keeps a [`Fingerprint`] of its request. Two requests
//! that mean the same share one; two that a handler could tell apart in meaning never do. Where
//! the meaning is not beyond doubt, the bytes count as they are: a false mismatch is an error that
//! the caller sees, a false match is a payment that never happens.
//!
//! | of | made by |
//! |---|---|
//! | an HTTP request | [`Material`] |
//! | the input of a job or a message | [`Fingerprint::of_json`], [`Fingerprint::of_bytes`] |
//! | something that may legally differ when it comes again | [`Fingerprint::not_compared`] |
//!
//! What counts, byte for byte, is written down with vectors in `docs/fingerprint.md`. It is a
//! stored contract: a change of it is a new [`Scheme`].

mod body;
mod content_type;
mod hash;
mod input;
mod json;
mod material;
mod multipart;
mod number;
mod scheme;
mod string;
#[cfg(test)]
mod tests;

pub use json::MAX_NESTING;
pub use material::Material;
pub use scheme::{Comparison, Fingerprint, Fingerprints, MAX_SCHEMES, Scheme};
