//! The testkit's suite on Redis 7.0, on a clock that the cases step.

mod common;

use std::process::ExitCode;

use common::fixture::{Home, Judge, suite};

fn main() -> ExitCode {
    suite("redis-7.0", Home::Own("IDEM_REDIS_SERVER"), Judge::Test)
}
