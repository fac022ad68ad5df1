//! Durations as a person reads them.

use std::time::Duration;

/// The two largest units that are not zero, rounded down: `3d 4h`, `12m 5s`, `1.250s`, `8ms`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / 86_400, seconds % 86_400 / 3_600);
    let (minutes, rest) = (seconds % 3_600 / 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds == 0 => format!("{}ms", duration.as_millis()),
        (0, 0, 0) => format!("{rest}.{:03}s", duration.subsec_millis()),
        (0, 0, _) => format!("{minutes}m {rest}s"),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_largest_units_are_shown() {
        for (millis, shown) in [
            (0, "0ms"),
            (8, "8ms"),
            (1_250, "1.250s"),
            (60_000, "1m 0s"),
            (3_599_999, "59m 59s"),
            (3_600_000, "1h 0m"),
            (86_400_000 * 3 + 3_600_000 * 4, "3d 4h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), shown);
        }
    }
}
