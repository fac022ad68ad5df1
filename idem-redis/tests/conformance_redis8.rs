//! The testkit's suite on Redis 8.2, on a clock that the cases step.

mod common;

use std::process::ExitCode;

use common::fixture::{Home, Judge, suite};

fn main() -> ExitCode {
    suite("redis-8.2", Home::Own("IDEM_REDIS8_SERVER"), Judge::Test)
}
