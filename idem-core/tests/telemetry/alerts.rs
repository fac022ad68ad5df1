//! Each alert names metrics that exist, and is explained on the page.

use idem_core::telemetry::METRICS;

const RULES: &str = include_str!("../../../docs/alerts.yml");
const PAGE: &str = include_str!("../../../docs/observability.md");

struct Alert<'a> {
    name: &'a str,
    expr: &'a str,
}

/// The rules, of which each line is `key: value`.
fn alerts() -> Vec<Alert<'static>> {
    let rules = RULES.split("- alert: ").skip(1);
    rules
        .map(|rule| {
            let name = rule.lines().next().unwrap().trim();
            let line = |key: &str| {
                let found = rule.lines().find_map(|line| line.trim().strip_prefix(key));
                found.unwrap_or_else(|| panic!("{name} has no {key}")).trim()
            };
            for key in ["for:", "severity:", "summary:", "description:"] {
                assert!(!line(key).is_empty(), "{name} {key}");
            }
            Alert { name, expr: line("expr:") }
        })
        .collect()
}

/// The metrics that an expression names: histograms by one of their series.
fn metrics_of(expr: &str) -> Vec<&str> {
    let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("idem_")).collect()
}

#[test]
fn each_alert_names_only_metrics_that_exist() {
    let alerts = alerts();
    assert!(alerts.len() >= 5);
    for alert in &alerts {
        let named = metrics_of(alert.expr);
        assert!(!named.is_empty(), "{}: {}", alert.name, alert.expr);
        for name in named {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|series| name.strip_suffix(series))
                .unwrap_or(name);
            let exists = METRICS.iter().any(|metric| metric.name == base);
            assert!(exists, "{} names {name}", alert.name);
        }
    }
}

#[test]
fn each_alert_is_explained_and_none_is_explained_that_is_not_there() {
    let (_, after) = PAGE.split_once("\n## Alerts\n").unwrap();
    let explained: Vec<&str> = after.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let ruled: Vec<&str> = alerts().iter().map(|alert| alert.name).collect();
    assert_eq!(explained, ruled);
}

#[test]
fn what_must_be_watched_is_watched() {
    let watched: Vec<&str> = alerts().iter().flat_map(|alert| metrics_of(alert.expr)).collect();
    for name in [
        idem_core::telemetry::LAPSED_RECORDS,
        idem_core::telemetry::TAKEOVERS,
        idem_core::telemetry::FENCES_LOST,
        idem_core::telemetry::OUTBOX_OLDEST,
        idem_core::telemetry::OUTBOX_DEAD,
        idem_core::telemetry::SWEEPER_LAST_CLEAN,
    ] {
        assert!(watched.contains(&name), "{name}");
    }
}
