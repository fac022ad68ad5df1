//! One call of an operation.

use std::fmt;

use crate::fingerprint::Fingerprints;
use crate::input::Input;
use crate::key::{Key, Scope};
use crate::reply::Reply;

/// Who calls, under which key, and with what.
#[derive(Clone)]
pub struct Call {
    pub(crate) scope: Scope,
    pub(crate) key: Key,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) input: Option<Input>,
    pub(crate) server_error: Option<Reply>,
}

impl Call {
    /// A call whose request is told from others under the same key by these fingerprints.
    pub fn new(scope: Scope, key: Key, fingerprints: impl Into<Fingerprints>) -> Self {
        Self { scope, key, fingerprints: fingerprints.into(), input: None, server_error: None }
    }

    /// Adds the input. It is stored where the operation keeps inputs, and the handler sees it;
    /// on a takeover the handler sees the stored one.
    #[must_use]
    pub fn with_input(mut self, input: Input) -> Self {
        self.input = Some(input);
        self
    }

    /// Sets what is stored as the reply where the operation wants that of an unknown outcome
    /// ([`OnUnknown::StoreServerError`](crate::operation::OnUnknown)), in place of the engine's
    /// ([`server_error`](crate::engine::EngineBuilder::server_error)).
    #[must_use]
    pub fn with_server_error(mut self, reply: Reply) -> Self {
        self.server_error = Some(reply);
        self
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("scope", &self.scope)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
