//! A nightly job that cron starts on every machine, twice where somebody sets the clock back, and
//! again by hand when it failed: it runs once for each day, and goes on where it stopped.
//!
//! ```sh
//! cargo run -p example-nightly-job -- jobs.db mails.txt 2026-03-01
//! cargo run -p example-nightly-job -- jobs.db mails.txt 2026-03-01   # done already
//! ```
//!
//! The day is the key, and not the time at which cron fired: a run that starts late is still the
//! run for its day. Every mail is a step with a key of its own, so that a run that was killed in
//! the middle mails nobody twice.

mod mailer;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use idem_core::engine::{Call, Engine, Execution, Failure, RunError};
use idem_core::fingerprint::Fingerprint;
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;
use idem_core::record::Retention;
use idem_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

use crate::mailer::Mailer;

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a run works on. It is stored with the claim: a run that is resumed tomorrow, by a newer
/// release, works on the same.
#[derive(Serialize, Deserialize)]
struct Night {
    day: String,
    customers: Vec<String>,
}

/// The job. What it has done stands in the record after each step.
async fn remind(execution: Execution, mailer: Mailer) -> Result<String, Failure> {
    let input = execution.input().ok_or_else(|| Failure::unknown("a run without its input"))?;
    let night: Night = input.decode_json()?;
    for customer in &night.customers {
        let mailer = &mailer;
        let text = format!("reminder of {}", night.day);
        // With thousands of customers, a step is a page of them: the record holds every result.
        let step = format!("mail {customer}");
        execution
            .step(&step, |key| async move { mailer.send(key.as_str(), customer, &text).await })
            .await?;
    }
    Ok(format!("{} reminders", night.customers.len()))
}

struct Job {
    engine: Engine,
    reminders: Operation,
}

impl Job {
    /// `lease` is how long a machine that died keeps the others out.
    fn new(store: SqliteStore, mailer: Mailer, lease: Duration) -> Result<Self, Box<dyn Error>> {
        let reminders = Operation::builder("reminders.send")
            .lease(lease)
            // The mail service remembers keys for two days; a run is resumed no later than that.
            .retention(Retention::at_least(30 * A_DAY, A_DAY))
            .downstream_window(2 * A_DAY, Duration::from_secs(60 * 60))
            .resumable()
            .build()?;
        let handler = move |execution| remind(execution, mailer.clone());
        let engine = Engine::builder(store)
            .namespace("shop/nightly")?
            .register(&reminders, handler)
            .build()?;
        Ok(Self { engine, reminders })
    }

    async fn run(&self, night: &Night) -> Result<Ran, Box<dyn Error>> {
        // The list of customers may have grown since an earlier try: what makes it the same run
        // is the day.
        let same = Fingerprint::of_bytes(&night.day);
        let call = Call::new(Scope::new("nightly")?, Key::new(&night.day)?, same)
            .with_input(Input::json(night)?);
        match self.engine.run_registered(&self.reminders, call).await {
            Ok(outcome) if outcome.is_executed() => Ok(Ran::Here),
            Ok(_) => Ok(Ran::Before),
            Err(RunError::InProgress { .. }) => Ok(Ran::Elsewhere),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the night's run is or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Here,
    Before,
    Elsewhere,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, mails, day] = args.as_slice() else {
        eprintln!("usage: example-nightly-job STORE MAILS DAY");
        return ExitCode::from(2);
    };
    match work(store, mails, day).await {
        Ok(Ran::Here) => println!("{day}: done"),
        Ok(Ran::Before) => println!("{day}: was done before"),
        Ok(Ran::Elsewhere) => println!("{day}: another machine is at it"),
        // Cron tells somebody, and starting it again goes on where it stopped.
        Err(error) => {
            eprintln!("{day}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn work(store: &str, mails: &str, day: &str) -> Result<Ran, Box<dyn Error>> {
    let store = SqliteStore::open(store).await?;
    let job = Job::new(store, Mailer::new(mails), Duration::from_secs(30))?;
    let customers = ["ada", "grace", "edsger"].map(str::to_owned).to_vec();
    job.run(&Night { day: day.to_owned(), customers }).await
}

#[cfg(test)]
mod tests;
