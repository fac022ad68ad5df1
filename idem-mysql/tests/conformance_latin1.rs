//! The testkit's suite where the database's collation is latin1_swedish_ci, and `CLIENT_FOUND_ROWS` is on.

mod support;

use std::process::ExitCode;

use support::Manner;
use support::fixture::suite;

fn main() -> ExitCode {
    suite("mysql-latin1", Manner { collation: Some(("latin1", "latin1_swedish_ci")), found_rows: true, stepped: true })
}
