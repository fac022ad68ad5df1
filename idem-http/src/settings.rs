//! What a layer can be told, and what it does unless told otherwise.

use std::time::Duration;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderName};

use crate::header_filter::HeaderFilter;
use crate::key_header::KeySyntax;
use crate::mark::Disposition;
use crate::problem::DEFAULT_PROBLEM_BASE;
use crate::switch::Switch;

/// Where the key is read from unless another name is set.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// What marks a replay unless another name is set: Stripe's spelling, the most common one.
pub const REPLAYED_HEADER: HeaderName = HeaderName::from_static("idempotent-replayed");
/// How many more seconds a client may rely on a retry under its key.
pub const LIFETIME_HEADER: HeaderName = HeaderName::from_static("idempotency-key-lifetime");
/// `false` on an answer that is not stored, so that a retry may be answered differently.
pub const STORED_HEADER: HeaderName = HeaderName::from_static("idempotency-stored");

/// The largest request body unless another limit is set: 1 MiB.
pub const DEFAULT_MAX_BODY_BYTES: usize = 1024 * 1024;
/// How long a response's body is waited for unless told otherwise.
pub const DEFAULT_STREAM_AFTER: Duration = Duration::from_secs(10);
/// The longest Retry-After unless told otherwise.
pub const DEFAULT_RETRY_HINT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) methods: Vec<Method>,
    pub(crate) key_required: bool,
    pub(crate) key_syntax: KeySyntax,
    pub(crate) key_header: HeaderName,
    pub(crate) replayed_header: HeaderName,
    pub(crate) max_body_bytes: usize,
    pub(crate) fingerprint_headers: Vec<HeaderName>,
    pub(crate) stored_request_headers: Vec<HeaderName>,
    pub(crate) dropped_response_headers: Vec<HeaderName>,
    pub(crate) unmarked_server_errors: Disposition,
    pub(crate) stream_after: Duration,
    pub(crate) retry_hint: Duration,
    pub(crate) problem_base: String,
    pub(crate) switch: Switch,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            methods: vec![Method::POST, Method::PATCH],
            key_required: true,
            key_syntax: KeySyntax::BareOrQuoted,
            key_header: KEY_HEADER,
            replayed_header: REPLAYED_HEADER,
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            fingerprint_headers: Vec::new(),
            stored_request_headers: vec![CONTENT_TYPE],
            dropped_response_headers: Vec::new(),
            unmarked_server_errors: Disposition::Store,
            stream_after: DEFAULT_STREAM_AFTER,
            retry_hint: DEFAULT_RETRY_HINT,
            problem_base: DEFAULT_PROBLEM_BASE.to_owned(),
            switch: Switch::new(),
        }
    }
}

impl Settings {
    pub(crate) fn header_filter(&self) -> HeaderFilter {
        HeaderFilter::new(
            self.dropped_response_headers.iter().cloned(),
            [self.replayed_header.clone(), LIFETIME_HEADER, STORED_HEADER],
        )
    }
}
