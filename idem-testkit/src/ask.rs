//! A claim as a case words it: owned, with everything set to something sensible.

use std::time::Duration;

use idem_core::claim::{Claim, Takeover};
use idem_core::codec::Sealed;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{OperationName, Owner, Recovery, Retention};
use idem_core::time::MAX_DURATION;

use crate::owned::OwnedClaim;

/// A lease that no slowness of a test can outlast.
pub(crate) const LONG: Duration = Duration::from_secs(60 * 60);

/// A retention that no slowness of a test can outlast.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes over whatever is lapsed.
pub(crate) const ALWAYS: Takeover =
    Takeover::Below { attempts: u32::MAX, younger_than: MAX_DURATION };

/// What a claim asks. Clones by another owner are another call.
pub(crate) type Ask = OwnedClaim;

impl Ask {
    pub(crate) fn new(scope: Scope, key: Key, owner: Owner) -> Self {
        Self {
            scope,
            key,
            owner,
            operation: operation("charge"),
            fingerprints: print(1).into(),
            input: None,
            marks_begun: false,
            lease: LONG,
            retention: Retention::of(KEPT),
            takeover: ALWAYS,
        }
    }

    pub(crate) fn claim(&self) -> Claim<'_> {
        self.borrow()
    }

    #[must_use]
    pub(crate) fn by(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    #[must_use]
    pub(crate) fn operation(mut self, name: &str) -> Self {
        self.operation = operation(name);
        self
    }

    #[must_use]
    pub(crate) fn print(mut self, fingerprints: impl Into<Fingerprints>) -> Self {
        self.fingerprints = fingerprints.into();
        self
    }

    #[must_use]
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(sealed(input));
        self
    }

    #[must_use]
    pub(crate) fn marking_begun(mut self) -> Self {
        self.marks_begun = true;
        self
    }

    #[must_use]
    pub(crate) fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    #[must_use]
    pub(crate) fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    #[must_use]
    pub(crate) fn takeover(mut self, takeover: Takeover) -> Self {
        self.takeover = takeover;
        self
    }
}

/// An operation's name.
pub(crate) fn operation(name: &str) -> OperationName {
    OperationName::new(name).expect("the suite's own names are short")
}

/// The fingerprint of request number `request`.
pub(crate) fn print(request: u8) -> Fingerprint {
    print_under(Scheme::V1.as_byte(), request)
}

/// The same under another scheme.
pub(crate) fn print_under(scheme: u8, request: u8) -> Fingerprint {
    Fingerprint::from_parts(Scheme::from_byte(scheme), [request; 32])
}

/// Opaque bytes.
pub(crate) fn sealed(bytes: impl Into<Vec<u8>>) -> Sealed {
    Sealed::from_bytes(bytes.into())
}

/// A recovery point.
pub(crate) fn recovery(number: u32, payload: impl Into<Vec<u8>>) -> Recovery {
    Recovery { number, payload: sealed(payload) }
}
