//! `GET /metrics`: what a scraper reads.

use idem_cli::wire::Request;

use crate::support::payments::{Bench, TOKEN, answer, charge};

#[test]
fn a_scraper_reads_what_happened_and_no_key_or_token() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let request = charge("key-hunter2", 1999);
    assert_eq!(answer(server.address, &request).status, 201);
    assert_eq!(answer(server.address, &request).status, 201);
    let scraped = answer(server.address, &Request::get("/metrics"));
    assert_eq!(scraped.status, 200);
    let format = scraped.text("content-type").unwrap();
    assert!(format.starts_with("text/plain; version=0.0.4"), "{format}");
    let text = String::from_utf8(scraped.body.to_vec()).unwrap();
    for line in [
        "# TYPE idem_calls_total counter",
        "idem_calls_total{operation=\"charges.create\",outcome=\"executed\"} 1",
        "idem_calls_total{operation=\"charges.create\",outcome=\"replayed\"} 1",
        "idem_executions_in_flight{operation=\"charges.create\"} 0",
        "# TYPE idem_handler_duration_seconds histogram",
        "idem_handler_duration_seconds_count{operation=\"charges.create\",end=\"answered\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
    }
    assert!(text.contains("idem_handler_duration_seconds_bucket"), "{text}");
    assert!(text.contains("# HELP idem_calls_total Calls that were answered"), "{text}");
    for secret in ["hunter2", TOKEN] {
        assert!(!text.contains(secret), "{text}");
    }
}
