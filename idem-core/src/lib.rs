//! idem's core.

pub mod key;
