//! The testkit's suite on Valkey, on a clock that the cases step.

mod common;

use std::process::ExitCode;

use common::fixture::{Home, Judge, suite};

fn main() -> ExitCode {
    suite("valkey", Home::Own("IDEM_VALKEY_SERVER"), Judge::Test)
}
