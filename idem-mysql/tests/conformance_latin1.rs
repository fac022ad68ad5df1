//! The testkit's suite where server and database have the collation latin1_swedish_ci, with
//! `CLIENT_FOUND_ROWS` off.

mod support;

use std::process::ExitCode;

use support::fixture::suite;
use support::{Collation, Manner};

fn main() -> ExitCode {
    let collation = Some(Collation::Latin1);
    suite("mysql-latin1", Manner { collation, found_rows: false, stepped: true })
}
