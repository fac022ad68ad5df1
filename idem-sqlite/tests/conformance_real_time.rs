//! The testkit's suite on SQLite, on the machine's clock and from several processes.

mod fixture;

use std::process::ExitCode;

use fixture::{Judge, suite};

fn main() -> ExitCode {
    suite("sqlite, real time", Judge::Machine).main()
}
