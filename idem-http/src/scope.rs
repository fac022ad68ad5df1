//! Whose key it is: extractors of the scope (R4).
//!
//! There is no default. A layer takes any function from a request's head to a [`Scope`]; these are
//! the usual ones.
//!
//! | extractor | two callers are told apart by |
//! |---|---|
//! | [`extension`] | what an authentication layer outside found out. The best one: a rotated token is still the same caller |
//! | [`hashed_header`] | the bytes of one header, such as `Authorization`. A new token is a new caller, so a retry under it runs again |
//! | [`constant`] | nothing: for a service that has one caller |

use std::borrow::Cow;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use idem_core::key::{NameError, Scope};
use sha2::{Digest, Sha256};

use crate::problem::{Code, Problem};

/// The stored scope depends on it: it never changes.
const HASH_DOMAIN: &[u8] = b"idem http scope 1";

/// All requests have this scope.
pub fn constant(scope: Scope) -> impl Fn(&Parts) -> Result<Scope, ScopeError> + Clone {
    move |_| Ok(scope.clone())
}

/// The scope is made from a `T` that a layer outside put into the request's extensions.
///
/// ```
/// use http::Request;
/// use idem_core::key::Scope;
/// use idem_http::scope::{self, ScopeError};
///
/// #[derive(Clone)]
/// struct Account(String);
///
/// let of = scope::extension(|account: &Account| Scope::new(&account.0));
/// let request = Request::builder().extension(Account("acct_1".into())).body(()).unwrap();
/// assert_eq!(of(&request.into_parts().0).unwrap().as_str(), "acct_1");
/// assert!(of(&Request::new(()).into_parts().0).is_err());
/// ```
pub fn extension<T, F>(scope_of: F) -> impl Fn(&Parts) -> Result<Scope, ScopeError> + Clone
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&T) -> Result<Scope, NameError> + Clone,
{
    move |parts| {
        let found = parts.extensions.get::<T>().ok_or_else(ScopeError::missing)?;
        Ok(scope_of(found)?)
    }
}

/// The scope is a SHA-256 of this header's value, so that a token does not stand in the store.
///
/// The header must be there once and must not be empty. The hash has no secret: use it for values
/// that cannot be guessed, not for a user name.
pub fn hashed_header(name: HeaderName) -> impl Fn(&Parts) -> Result<Scope, ScopeError> + Clone {
    move |parts| {
        let mut values = parts.headers.get_all(&name).iter();
        let value = values.next().ok_or_else(ScopeError::missing)?;
        if values.next().is_some() {
            return Err(ScopeError::invalid("The header that names the caller was sent twice."));
        }
        if value.is_empty() {
            return Err(ScopeError::missing());
        }
        Ok(hashed(name.as_str().as_bytes(), value.as_bytes()))
    }
}

fn hashed(name: &[u8], value: &[u8]) -> Scope {
    let mut hash = Sha256::new();
    for part in [HASH_DOMAIN, name, value] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut scope = String::from("sha256:");
    for byte in hash.finalize() {
        scope.push_str(&format!("{byte:02x}"));
    }
    Scope::new(scope).expect("71 bytes of ASCII are a scope")
}

/// Why a request has no scope. Nothing is claimed then, and the handler does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeError {
    code: Code,
    status: StatusCode,
    detail: Cow<'static, str>,
    challenge: Option<HeaderValue>,
}

impl ScopeError {
    /// The request does not say whose it is: 401, with the challenge `Bearer` unless another is
    /// set.
    pub fn missing() -> Self {
        Self {
            code: Code::ScopeMissing,
            status: StatusCode::UNAUTHORIZED,
            detail: Code::ScopeMissing.detail().into(),
            challenge: Some(HeaderValue::from_static("Bearer")),
        }
    }

    /// The request says whose it is in a way that cannot be used: 400.
    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: Code::ScopeInvalid,
            status: StatusCode::BAD_REQUEST,
            detail: detail.into(),
            challenge: None,
        }
    }

    /// Answers with another status, such as 403.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets the challenge of a 401 (RFC 9110, section 11.6.1).
    #[must_use]
    pub fn with_challenge(mut self, challenge: HeaderValue) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub(crate) fn into_problem(self) -> Problem {
        let problem = Problem::new(self.code).status(self.status).detail(self.detail);
        match self.challenge {
            Some(challenge) if self.status == StatusCode::UNAUTHORIZED => {
                problem.challenge(challenge)
            }
            _ => problem,
        }
    }
}

impl From<NameError> for ScopeError {
    /// A scope that is empty, too long or not UTF-8 is invalid.
    fn from(error: NameError) -> Self {
        // It says which limit was passed, and nothing of the text.
        Self::invalid(format!("The {error}."))
    }
}

impl std::fmt::Display for ScopeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for ScopeError {}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::AUTHORIZATION;

    use super::*;

    fn parts(values: &[&[u8]]) -> Parts {
        let mut request = Request::new(());
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append(AUTHORIZATION, value);
        }
        request.into_parts().0
    }

    #[test]
    fn a_hashed_header_is_a_stored_contract() {
        let of = hashed_header(AUTHORIZATION);
        let scope = of(&parts(&[b"Bearer sk_test_1"])).unwrap();
        assert_eq!(
            scope.as_str(),
            "sha256:50af70c9130d92ab58ef7ea37bba78dd7650a771c98e03116c27e5e6b286fe3e"
        );
    }

    #[test]
    fn a_hashed_header_tells_callers_apart_and_hides_the_token() {
        let of = hashed_header(AUTHORIZATION);
        let (one, two) = (of(&parts(&[b"Bearer a"])).unwrap(), of(&parts(&[b"Bearer b"])).unwrap());
        assert_ne!(one, two);
        assert!(!one.as_str().contains("Bearer"));
        assert_ne!(hashed(b"a", b"bc"), hashed(b"ab", b"c"), "the boundary counts");
        assert!(of(&parts(&[b"caf\xe9"])).is_ok(), "any bytes that a header can hold");
    }

    #[test]
    fn a_header_that_is_absent_empty_or_repeated_is_no_scope() {
        let of = hashed_header(AUTHORIZATION);
        assert_eq!(of(&parts(&[])), Err(ScopeError::missing()));
        assert_eq!(of(&parts(&[b""])), Err(ScopeError::missing()));
        assert_eq!(of(&parts(&[b"a", b"b"])).unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_scope_that_is_too_long_or_not_text_is_a_400_that_does_not_show_it() {
        for error in [
            ScopeError::from(Scope::new("hunter2".repeat(40)).unwrap_err()),
            ScopeError::from(Scope::from_bytes(b"hunter2\xff").unwrap_err()),
            ScopeError::from(Scope::new("").unwrap_err()),
        ] {
            assert_eq!(error.status, StatusCode::BAD_REQUEST);
            assert_eq!(error.code, Code::ScopeInvalid);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
