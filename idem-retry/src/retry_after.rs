//! When the server says to come back (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::http_date;

/// The longest hint that is told apart: longer ones count as this, 100 years of 365 days.
pub const MAX_HINT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long the answer says to wait; `None` when it does not say, or says nothing that makes
/// sense.
///
/// Whole seconds, or a date in one of the three forms of HTTP. A date is compared with the
/// answer's own `Date`, so that the clocks of client and server need not agree, and with `now`
/// where there is none. A past date is zero; digits without end are [`MAX_HINT`]. Signs,
/// fractions, and two header lines make no sense.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
///
/// let mut headers = HeaderMap::new();
/// headers.insert(DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
/// headers.insert(RETRY_AFTER, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:40 GMT"));
/// let hint = idem_retry::retry_after(&headers, SystemTime::now());
/// assert_eq!(hint, Some(Duration::from_secs(3)));
/// ```
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = only(headers, &RETRY_AFTER)?.trim_matches([' ', '\t']);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only too many digits cannot be read.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_HINT));
    }
    let sent = only(headers, &DATE).and_then(|date| http_date::parse(date, now)).unwrap_or(now);
    let until = http_date::parse(value, sent)?;
    Some(until.duration_since(sent).unwrap_or_default().min(MAX_HINT))
}

/// The value of a header that is there once.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::{HeaderName, HeaderValue};

    use super::*;

    fn hint(lines: &[(HeaderName, &'static str)]) -> Option<u64> {
        let lines = lines.iter().map(|(name, text)| (name.clone(), HeaderValue::from_static(text)));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| {
            headers.append(name, value);
        });
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        retry_after(&headers, now).map(|hint| hint.as_secs())
    }

    #[test]
    fn seconds_are_digits_and_nothing_else() {
        let longest = MAX_HINT.as_secs();
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7\t", Some(7)),
            ("007", Some(7)),
            ("18446744073709551615", Some(longest)),
            ("99999999999999999999999999999999", Some(longest)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("0x10", None),
            ("1 s", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(hint(&[(RETRY_AFTER, text)]), expected, "{text:?}");
        }
    }

    #[test]
    fn two_lines_are_none() {
        assert_eq!(hint(&[(RETRY_AFTER, "1"), (RETRY_AFTER, "1")]), None);
    }

    #[test]
    fn a_date_is_compared_with_that_of_the_answer() {
        let until = (RETRY_AFTER, "Sun, 06 Nov 1994 08:50:37 GMT");
        assert_eq!(hint(std::slice::from_ref(&until)), Some(60));
        // A server whose clock is an hour ahead means the same span.
        let ahead = (DATE, "Sun, 06 Nov 1994 09:49:37 GMT");
        let hour_later = (RETRY_AFTER, "Sun, 06 Nov 1994 09:49:47 GMT");
        assert_eq!(hint(&[hour_later, ahead.clone()]), Some(10));
        // What is past is now.
        assert_eq!(hint(&[until.clone(), ahead]), Some(0));
        // A date that cannot be read, or is there twice, is none.
        assert_eq!(hint(&[until.clone(), (DATE, "yesterday")]), Some(60));
        let date = (DATE, "Sun, 06 Nov 1994 08:50:36 GMT");
        assert_eq!(hint(&[until.clone(), date.clone(), date]), Some(60));
    }
}
