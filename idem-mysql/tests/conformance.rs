//! The testkit's suite on the server's own clock, under its own character set and isolation.

mod support;

use std::process::ExitCode;

use support::Manner;
use support::fixture::suite;

fn main() -> ExitCode {
    suite("mysql", Manner { ..Manner::default() })
}
