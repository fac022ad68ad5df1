//! `GET /metrics`: what happens, in the text format of Prometheus.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use idem_core::telemetry;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::task::JoinSet;

/// The version of the text format that scrapers ask for.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often values that nobody scrapes are folded into their buckets, so that they do not pile
/// up.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The recorder of this process, and what keeps it up to date. The loops end when it is dropped.
pub(super) struct Metrics {
    handle: PrometheusHandle,
    _loops: JoinSet<()>,
}

impl Metrics {
    /// Installs a recorder.
    pub(super) fn start() -> Self {
        let recorder = PrometheusBuilder::new()
            .set_buckets(telemetry::SECONDS_BUCKETS)
            .expect("there are buckets")
            .build_recorder();
        let handle = recorder.handle();
        // It fails only where a recorder is already set: in a test that set its own.
        let _ = metrics::set_global_recorder(recorder);
        telemetry::describe();
        let mut loops = JoinSet::new();
        let kept = handle.clone();
        loops.spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP_INTERVAL).await;
                kept.run_upkeep();
            }
        });
        Self { handle, _loops: loops }
    }

    /// What `GET /metrics` renders from.
    pub(super) fn page(&self) -> MetricsPage {
        MetricsPage(self.handle.clone())
    }
}

/// Renders the metrics of this process.
#[derive(Clone)]
pub(super) struct MetricsPage(PrometheusHandle);

impl MetricsPage {
    pub(super) fn render(&self) -> Response {
        ([(CONTENT_TYPE, TEXT_FORMAT)], self.0.render()).into_response()
    }
}
