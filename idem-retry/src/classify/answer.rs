//! What an adapter says of an answer.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};

/// An answer, as far as it matters.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Answer<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) problem_type: Option<&'a str>,
    pub(super) is_fresh_connection: bool,
    /// When it came, for dates of a server that sends no `Date`.
    pub(super) now: SystemTime,
}

impl<'a> Answer<'a> {
    /// An answer that came now.
    pub fn new(status: StatusCode, headers: &'a HeaderMap, now: SystemTime) -> Self {
        Self { status, headers, problem_type: None, is_fresh_connection: false, now }
    }

    /// The `type` of its problem document, as [`problem_type`](super::problem_type) reads it.
    pub fn problem_type(mut self, uri: Option<&'a str>) -> Self {
        self.problem_type = uri;
        self
    }

    /// No other request went over the connection before: then a 408 means that the server did not
    /// get this one. On a used one it may have been meant for the idle connection.
    pub fn fresh_connection(mut self, is_fresh: bool) -> Self {
        self.is_fresh_connection = is_fresh;
        self
    }
}
