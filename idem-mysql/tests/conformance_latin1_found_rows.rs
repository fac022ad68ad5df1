//! The testkit's suite where server and database have the collation latin1_swedish_ci, with
//! `CLIENT_FOUND_ROWS` on.

mod support;

use std::process::ExitCode;

use support::fixture::suite;
use support::{Collation, Manner};

fn main() -> ExitCode {
    let collation = Some(Collation::Latin1);
    suite("mysql-latin1-found-rows", Manner { collation, found_rows: true, stepped: true })
}
