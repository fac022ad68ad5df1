//! What was asked, as a hash that is stored with the record (R22, R23).
//!
//! Two requests that mean the same share a fingerprint; two that a handler could tell apart in
//! meaning never do. What counts is written down, with vectors, in `docs/fingerprint.md`; it is a
//! stored contract, so that a change of it is a new [`Scheme`].

mod hash;
mod json;
mod material;
mod multipart;
mod number;
mod scheme;
#[cfg(test)]
mod tests;

pub use json::MAX_NESTING;
pub use material::Material;
pub use scheme::{Comparison, Fingerprint, Fingerprints, MAX_SCHEMES, Scheme};
