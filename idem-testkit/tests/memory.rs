//! The suite on the memory store, on a stepped clock.

use std::process::ExitCode;

use idem_testkit::memory::MemoryFixture;

fn main() -> ExitCode {
    MemoryFixture::conformance().main()
}
