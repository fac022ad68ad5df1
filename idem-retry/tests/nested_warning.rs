//! A nested call is told to whoever reads the log. A process of its own, since other tests would
//! have the same event looked at by no subscriber.

use std::sync::{Arc, Mutex};

use idem_retry::random::Pinned;
use idem_retry::{Applied, Attempted, Budget, Class, Destination, Policy, Retry};
use tracing::field::{Field, Visit};
use tracing::span;

fn fails(_: Attempted<'_, (), ()>) -> Class {
    Class::transient(Applied::No)
}

#[test]
fn a_warning_names_the_destination() {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Warnings(warnings.clone()), || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let retry = Retry::new(Policy::default()).random(Pinned(0));
            let to = |name| Destination::separate(name, Budget::default());
            let (outer, inner) = (to("outer"), to("inner"));
            for _ in 0..3 {
                let outcome = retry.call(&outer, fails, |_| async {
                    let op = |_| std::future::ready(Err(()));
                    let nested = retry.call(&inner, fails, op).await;
                    nested.into_answer().map_err(drop)
                });
                assert_eq!(outcome.await.attempts(), 3);
            }
            assert_eq!(inner.stats().nested, 9);
        });
    });
    // The first, second, fourth and eighth.
    let expected = [1, 2, 4, 8].map(|nested| ("inner".to_owned(), nested));
    assert_eq!(*warnings.lock().unwrap(), expected);
}

/// Keeps the destination and the count of each warning.
struct Warnings(Arc<Mutex<Vec<(String, u64)>>>);

#[derive(Default)]
struct Warning(String, u64);

impl Visit for Warning {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, _: &Field, value: &str) {
        self.0 = value.to_owned();
    }

    fn record_u64(&mut self, _: &Field, value: u64) {
        self.1 = value;
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("idem_retry")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut warning = Warning::default();
        event.record(&mut warning);
        self.0.lock().unwrap().push((warning.0, warning.1));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
