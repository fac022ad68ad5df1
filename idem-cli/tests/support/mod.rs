//! What the tests of the binary share: processes that end with their test, and plain HTTP.

pub(crate) mod http;
pub(crate) mod payments;
pub(crate) mod process;
