//! Sizes on the command line: bytes, or binary multiples such as `64KiB`.

/// Reads a size in bytes: a whole number, alone or directly followed by `B`, `KiB`, `MiB` or
/// `GiB` (1,024, 1,024² and 1,024³ bytes).
///
/// `KB` and `K` mean 1,000 to some and 1,024 to others, so they are refused.
///
/// ```
/// use idem_cli::size;
///
/// assert_eq!(size::parse("64KiB")?, 65_536);
/// assert_eq!(size::parse("512")?, 512);
/// assert!(size::parse("64KB").is_err());
/// # Ok::<(), size::SizeError>(())
/// ```
///
/// # Errors
/// [`SizeError`] says which part is missing or wrong.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(SizeError::NoNumber);
    }
    let bytes_per_unit = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => return Err(SizeError::UnknownUnit(other.into())),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(bytes_per_unit))
        .ok_or(SizeError::TooLarge)
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// It does not begin with a digit.
    #[error("a size begins with a whole number, as in 512 or 64KiB")]
    NoNumber,
    /// What follows the number is not a unit.
    #[error("{0:?} is not a unit of size; use B, KiB, MiB or GiB, and whole numbers")]
    UnknownUnit(String),
    /// It does not fit into 64 bits.
    #[error("the size is too large")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1KiB", 1_024),
            ("64KiB", 65_536),
            ("1MiB", 1_048_576),
            ("2GiB", 2_147_483_648),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn every_fault_has_its_own_error() {
        let unknown = |unit: &str| SizeError::UnknownUnit(unit.into());
        for (text, error) in [
            ("", SizeError::NoNumber),
            ("KiB", SizeError::NoNumber),
            ("-1", SizeError::NoNumber),
            (" 1", SizeError::NoNumber),
            ("1 KiB", unknown(" KiB")),
            ("1.5MiB", unknown(".5MiB")),
            ("64KB", unknown("KB")),
            ("64k", unknown("k")),
            ("64kib", unknown("kib")),
            ("18446744073709551616", SizeError::TooLarge),
            ("18446744073709551615KiB", SizeError::TooLarge),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }
}
