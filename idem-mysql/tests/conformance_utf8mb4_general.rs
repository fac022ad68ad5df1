//! The testkit's suite where the database's collation is utf8mb4_general_ci, and `CLIENT_FOUND_ROWS` is on.

mod support;

use std::process::ExitCode;

use support::Manner;
use support::fixture::suite;

fn main() -> ExitCode {
    suite("mysql-utf8mb4_general", Manner { collation: Some(("utf8mb4", "utf8mb4_general_ci")), found_rows: true, stepped: true })
}
