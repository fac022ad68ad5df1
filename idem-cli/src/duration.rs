//! Durations on the command line: a whole number and a unit, such as `500ms`, `2s` or `24h`.

use std::time::Duration;

/// Reads a duration: a whole number, directly followed by `ms`, `s`, `m`, `h` or `d`.
///
/// Zero is a duration; whether it makes sense is for the option to say. There is no default
/// unit and there are no fractions, so that `1500` or `1.5` is never guessed at.
///
/// ```
/// use std::time::Duration;
/// use idem_cli::duration;
///
/// assert_eq!(duration::parse("500ms")?, Duration::from_millis(500));
/// assert_eq!(duration::parse("24h")?, Duration::from_secs(24 * 60 * 60));
/// assert!(duration::parse("24").is_err());
/// # Ok::<(), duration::DurationError>(())
/// ```
///
/// # Errors
/// [`DurationError`] says which part is missing or wrong.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::NoNumber);
    }
    let milliseconds_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60 * 1_000,
        "h" => 60 * 60 * 1_000,
        "d" => 24 * 60 * 60 * 1_000,
        "" => return Err(DurationError::NoUnit),
        other => return Err(DurationError::UnknownUnit(other.into())),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(milliseconds_per_unit))
        .map(Duration::from_millis)
        .ok_or(DurationError::TooLong)
}

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// It does not begin with a digit.
    #[error("a duration begins with a whole number, as in 500ms or 2s")]
    NoNumber,
    /// The number stands alone.
    #[error("a duration needs a unit: ms, s, m, h or d")]
    NoUnit,
    /// What follows the number is not a unit.
    #[error("{0:?} is not a unit of time; use ms, s, m, h or d, and whole numbers")]
    UnknownUnit(String),
    /// It does not fit into 64 bits of milliseconds.
    #[error("the duration is too long")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("1ms", 1),
            ("500ms", 500),
            ("2s", 2_000),
            ("007s", 7_000),
            ("1m", 60_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn every_fault_has_its_own_error() {
        let unknown = |unit: &str| DurationError::UnknownUnit(unit.into());
        for (text, error) in [
            ("", DurationError::NoNumber),
            ("s", DurationError::NoNumber),
            ("-1s", DurationError::NoNumber),
            ("+1s", DurationError::NoNumber),
            (" 1s", DurationError::NoNumber),
            ("٣s", DurationError::NoNumber),
            ("5", DurationError::NoUnit),
            ("1.5s", unknown(".5s")),
            ("1 s", unknown(" s")),
            ("1S", unknown("S")),
            ("1s ", unknown("s ")),
            ("1h30m", unknown("h30m")),
            ("1µs", unknown("µs")),
            ("18446744073709551616ms", DurationError::TooLong),
            ("18446744073709552s", DurationError::TooLong),
            ("99999999999999999999999d", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }
}
