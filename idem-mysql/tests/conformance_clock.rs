//! The testkit's suite on a clock that the cases set.

mod support;

use std::process::ExitCode;

use support::Manner;
use support::fixture::suite;

fn main() -> ExitCode {
    suite("mysql-clock", Manner { stepped: true, ..Manner::default() })
}
