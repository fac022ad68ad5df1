//! What the tests of the binary share: processes that end with their test, and plain HTTP.
#![allow(dead_code)] // Each test binary uses a part of it.

pub(crate) mod http;
pub(crate) mod payments;
pub(crate) mod process;
