//! Claims from another process: this very program, started again with a job in its environment.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use idem_core::claim::Claimed;
use idem_core::key::Scope;
use idem_core::record::Owner;
use idem_core::store::Store;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::ask::Ask;
use crate::conformance::{Attach, Conformance};
use crate::context::{Context, key};
use crate::failure::Failure;
use crate::fixture::SetupError;

/// Names the environment variable that makes a test program a worker of another one.
pub const WORKER_VARIABLE: &str = "IDEM_TESTKIT_WORKER";

/// How long a worker may take to start, and then to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a worker is to do: claim `k0`, `k1`, … once it is told to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) address: String,
    pub(crate) scope: String,
    pub(crate) keys: u32,
    pub(crate) lease: Duration,
}

/// What came of one claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    Acquired { attempt: u32 },
    InProgress,
    Other(String),
}

impl Conformance {
    /// Does a worker's job, if this process was started as one; its `main` then returns this.
    ///
    /// [`main`](Self::main) sees to it by itself. A program of another kind that runs the suite
    /// calls it first thing, outside any runtime, and says so with
    /// [`spawning_workers`](Self::spawning_workers).
    pub fn worker(&self) -> Option<ExitCode> {
        let job = std::env::var(WORKER_VARIABLE).ok()?;
        let done = match (&self.attach, serde_json::from_str(&job)) {
            (Some(attach), Ok(job)) => blocking(work(job, attach.clone())),
            (None, _) => Err("this suite attaches to no other process's data".into()),
            (_, Err(error)) => Err(error.into()),
        };
        Some(match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}", crate::failure::chain(&*error));
                ExitCode::FAILURE
            }
        })
    }
}

fn blocking(work: impl Future<Output = Result<(), SetupError>>) -> Result<(), SetupError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

async fn work(job: Job, attach: Attach) -> Result<(), SetupError> {
    let store = attach(job.address.clone()).await?.store;
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    say(&"ready")?;
    input.next_line().await?;
    let scope = Scope::new(&job.scope)?;
    for number in 0..job.keys {
        let ask = Ask::new(scope.clone(), key(&format!("k{number}")), Owner::random());
        say(&match store.claim(&ask.lease(job.lease).claim()).await {
            Ok(Claimed::Acquired(held)) => Told::Acquired { attempt: held.fence.attempt },
            Ok(Claimed::InProgress { .. }) => Told::InProgress,
            Ok(other) => Told::Other(format!("{other:?}")),
            Err(error) => Told::Other(crate::failure::chain(&error)),
        })?;
    }
    // It stays, with what it holds, until its parent goes away or kills it.
    input.next_line().await?;
    Ok(())
}

fn say<T: Serialize>(what: &T) -> Result<(), SetupError> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// The parent's end. Dropping it kills the process.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process and waits until it is ready to go.
    pub(crate) async fn start(
        cx: &Context,
        scope: &Scope,
        keys: u32,
        lease: Duration,
    ) -> Result<Self, Failure> {
        let address = cx.fixture().address();
        let address = address.ok_or_else(|| Failure::new("an address, as declared", "none"))?;
        let job = Job { address, scope: scope.as_str().to_owned(), keys, lease };
        let mut worker = Self::spawn(&job).map_err(|error| setup(&error))?;
        cx.trace().add("process", format_args!("{:?} starts", worker.child.id()));
        match worker.line().await?.as_str() {
            "\"ready\"" => Ok(worker),
            other => Err(Failure::new("a worker that says that it is ready", other)),
        }
    }

    fn spawn(job: &Job) -> Result<Self, SetupError> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(WORKER_VARIABLE, serde_json::to_string(job)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("a pipe to the worker")?;
        let output = child.stdout.take().ok_or("a pipe from the worker")?;
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    pub(crate) async fn go(&mut self) -> Result<(), Failure> {
        self.input.write_all(b"go\n").await.map_err(|error| setup(&error.into()))
    }

    pub(crate) async fn told(&mut self) -> Result<Told, Failure> {
        let line = self.line().await?;
        serde_json::from_str(&line).map_err(|_| Failure::new("a worker's answer", line))
    }

    /// Ends it without a chance to tidy up.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(|error| setup(&error.into()))
    }

    async fn line(&mut self) -> Result<String, Failure> {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await;
        match line {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(Failure::new("a worker that answers", "it has ended")),
            Ok(Err(error)) => Err(setup(&error.into())),
            Err(_) => {
                Err(Failure::new("a worker that answers", format!("nothing in {PATIENCE:?}")))
            }
        }
    }
}

fn setup(error: &SetupError) -> Failure {
    crate::context::setup("another process", error)
}
