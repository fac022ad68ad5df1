//! One case for each point of the job.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;
use std::sync::Mutex;
use std::time::Instant;

use idem_cli::network::CardNetwork;
use idem_core::record::State;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::backend::Backend;
use crate::child::{Orders, PASSED, Role, record};
use crate::job::{EFFECTS, ROWS};
use crate::support::process::{PATIENCE, Process, Server};

/// So many points after the mark "begun" must be there.
const LEAST_POINTS: usize = 30;
/// How many cases run side by side, on one store.
const WORKERS: usize = 4;

/// A database, a card network, and the points of an undisturbed job.
struct Stage {
    _folder: TempDir,
    /// Ends with this value.
    _network: Mutex<Server>,
    network: String,
    url: String,
    points: Vec<String>,
}

pub(crate) fn run<B: Backend>() {
    let started = Instant::now();
    let mut stage = Stage::new::<B>();
    stage.points = stage.undisturbed::<B>();
    let begun = stage.begun();
    let after = stage.points.len() - begun;
    println!("{}: {} points, {after} after the mark", B::NAME, stage.points.len());
    assert!(after >= LEAST_POINTS, "only {after} points: {:?}", stage.points);

    let left: Mutex<VecDeque<usize>> = Mutex::new((0..stage.points.len()).collect());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let next = || left.lock().unwrap().pop_front();
                while let Some(point) = next() {
                    stage.case::<B>(point);
                }
            });
        }
    });
    let killed = stage.points.len();
    println!("{}: killed at {killed} points in {:?}", B::NAME, started.elapsed());
}

impl Stage {
    fn new<B: Backend>() -> Self {
        let folder = TempDir::new().unwrap();
        let ledger = folder.path().join("ledger.jsonl");
        let arguments = ["network", "--ledger", ledger.to_str().unwrap()];
        let network = Server::listening(Process::idem(arguments));
        let url = block_on(B::fresh(&folder));
        block_on(B::open(&url));
        let address = network.url();
        Self {
            _folder: folder,
            _network: Mutex::new(network),
            network: address,
            url,
            points: Vec::new(),
        }
    }

    /// The points of a job that nobody kills: the numbers of all the others.
    fn undisturbed<B: Backend>(&self) -> Vec<String> {
        let output = self.process::<B>(Role::Client, "undisturbed", None);
        self.check::<B>("undisturbed", "nowhere", true);
        passed(&output).expect("it was not killed")
    }

    /// The first point at which "begun" stands: from here on a reconciler goes on.
    fn begun(&self) -> usize {
        self.points.iter().position(|point| point == "after checkpoint").unwrap()
    }

    fn case<B: Backend>(&self, point: usize) {
        let (job, name) = (format!("job-{point}"), self.points[point].as_str());
        let killed = self.process::<B>(Role::Client, &job, Some(point));
        assert_eq!(killed.status.signal(), Some(9), "{name}: {}", said(&killed));
        // Somewhere in its own work, which is shorter the later the first one died.
        let again = point * 7 % 23;
        let first = self.process::<B>(Role::Reconciler, &job, Some(again));
        assert!(first.status.signal() == Some(9) || first.status.success(), "{}", said(&first));
        let second = self.process::<B>(Role::Reconciler, &job, None);
        assert!(second.status.success(), "{name}: {}", said(&second));
        self.check::<B>(&job, &format!("{point}, {name}, then {again}"), point >= self.begun());
    }

    fn process<B: Backend>(&self, role: Role, job: &str, die_at: Option<usize>) -> Output {
        let orders = Orders {
            role,
            backend: B::NAME.into(),
            url: self.url.clone(),
            network: self.network.clone(),
            job: job.into(),
            die_at,
        };
        orders.command().output().unwrap()
    }

    /// Every effect and every row once, and the reply in the record; or none of it, where nothing
    /// had begun and nobody asks any more (R26).
    fn check<B: Backend>(&self, job: &str, killed: &str, begun: bool) {
        let network = CardNetwork::new(&self.network, PATIENCE).unwrap();
        let ledger = block_on(network.ledger(Some(job), 0)).unwrap();
        let mut effects: Vec<u64> =
            ledger.data.iter().map(|entry| entry.charge.request.amount).collect();
        effects.sort_unstable();
        let rows = block_on(B::rows(&self.url, job));
        let record = block_on(record::<B>(&self.url, job));
        if !begun {
            assert_eq!((effects.len(), rows.len()), (0, 0), "killed at {killed}");
            let state = record.map(|seen| seen.record.recovery().is_none());
            assert_ne!(state, Some(false), "killed at {killed}: it began");
            return;
        }
        assert_eq!(effects, EFFECTS, "killed at {killed}");
        assert_eq!(ledger.effects, EFFECTS.len() as u64, "killed at {killed}");
        assert_eq!(rows, ROWS, "killed at {killed}");
        let state = record.expect("a record").record.state;
        assert!(matches!(state, State::Completed { .. }), "killed at {killed}: {state:?}");
    }
}

/// The points that a process passed, if it came to its end.
fn passed(output: &Output) -> Option<Vec<String>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(PASSED))?.1;
    Some(serde_json::from_str(line).unwrap())
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}
