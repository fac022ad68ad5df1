//! `idem conformance`: the suite that any store must pass, on the store behind a URL.

mod memory;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod tell;

use std::io::{Write, stdout};
use std::process::ExitCode;

use idem_core::async_trait;
use idem_core::error::StoreError;
use idem_core::record::Owner;
use idem_testkit::capability::Capabilities;
use idem_testkit::conformance::Conformance;
use idem_testkit::fixture::{Connected, Fixture, SetupError};

use crate::backends::{self, store_failure};
use crate::exit::{Exit, Failure};
use crate::paint::Paint;
use crate::shutdown::Shutdown;

pub(crate) use memory::suite as memory;
pub(crate) use mysql::suite as mysql;
pub(crate) use postgres::suite as postgres;
pub(crate) use redis::suite as redis;
pub(crate) use sqlite::suite as sqlite;
pub use tell::Form;

/// Try a store with every case of the suite, and say which promises it breaks.
///
/// The records that it makes are kept apart from those that are there, and are gone afterwards.
/// It exits with 1 when a case failed. A case that this store cannot be tried with is shown as
/// ignored, with the reason.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The store, such as sqlite:PATH; of a file only its folder is used, and the file need not
    /// be there.
    #[arg(long, value_name = "URL", env = "IDEM_STORE", hide_env_values = true)]
    pub store: String,

    /// Only the cases whose name holds this text.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// Take the filter as the whole name of one case.
    #[arg(long, requires = "filter")]
    pub exact: bool,

    /// The seed of the run, as a failure names it; a fresh one if absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Answer in JSON, for scripts, once all cases have ended.
    #[arg(long)]
    pub json: bool,
}

/// The suite on a store, and what has to be done after it.
pub struct Suite {
    /// Its cases and fixtures.
    pub conformance: Conformance,
    /// Removes what the fixtures do not remove by themselves.
    pub(crate) clean_up: backends::Pending<()>,
}

/// Runs `idem conformance`.
///
/// # Errors
/// [`Failure`] when the suite could not be run; whether every case passed is in the [`Exit`].
pub fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Setup, error))?;
    runtime.block_on(async {
        let suite = backends::suite(&args.store).await?;
        let done = interruptible(selected(suite.conformance, &args), &args).await;
        let cleaned = suite.clean_up.await;
        done.and_then(|exit| cleaned.map(|()| exit))
    })
}

/// Does the job of one of several processes, if this one was started for a case that needs them.
pub fn worker() -> Option<ExitCode> {
    let nothing = async || Err::<Unopened, _>("a worker opens no fresh store".into());
    Conformance::new("a worker", Capabilities::none(), nothing).attaching(attach).worker()
}

/// Opens what a fixture in another process has: the scheme of the store, and its address.
async fn attach(address: String) -> Result<Connected, SetupError> {
    let (scheme, rest) = address.split_once(' ').ok_or("an address with a scheme")?;
    match scheme {
        "sqlite" => sqlite::attach(rest).await,
        "postgres" => postgres::attach(rest).await,
        "mysql" => mysql::attach(rest).await,
        "redis" => redis::attach(rest).await,
        _ => Err("an address of another build".into()),
    }
}

/// Runs a suite and tells how it goes.
///
/// # Errors
/// [`Exit::Usage`] when no case is selected; [`Exit::Setup`] or [`Exit::Unavailable`] when no
/// fresh store can be had at all.
pub async fn tell(suite: &Conformance, form: Form, out: impl Write) -> Result<Exit, Failure> {
    if !suite.selects_any() {
        return Err(Failure::new(Exit::Usage, "no case has such a name"));
    }
    // A server that is down is one failure, not one of each case.
    let fixture = suite.fixture().await.map_err(cannot_open)?;
    drop(fixture.connect().await.map_err(cannot_open)?);
    drop(fixture);
    tell::told(suite, form, out).await
}

async fn interruptible(suite: Conformance, args: &Args) -> Result<Exit, Failure> {
    let mut shutdown = Shutdown::listen().map_err(|error| Failure::new(Exit::Setup, error))?;
    let form = if args.json { Form::Json } else { Form::Words(Paint::for_stdout()) };
    tokio::select! {
        done = tell(&suite, form, stdout()) => done,
        _ = shutdown.requested() => Err(Failure::new(Exit::CheckFailed, "it was interrupted")),
    }
}

fn selected(suite: Conformance, args: &Args) -> Conformance {
    let store = shown(&args.store);
    let suite = suite.attaching(attach).spawning_workers().rerun(move |case, seed| {
        format!("idem conformance --store {store} --seed {seed} --exact --filter {case}")
    });
    let suite = match args.seed {
        Some(seed) => suite.seed(seed),
        None => suite,
    };
    match &args.filter {
        Some(name) if args.exact => suite.case(name),
        Some(part) => suite.filter(part),
        None => suite,
    }
}

/// A store's URL as a shell takes it. One that may hold a password is not repeated.
fn shown(url: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._-=?&%".contains(c);
    match url {
        _ if url.contains('@') => "\"$IDEM_STORE\"".to_owned(),
        _ if url.chars().all(plain) && !url.contains(['?', '&']) => url.to_owned(),
        _ => format!("'{}'", url.replace('\'', r"'\''")),
    }
}

/// A name that no other run has, of lower-case letters and digits after `prefix`.
fn fresh_name(prefix: &str) -> String {
    let [a, b, c, d, ..] = *Owner::random().as_bytes();
    format!("{prefix}{:08x}", u32::from_be_bytes([a, b, c, d]))
}

fn cannot_open(error: SetupError) -> Failure {
    match error.downcast::<StoreError>() {
        Ok(error) => store_failure(*error),
        Err(error) => Failure::new(Exit::Setup, error),
    }
}

/// The fixture of a worker, which has none.
enum Unopened {}

#[async_trait]
impl Fixture for Unopened {
    async fn connect(&self) -> Result<Connected, SetupError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failure_says_which_command_runs_it_again() {
        let broken = idem_testkit::broken::catalogue().swap_remove(0);
        let args = Args {
            store: "sqlite:a b.db".to_owned(),
            filter: Some(broken.caught_by().to_owned()),
            exact: true,
            seed: Some(7),
            json: false,
        };
        let report = selected(broken.conformance(), &args).run().await;
        let failed = report.failures().next().unwrap();
        let idem_testkit::report::Outcome::Failed(seen) = &failed.outcome else { unreachable!() };
        let expected = format!(
            "idem conformance --store 'sqlite:a b.db' --seed 7 --exact --filter {}",
            broken.caught_by()
        );
        assert_eq!((seen.rerun.as_str(), report.cases.len()), (expected.as_str(), 1));
    }

    #[test]
    fn a_url_is_shown_as_a_shell_takes_it_and_never_with_a_password() {
        assert_eq!(shown("sqlite:/a/b.db"), "sqlite:/a/b.db");
        assert_eq!(shown("sqlite:a b's.db"), r"'sqlite:a b'\''s.db'");
        assert_eq!(shown("sqlite:a.db?mode=rwc"), "'sqlite:a.db?mode=rwc'");
        assert_eq!(shown("postgres://me:hunter2@host/db"), "\"$IDEM_STORE\"");
    }
}
