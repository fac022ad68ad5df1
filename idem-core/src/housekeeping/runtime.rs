//! The loops of a service: started and stopped with one call each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

use crate::engine::Engine;
use crate::housekeeping::chore::{Chore, ChoreError, Pass, Stop};
use crate::housekeeping::health::{Health, Watch};
use crate::housekeeping::{Reconciler, Sweeper, spread};

/// When the first pass comes at the latest: a start often follows a crash.
const FIRST_PASS_WITHIN: Duration = Duration::from_secs(1);
/// The shortest pause between two passes: a chore that has always more to do yields all the same.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// Runs the loops of a service until it ends.
///
/// ```
/// use std::time::Duration;
///
/// use idem_core::engine::Engine;
/// use idem_core::housekeeping::Runtime;
/// use idem_core::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.build()?;
/// let runtime = Runtime::start(&engine);
/// assert!(runtime.health().is_good());
///
/// // At SIGTERM: first the server answers what it has accepted, then
/// let stopped = runtime.stop(Duration::from_secs(30)).await;
/// assert!(stopped.is_clean());
/// # Ok(()) }
/// ```
///
/// Dropped, its loops end at once; what a reconciler resumed goes on in the engine.
pub struct Runtime {
    engine: Engine,
    stop: Stop,
    loops: Vec<Running>,
    tracker: TaskTracker,
}

struct Running {
    chore: Arc<dyn Chore>,
    watch: Arc<Watch>,
    task: AbortHandle,
    /// Set by the loop itself: a task counts as running for a moment after its last line.
    has_ended: Arc<AtomicBool>,
}

/// Tells the end of a loop, however it ends.
struct TellsEnd(Arc<AtomicBool>);

impl Drop for TellsEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Builds a [`Runtime`].
#[must_use]
pub struct RuntimeBuilder {
    engine: Engine,
    chores: Vec<Arc<dyn Chore>>,
}

/// What was left when a runtime stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// How many executions were still running. Their records lapse with their leases.
    pub executions: usize,
    /// The loops whose pass was cut off.
    pub loops: Vec<&'static str>,
}

impl Stopped {
    /// Whether everything had ended by itself.
    pub fn is_clean(&self) -> bool {
        self.executions == 0 && self.loops.is_empty()
    }
}

impl Runtime {
    /// Starts a reconciler and a sweeper on the engine's store, with their defaults. Needs a
    /// tokio runtime.
    pub fn start(engine: &Engine) -> Self {
        Self::builder(engine)
            .chore(Reconciler::new(engine.clone()))
            .chore(Sweeper::of(engine))
            .start()
    }

    /// Chooses the loops: none, until they are added.
    pub fn builder(engine: &Engine) -> RuntimeBuilder {
        RuntimeBuilder { engine: engine.clone(), chores: Vec::new() }
    }

    /// How the loops are.
    pub fn health(&self) -> Health {
        let loops =
            self.loops.iter().map(|running| running.watch.health(&*running.chore)).collect();
        Health { loops, stopping: self.stop.is_requested() }
    }

    /// Lets no loop take anything new up, while the engine still takes calls: for the time in
    /// which a server finishes the requests that it has accepted.
    pub fn wind_down(&self) {
        self.stop.request();
    }

    /// Ends the loops and [drains](Engine::drain) the engine: executions that run finish, and
    /// their heartbeats go on. What has not ended after `limit` is cut off.
    ///
    /// # Cancel safety
    /// The engine takes no more calls in any case; it can be called again.
    pub async fn stop(&self, limit: Duration) -> Stopped {
        self.wind_down();
        self.tracker.close();
        let until = Instant::now() + limit.min(crate::time::MAX_DURATION);
        let ended = timeout_at(until, self.tracker.wait());
        let (executions, _) = tokio::join!(self.engine.drain(limit), ended);
        let left = self.loops.iter().filter(|running| !running.has_ended.load(Ordering::SeqCst));
        let loops = left.map(|running| {
            running.task.abort();
            running.chore.name()
        });
        Stopped { executions, loops: loops.collect() }
    }

    /// Runs until `end` resolves, then [stops](Self::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](Self::stop), once `end` has resolved.
    pub async fn run_until(&self, end: impl Future<Output = ()>, limit: Duration) -> Stopped {
        end.await;
        self.stop(limit).await
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop.request();
        for running in &self.loops {
            running.task.abort();
        }
    }
}

impl RuntimeBuilder {
    /// Adds a loop.
    pub fn chore(mut self, chore: impl Chore) -> Self {
        self.chores.push(Arc::new(chore));
        self
    }

    /// Starts the loops. Each makes its first pass within a second, since a start often follows a
    /// crash, and at a random moment of it, so that the processes of a service spread out. Needs a
    /// tokio runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Runtime {
        let (stop, tracker) = (Stop::new(), TaskTracker::new());
        let start = |chore: Arc<dyn Chore>| {
            let watch = Arc::new(Watch::new(chore.name(), chore.interval()));
            let has_ended = Arc::new(AtomicBool::new(false));
            let running = go_round(Arc::clone(&chore), Arc::clone(&watch), stop.clone());
            let tells = TellsEnd(Arc::clone(&has_ended));
            let task = tracker.spawn(async move {
                let _tells = tells;
                running.await;
            });
            Running { chore, watch, task: task.abort_handle(), has_ended }
        };
        let loops = self.chores.into_iter().map(start).collect();
        Runtime { engine: self.engine, stop, loops, tracker }
    }
}

async fn go_round(chore: Arc<dyn Chore>, watch: Arc<Watch>, stop: Stop) {
    let mut pause = spread(chore.interval().min(FIRST_PASS_WITHIN));
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = sleep(pause) => {}
        }
        watch.begins();
        let result = pass(&chore, &stop).await;
        watch.ended(&result);
        let again_in = match result {
            Ok(pass) => pass.again_in,
            Err(error) => {
                tracing::warn!(chore = chore.name(), error = %error, "a pass failed");
                None
            }
        };
        pause = again_in.unwrap_or_else(|| spread(chore.interval())).max(SHORTEST_PAUSE);
    }
}

/// A task of its own, so that a panic ends the pass and not the loop; it ends with the loop.
async fn pass(chore: &Arc<dyn Chore>, stop: &Stop) -> Result<Pass, ChoreError> {
    let mut task = JoinSet::new();
    let (chore, stop) = (Arc::clone(chore), stop.clone());
    task.spawn(async move { chore.pass(&stop).await });
    match task.join_next().await {
        Some(Ok(result)) => result,
        _ => Err("it panicked".into()),
    }
}
