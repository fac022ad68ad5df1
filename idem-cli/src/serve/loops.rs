//! The loops of a server, and how they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::engine::Engine;
use idem_core::housekeeping::{
    Chore, ChoreError, Health, Pass, Reconciler, Runtime, Stop, Stopped, Sweeper,
};
use idem_core::store::Store;
use idem_core::telemetry::LapsedMeter;

use super::args::Args;

/// When the first look for what a dead server left behind comes at the latest: a start often
/// follows a crash.
const FIRST_PASS_WITHIN: Duration = Duration::from_secs(1);

/// The loops of this server.
pub(super) struct Loops {
    runtime: Runtime,
    /// By their names.
    intervals: Vec<(&'static str, Duration)>,
}

impl Loops {
    /// Starts them.
    pub(super) fn start(engine: &Engine, store: Arc<dyn Store>, args: &Args) -> Self {
        let mut intervals = Vec::new();
        let mut prompt = |chore: Box<dyn Chore>| {
            intervals.push((chore.name(), chore.interval()));
            Prompt { chore, has_begun: AtomicBool::new(false) }
        };
        let mut runtime = Runtime::builder(engine);
        if let Some(interval) = args.reconcile_every.interval() {
            let reconciler = Reconciler::new(engine.clone()).interval(interval);
            runtime = runtime.chore(prompt(Box::new(reconciler)));
        }
        runtime = runtime
            .chore(Sweeper::of(engine).interval(args.sweep_every))
            .chore(prompt(Box::new(LapsedMeter::new(store))));
        Self { runtime: runtime.start(), intervals }
    }

    /// How they are.
    pub(super) fn health(&self) -> Health {
        let mut health = self.runtime.health();
        for one in &mut health.loops {
            // The runtime saw the pause before the first pass only; what is late depends on it.
            if let Some((_, interval)) = self.intervals.iter().find(|(name, _)| *name == one.name) {
                one.interval = *interval;
            }
        }
        health
    }

    /// As [`Runtime::wind_down`].
    pub(super) fn wind_down(&self) {
        self.runtime.wind_down();
    }

    /// As [`Runtime::stop`].
    ///
    /// # Cancel safety
    /// As there.
    pub(super) async fn stop(&self, limit: Duration) -> Stopped {
        self.runtime.stop(limit).await
    }
}

/// A chore whose first pass does not wait for the interval. The runtime waits a random part of
/// what it is told, so servers that start together spread out all the same.
struct Prompt {
    chore: Box<dyn Chore>,
    has_begun: AtomicBool,
}

#[async_trait]
impl Chore for Prompt {
    fn name(&self) -> &'static str {
        self.chore.name()
    }

    fn interval(&self) -> Duration {
        let interval = self.chore.interval();
        match self.has_begun.load(Ordering::Relaxed) {
            true => interval,
            false => interval.min(FIRST_PASS_WITHIN),
        }
    }

    async fn pass(&self, stop: &Stop) -> Result<Pass, ChoreError> {
        let is_first = !self.has_begun.swap(true, Ordering::Relaxed);
        let pass = self.chore.pass(stop).await?;
        // What the first pass took up goes on after it. The second tells what came of it.
        Ok(if is_first { pass.again_in(FIRST_PASS_WITHIN) } else { pass })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use idem_core::memory::MemoryStore;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        serve: Args,
    }

    fn loops(every: &str) -> Loops {
        let args = ["serve", "--store", "memory:", "--ledger", "x", "--reconcile-every", every];
        let args = Command::try_parse_from(args).unwrap().serve;
        let store = MemoryStore::new();
        let engine = Engine::builder(store.clone()).namespace("test").unwrap().build().unwrap();
        Loops::start(&engine, Arc::new(store), &args)
    }

    #[tokio::test]
    async fn the_first_pass_is_prompt_and_the_next_one_waits_the_interval() {
        struct Chores;
        #[async_trait]
        impl Chore for Chores {
            fn name(&self) -> &'static str {
                "chores"
            }
            fn interval(&self) -> Duration {
                Duration::from_secs(3_600)
            }
            async fn pass(&self, _: &Stop) -> Result<Pass, ChoreError> {
                Err("no luck".into())
            }
        }
        let prompt = Prompt { chore: Box::new(Chores), has_begun: AtomicBool::new(false) };
        assert_eq!(prompt.interval(), FIRST_PASS_WITHIN);
        assert!(prompt.pass(&Stop::new()).await.is_err());
        assert_eq!(prompt.interval(), Duration::from_secs(3_600));
    }

    #[tokio::test]
    async fn what_is_late_is_judged_by_the_interval_that_was_asked_for() {
        let health = loops("1h").health();
        assert_eq!(health.of("reconciler").unwrap().interval, Duration::from_secs(3_600));
        assert_eq!(health.of("sweeper").unwrap().interval, Duration::from_secs(60));
    }

    #[tokio::test]
    async fn a_server_may_leave_it_to_others() {
        let names: Vec<_> = loops("never").health().loops.iter().map(|one| one.name).collect();
        assert_eq!(names, ["sweeper", "lapsed-meter"]);
    }
}
