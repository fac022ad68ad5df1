//! What idem costs, as ratios against the same work without it.
//!
//! ```sh
//! scripts/bench                      # every group; starts the servers
//! scripts/bench sqlite fingerprint
//! ```
//!
//! All ways of a group take turns in every round of one run, and a ratio is taken within a round:
//! figures of different runs, or of different machines, are not comparable. What was measured once
//! is in `docs/benchmarks.md`.

mod backends;
mod fingerprint;
mod layer;
mod measure;
mod once;
mod shop;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use idem_core::memory::MemoryStore;

use crate::measure::{BoxError, Effort, Row, Subject, measure};

/// What idem costs, as ratios against the same work without it.
#[derive(Parser)]
struct Args {
    /// What to measure; everything by default.
    groups: Vec<Group>,
    /// How often each way is measured.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How many calls each round makes of each way.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// How many calls run at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// A JSON document instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    Fingerprint,
    Http,
    Memory,
    Sqlite,
    Postgres,
    Mysql,
    Redis,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let effort = Effort {
        rounds: args.rounds.into(),
        calls: args.calls.into(),
        concurrency: args.concurrency.into(),
    };
    let groups = if args.groups.is_empty() { Group::value_variants() } else { &args.groups };
    let mut rows = Vec::new();
    for &group in groups {
        match run(group, effort).await {
            Ok(more) => rows.extend(more),
            Err(error) => {
                eprintln!("idem-bench: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        print_json(&rows)
    } else {
        print_table(&rows, effort)
    }
    ExitCode::SUCCESS
}

async fn run(group: Group, effort: Effort) -> Result<Vec<Row>, BoxError> {
    match group {
        Group::Fingerprint => fingerprint::run(effort).await,
        Group::Http => layer::run(effort).await,
        Group::Memory => memory(effort).await,
        Group::Sqlite => backends::sqlite::run(effort).await,
        Group::Postgres => backends::postgres::run(effort).await,
        Group::Mysql => backends::mysql::run(effort).await,
        Group::Redis => backends::redis::run(effort).await,
    }
}

/// The engine itself, against a task that is spawned and waited for.
async fn memory(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let task = Subject::new("a task alone", |_| async { Ok(tokio::spawn(async {}).await?) });
    let subjects =
        [task, once::protected(MemoryStore::new())?, once::replayed(MemoryStore::new()).await?];
    measure("memory", &subjects, effort).await
}

fn print_table(rows: &[Row], effort: Effort) {
    let Effort { rounds, calls, concurrency } = effort;
    println!("{rounds} rounds of {calls} calls, {concurrency} at once\n");
    println!("{:<12} {:<26} {:>10} {:>7}  range", "group", "way", "us a call", "ratio");
    for Row { group, name, micros, ratio, lowest, highest } in rows {
        println!("{group:<12} {name:<26} {micros:>10.1} {ratio:>7.2}  {lowest:.2} to {highest:.2}");
    }
}

fn print_json(rows: &[Row]) {
    println!("{}", serde_json::to_string_pretty(rows).expect("numbers and names are JSON"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups that need no server: each runs, and finds its effects.
    #[tokio::test]
    async fn the_groups_without_a_server_run() {
        let effort = Effort { rounds: 2, calls: 3, concurrency: 2 };
        for (group, ways) in
            [(Group::Fingerprint, 3), (Group::Http, 3), (Group::Memory, 3), (Group::Sqlite, 4)]
        {
            let rows = run(group, effort).await.unwrap();
            assert_eq!(rows.len(), ways);
            assert!(rows.iter().all(|row| row.ratio.is_finite() && row.ratio > 0.0), "{rows:?}");
        }
    }
}
