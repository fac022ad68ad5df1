//! The testkit's suite on Postgres 15, on the server's own clock.

mod support;

use std::process::ExitCode;

use support::Server;
use support::fixture::{Judge, suite};

fn main() -> ExitCode {
    suite("postgres-15-own-clock", Server::Postgres, Judge::Server)
}
