//! The suite on the memory store, on the machine's clock: what a store without a clock of the
//! test's own goes through.

use std::process::ExitCode;

use idem_testkit::capability::Capability;
use idem_testkit::conformance::Conformance;
use idem_testkit::memory::MemoryFixture;

fn main() -> ExitCode {
    let declared = MemoryFixture::capabilities()
        .without(Capability::SteppedClock, "the machine's own clock judges");
    Conformance::new("memory, real time", declared, async || Ok(MemoryFixture::on_real_time()))
        .main()
}
