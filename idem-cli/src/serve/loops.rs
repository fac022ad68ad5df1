//! The loops of a server.

use std::sync::Arc;

use idem_core::engine::Engine;
use idem_core::housekeeping::{Reconciler, Runtime, Sweeper};
use idem_core::store::Store;
use idem_core::telemetry::LapsedMeter;

use super::args::Args;

/// Starts the loops of this server.
pub(super) fn start(engine: &Engine, store: Arc<dyn Store>, args: &Args) -> Runtime {
    let mut runtime = Runtime::builder(engine);
    if let Some(interval) = args.reconcile_every.interval() {
        runtime = runtime.chore(Reconciler::new(engine.clone()).interval(interval));
    }
    runtime
        .chore(Sweeper::of(engine).interval(args.sweep_every))
        .chore(LapsedMeter::new(store))
        .start()
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

    fn names(every: &str) -> Vec<&'static str> {
        let args = ["serve", "--store", "memory:", "--ledger", "x", "--reconcile-every", every];
        let args = Command::try_parse_from(args).unwrap().serve;
        let store = MemoryStore::new();
        let engine = Engine::builder(store.clone()).namespace("test").unwrap().build().unwrap();
        let health = start(&engine, Arc::new(store), &args).health();
        health.loops.iter().map(|one| one.name).collect()
    }

    #[tokio::test]
    async fn a_server_may_leave_reconciling_to_others() {
        assert_eq!(names("1h"), ["reconciler", "sweeper", "lapsed-meter"]);
        assert_eq!(names("never"), ["sweeper", "lapsed-meter"]);
    }
}
