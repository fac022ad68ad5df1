//! One attempt, as its operation sees it.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::MAX_ATTEMPTS;

/// The request header that says which attempt this is, and of how many: `2;max=3`, an integer
/// with a parameter (RFC 9651).
pub const ATTEMPT_HEADER: HeaderName = HeaderName::from_static("retry-attempt");

/// One attempt of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) timeout: Duration,
    pub(crate) announced: Announced,
}

/// What the attempt header says: which attempt, of how many, of the outermost call that is
/// retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Of how many at most.
    pub max: u32,
}

impl Attempt {
    /// Which attempt of its own call this is, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is not the first.
    pub fn is_retry(&self) -> bool {
        self.number > 1
    }

    /// After which time it is dropped.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What the attempt header says. A nested call passes on that of the call around it.
    pub fn announced(&self) -> Announced {
        self.announced
    }

    /// Sets the attempt header, as [`Announced::announce`] does.
    pub fn announce(&self, headers: &mut HeaderMap) {
        self.announced.announce(headers);
    }
}

impl Announced {
    /// Reads the attempt header; `None` when there is none, more than one, or no sense in it.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(ATTEMPT_HEADER).iter();
        let value = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        let (attempt, max) = value.split_once(';')?;
        let max = max.trim_start_matches(' ').strip_prefix("max=")?;
        let (attempt, max) = (number(attempt)?, number(max)?);
        (attempt <= max).then_some(Self { attempt, max })
    }

    /// Whether the caller makes further attempts if this one fails.
    pub fn is_retried(&self) -> bool {
        self.max > 1
    }

    /// Sets the attempt header. It changes from one attempt to the next: a server must not count
    /// it as part of what is compared under a key.
    pub fn announce(&self, headers: &mut HeaderMap) {
        let value = HeaderValue::try_from(format!("{};max={}", self.attempt, self.max))
            .expect("digits and ASCII are a header value");
        headers.insert(ATTEMPT_HEADER, value);
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (1..=MAX_ATTEMPTS).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &'static str) -> Option<(u32, u32)> {
        let headers = [(ATTEMPT_HEADER, HeaderValue::from_static(value))].into_iter().collect();
        Announced::from_headers(&headers).map(|announced| (announced.attempt, announced.max))
    }

    #[test]
    fn what_is_written_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(Announced::from_headers(&headers), None);
        let announced = Announced { attempt: 2, max: 3 };
        let attempt = Attempt { number: 2, timeout: Duration::from_secs(1), announced };
        attempt.announce(&mut headers);
        assert_eq!(headers[ATTEMPT_HEADER], "2;max=3");
        assert_eq!(Announced::from_headers(&headers), Some(announced));
        headers.append(ATTEMPT_HEADER, HeaderValue::from_static("2;max=3"));
        assert_eq!(Announced::from_headers(&headers), None);
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        assert_eq!(read("1; max=3"), Some((1, 3)));
        for value in ["", "1", "1;max=", "0;max=3", "4;max=3", "+1;max=3", "1;max=101", "x;max=3"] {
            assert_eq!(read(value), None, "{value:?}");
        }
    }
}
