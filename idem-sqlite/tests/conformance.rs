//! The testkit's suite on SQLite, on a clock that the cases step.

mod fixture;

use std::process::ExitCode;

use fixture::{Judge, suite};

fn main() -> ExitCode {
    suite("sqlite", Judge::Test).main()
}
