//! The testkit's suite on a Cluster of three primaries, on a clock that the cases step.

mod common;

use std::process::ExitCode;

use common::fixture::{Home, Judge, suite};

fn main() -> ExitCode {
    suite("redis-cluster", Home::Shared("IDEM_REDIS_CLUSTER_URL"), Judge::Test)
}
