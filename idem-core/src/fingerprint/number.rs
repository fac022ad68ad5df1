//! A JSON number by its exact decimal value.

/// The canonical form of a number in JSON's grammar: sign, digits without zeros at either end,
/// `e`, exponent. `None` for an exponent that does not fit 64 bits. Nothing is ever expanded.
///
/// Minus zero keeps its sign: a handler that reads floating point can tell it from zero.
pub(super) fn canonical(number: &str) -> Option<String> {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(format!("{sign}0"));
    }
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let shift = i64::try_from(trailing).ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let exponent = parse_exponent(exponent)?.checked_add(shift)?;
    Some(format!("{sign}{significant}e{exponent}"))
}

/// An exponent with any number of leading zeros.
fn parse_exponent(exponent: &str) -> Option<i64> {
    let (negative, digits) = match exponent.as_bytes().first()? {
        b'-' => (true, &exponent[1..]),
        b'+' => (false, &exponent[1..]),
        _ => (false, exponent),
    };
    let digits = match digits.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let value: i64 = digits.parse().ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_agree() {
        for same in [
            &["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1.000e-000"][..],
            &["100", "1e2", "1.00e2", "0.01e4", "1000e-1"],
            &["-12.5", "-125e-1", "-1.25E1"],
            &["0", "0.0", "0e5", "0e999999999999999999999999"],
            &["-0", "-0.00", "-0e1"],
            &["1e999999999", "10e999999998", "0.1e1000000000"],
        ] {
            let first = canonical(same[0]).unwrap();
            for other in same {
                assert_eq!(canonical(other).unwrap(), first, "{other}");
            }
        }
    }

    #[test]
    fn different_values_differ() {
        let all = [
            "0",
            "-0",
            "1",
            "-1",
            "10",
            "0.1",
            "1e999999999",
            "1e-999999999",
            "9007199254740992",
            "9007199254740993",
            "0.1000000000000000055511151231257827",
            "18446744073709551615",
            "18446744073709551616",
            "1e308",
            "1e309",
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(canonical(one), canonical(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn exponents_that_do_not_fit_are_not_guessed() {
        assert_eq!(canonical("1e9223372036854775808"), None);
        assert_eq!(canonical("10e9223372036854775807"), None);
        assert_eq!(canonical(&format!("1e{}", "9".repeat(10_000))), None);
        let padded = format!("1e{}7", "0".repeat(10_000));
        assert_eq!(canonical(&padded).unwrap(), "1e7");
    }
}
