//! One call of an operation.

use std::fmt;

use crate::fingerprint::Fingerprints;
use crate::input::Input;
use crate::key::{Key, Scope};

/// Who calls, under which key, and with what.
#[derive(Clone)]
pub struct Call {
    pub(crate) scope: Scope,
    pub(crate) key: Key,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) input: Option<Input>,
}

impl Call {
    /// A call whose request is told from others under the same key by these fingerprints.
    pub fn new(scope: Scope, key: Key, fingerprints: impl Into<Fingerprints>) -> Self {
        Self { scope, key, fingerprints: fingerprints.into(), input: None }
    }

    /// Adds the input. It is stored where the operation keeps inputs, and the handler sees it;
    /// on a takeover the handler sees the stored one.
    #[must_use]
    pub fn with_input(mut self, input: Input) -> Self {
        self.input = Some(input);
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
