//! Who calls: the token of the request, of which only a hash is ever kept.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use idem_core::key::Scope;
use sha2::{Digest as _, Sha256};

/// Separates this hash from any other hash of the same token.
const DOMAIN: &[u8] = b"idem payments caller v1\0";

/// A caller, told apart by the SHA-256 of its token. It is the scope of its keys, and its name at
/// the card network.
///
/// A token is long and random, so its hash cannot be turned back by guessing; a password could.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller(String);

impl Caller {
    /// Reads `Authorization: Bearer TOKEN`, or `Basic` with the token as the user's name, as
    /// some payment SDKs send it. Both name the same caller. The password is not looked at.
    ///
    /// `None` when there is no such header, more than one, or no token in it.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
        let at = value.iter().position(|&byte| byte == b' ')?;
        let (scheme, credentials) = (&value[..at], value[at..].trim_ascii());
        if scheme.eq_ignore_ascii_case(b"bearer") {
            Self::with_token(credentials)
        } else if scheme.eq_ignore_ascii_case(b"basic") {
            let decoded = base64(credentials)?;
            Self::with_token(decoded.split(|&byte| byte == b':').next()?)
        } else {
            None
        }
    }

    /// The caller with this token, which may be any bytes but none.
    pub fn with_token(token: &[u8]) -> Option<Self> {
        if token.is_empty() {
            return None;
        }
        let hash = Sha256::new().chain_update(DOMAIN).chain_update(token).finalize();
        Some(Self(format!("tok_{hash:x}")))
    }

    /// Its name: `tok_` and 64 hexadecimal digits.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The scope of its keys.
    pub fn scope(&self) -> Scope {
        Scope::new(&self.0).expect("a name of 68 bytes")
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({}…)", &self.0[..12])
    }
}

/// Decodes base64 of the standard alphabet, padded or not (RFC 4648, section 4).
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0_u32;
        for position in 0..4 {
            let value = group.get(position).map_or(Some(0), |&digit| base64_digit(digit))?;
            bits = bits << 6 | value;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

fn base64_digit(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn caller(values: &[&[u8]]) -> Option<Caller> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        Caller::of(&headers)
    }

    #[test]
    fn bearer_and_basic_name_the_same_caller() {
        let bearer = caller(&[b"Bearer sk_test_1"]).unwrap();
        for value in [
            &b"bearer   sk_test_1"[..],
            b"Basic c2tfdGVzdF8xOg==",
            b"BASIC c2tfdGVzdF8x",
            b"Basic c2tfdGVzdF8xOnBhc3N3b3Jk",
        ] {
            assert_eq!(caller(&[value]).as_ref(), Some(&bearer));
        }
        assert_ne!(caller(&[b"Bearer sk_test_2"]).unwrap(), bearer);
        assert_ne!(caller(&[b"Bearer SK_TEST_1"]).unwrap(), bearer);
        assert!(caller(&[b"Bearer caf\xe9"]).is_some());
    }

    #[test]
    fn anything_else_names_nobody() {
        for values in [
            &[][..],
            &[&b"Bearer"[..]],
            &[b"Bearer "],
            &[b"sk_test_1"],
            &[b"Basic Og=="],
            &[b"Basic !!!!"],
            &[b"Basic c2tfdGVzdF8xOg="],
            &[b"Digest username=x"],
            &[b"Bearer sk_test_1", b"Bearer sk_test_1"],
        ] {
            assert_eq!(caller(values), None, "{values:?}");
        }
    }

    #[test]
    fn the_token_cannot_be_read_from_the_name() {
        let caller = Caller::with_token(b"sk_test_1").unwrap();
        assert_eq!(caller.name().len(), 68);
        assert_eq!(caller.scope().as_str(), caller.name());
        let shown = format!("{caller:?} {}", caller.name());
        assert!(!shown.contains("sk_test"), "{shown}");
    }

    #[test]
    fn base64_is_read_in_every_length() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg", b"foob"),
            ("Zm9vYmE", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", b"\xfb\xff\xbf"),
        ] {
            assert_eq!(base64(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zm9vY", "====", "Zg=", "Zg===", "Z=g=", "Zm 9v", "Zm9v\n", "-_-_"] {
            assert_eq!(base64(text.as_bytes()), None, "{text}");
        }
    }
}
