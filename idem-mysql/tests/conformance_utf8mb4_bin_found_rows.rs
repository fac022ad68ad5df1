//! The testkit's suite where server and database have the collation utf8mb4_bin, with
//! `CLIENT_FOUND_ROWS` on.

mod support;

use std::process::ExitCode;

use support::fixture::suite;
use support::{Collation, Manner};

fn main() -> ExitCode {
    let collation = Some(Collation::Binary);
    suite("mysql-utf8mb4-bin-found-rows", Manner { collation, found_rows: true, stepped: true })
}
