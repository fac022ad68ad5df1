//! The testkit's suite on Postgres 18, on a clock that the cases set.

mod support;

use std::process::ExitCode;

use support::Server;
use support::fixture::{Judge, suite};

fn main() -> ExitCode {
    suite("postgres-18", Server::Postgres18, Judge::Test)
}
