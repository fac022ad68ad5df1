//! What was asked, as a hash that is stored with the record (R22, R23).

mod scheme;

pub use scheme::{Comparison, Fingerprint, Fingerprints, MAX_SCHEMES, Scheme};
