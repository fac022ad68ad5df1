//! Everything that leaves through `tracing` and `metrics`, caught.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// One span or event, with the fields that were ever recorded on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// The name of a span, the level of an event.
    pub(crate) name: String,
    /// The span round it.
    pub(crate) parent: Option<String>,
    pub(crate) fields: Vec<(String, String)>,
    id: Option<u64>,
}

impl Trace {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().rev().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str())
    }
}

impl Visit for Trace {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name().to_owned(), value.to_owned()));
    }
}

/// Catches spans and events of every level on this thread.
#[derive(Clone, Default)]
pub(crate) struct Traces(Arc<Mutex<Vec<Trace>>>);

impl Traces {
    pub(crate) fn catch(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    pub(crate) fn all(&self) -> Vec<Trace> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<Trace> {
        self.all().into_iter().filter(|trace| trace.name == name).collect()
    }

    /// The events with this message.
    pub(crate) fn said(&self, message: &str) -> Vec<Trace> {
        self.all().into_iter().filter(|trace| trace.field("message") == Some(message)).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.all().iter().fold(String::new(), |mut text, trace| {
            writeln!(text, "{trace:?}").unwrap();
            text
        })
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| Some(span.parent()?.name().to_owned()));
        let name = attributes.metadata().name().to_owned();
        let mut trace = Trace { name, parent, id: Some(id.into_u64()), ..Trace::default() };
        attributes.record(&mut trace);
        self.0.lock().unwrap().push(trace);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut traces = self.0.lock().unwrap();
        // The latest one: ids are used again.
        let span = traces.iter_mut().rev().find(|trace| trace.id == Some(id.into_u64()));
        values.record(span.expect("a span that was opened"));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let parent = context.event_span(event).map(|span| span.name().to_owned());
        let name = event.metadata().level().to_string();
        let mut trace = Trace { name, parent, ..Trace::default() };
        event.record(&mut trace);
        self.0.lock().unwrap().push(trace);
    }
}

/// One time series, as it stood at the end.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) labels: Vec<(String, String)>,
    /// A counter's count, a gauge's value, or how many values a histogram has.
    pub(crate) value: f64,
}

/// What a recorder holds. It is emptied by this.
#[allow(clippy::cast_precision_loss)] // A test counts to a hundred.
pub(crate) fn series(recorder: &DebuggingRecorder) -> Vec<Series> {
    let snapshot = recorder.snapshotter().snapshot().into_vec();
    let series = snapshot.into_iter().map(|(key, _, _, value)| {
        let (kind, value) = match value {
            DebugValue::Counter(count) => ("counter", count as f64),
            DebugValue::Gauge(value) => ("gauge", value.into_inner()),
            DebugValue::Histogram(values) => ("histogram", values.len() as f64),
        };
        let labels = key.key().labels();
        let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        Series { name: key.key().name().to_owned(), kind, labels: labels.collect(), value }
    });
    series.collect()
}
