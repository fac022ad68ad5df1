//! The page on observability and the code say the same.

use idem_core::telemetry::{LABEL_VALUES, METRICS};

const PAGE: &str = include_str!("../../../docs/observability.md");

/// The rows of the table below this heading, their cells without back quotes.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, after) = PAGE.split_once(&format!("\n## {heading}\n")).expect(heading);
    let lines = after.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect()
}

#[test]
fn the_table_of_metrics_is_that_of_the_code() {
    let coded: Vec<Vec<String>> = METRICS
        .iter()
        .map(|metric| {
            let labels = metric.labels.join(", ");
            let unit = metric.unit.as_str().to_owned();
            let kind = metric.kind.to_string();
            vec![metric.name.into(), kind, unit, labels, metric.meaning.into()]
        })
        .collect();
    let page = table("Metrics");
    for (row, coded) in coded.iter().enumerate() {
        assert_eq!(page.get(row), Some(coded));
    }
    assert_eq!(page.len(), coded.len());
}

#[test]
fn the_table_of_labels_is_that_of_the_code() {
    let coded: Vec<(String, String)> = LABEL_VALUES
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(label, values)| ((*label).to_owned(), values.join(", ")))
        .collect();
    let page = table("Labels").into_iter();
    let page: Vec<_> = page.map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(page[1..], coded);
    assert_eq!(page[0].0, "operation");
}

#[test]
fn names_are_as_exporters_want_them() {
    for metric in METRICS {
        let name = metric.name;
        let clean = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(clean && name.starts_with("idem_"), "{name}");
        let counter = metric.kind.to_string() == "counter";
        assert_eq!(name.ends_with("_total"), counter, "{name}");
        let seconds = metric.unit == metrics::Unit::Seconds;
        assert_eq!(name.ends_with("_seconds"), seconds, "{name}");
    }
}
