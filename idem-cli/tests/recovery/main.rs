//! A job with three recovery points is killed with SIGKILL at each of its points in turn, and
//! resumed by a reconciler alone: no client ever asks again. Each external effect stands once in
//! the card network's ledger, each local row once in the database.
//!
//! The reconciler that finds it first is killed as well, somewhere in its own work; the next one
//! finishes. Another database is one `impl Backend` and one test.

mod backend;
mod cases;
mod child;
mod failing;
mod job;
mod mysql;
mod points;
#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;

#[test]
fn sqlite_at_every_point() {
    cases::run::<backend::Sqlite>();
}

#[test]
fn postgres_at_every_point() {
    cases::run::<backend::Postgres>();
}

#[test]
fn mysql_at_every_point() {
    cases::run::<mysql::Mysql>();
}

/// What this binary is when it runs itself; nothing otherwise.
#[test]
fn child_process() {
    child::run();
}
