//! The suite on the memory store.

use idem_testkit::memory::MemoryFixture;

use super::Suite;
use crate::exit::Failure;

/// On a clock that the cases step: a memory store lives in this process, and so does its clock.
pub(crate) async fn suite(_: String) -> Result<Suite, Failure> {
    let clean_up = Box::pin(async { Ok(()) });
    Ok(Suite { conformance: MemoryFixture::conformance(), clean_up })
}
