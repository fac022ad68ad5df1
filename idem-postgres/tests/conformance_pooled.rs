//! The testkit's suite through PgBouncer in transaction mode, on a clock that the cases set.

mod support;

use std::process::ExitCode;

use support::Server;
use support::fixture::{Judge, suite};

fn main() -> ExitCode {
    suite("postgres-15-behind-pgbouncer", Server::PgBouncer, Judge::Test)
}
