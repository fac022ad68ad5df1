//! Durations as documents write them.

use std::time::Duration;

/// A duration as ISO 8601 has it, in hours, minutes and whole seconds, rounded down: `PT23H45M`.
/// There are no days in it, since a day is not always 24 hours.
///
/// ```
/// use std::time::Duration;
/// use idem_http::openapi::iso8601;
///
/// assert_eq!(iso8601(Duration::from_secs(24 * 60 * 60)), "PT24H");
/// assert_eq!(iso8601(Duration::from_secs(90)), "PT1M30S");
/// assert_eq!(iso8601(Duration::ZERO), "PT0S");
/// ```
pub fn iso8601(duration: Duration) -> String {
    let all = duration.as_secs();
    let parts = [(all / 3600, 'H'), (all / 60 % 60, 'M'), (all % 60, 'S')];
    let mut text = String::from("PT");
    for (number, unit) in parts {
        if number > 0 || (all == 0 && unit == 'S') {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_that_is_there_is_written() {
        for (seconds, text) in
            [(0, "PT0S"), (1, "PT1S"), (60, "PT1M"), (3_601, "PT1H1S"), (86_399, "PT23H59M59S")]
        {
            assert_eq!(iso8601(Duration::from_secs(seconds)), text);
        }
        assert_eq!(iso8601(Duration::from_millis(1_999)), "PT1S");
    }
}
