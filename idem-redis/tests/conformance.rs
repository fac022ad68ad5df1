//! The testkit's suite on Redis 7.0, on the server's clock.

mod common;

use std::process::ExitCode;

use common::fixture::{Home, Judge, suite};

fn main() -> ExitCode {
    suite("redis-7.0", Home::Own("IDEM_REDIS_SERVER"), Judge::Server)
}
