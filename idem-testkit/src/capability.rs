//! What a fixture offers beyond the eight verbs, declared before anything is opened.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Something that a case may need and not every store or fixture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// A fresh fixture holds no records, and nobody else writes to it: exact counts can be
    /// asserted. Without it the cases look at records of their own scopes only.
    Isolated,
    /// [`Fixture::clock`](crate::fixture::Fixture::clock) gives the clock that the store judges
    /// by, and it stands still unless a test moves it.
    SteppedClock,
    /// The store is an [`Admin`](idem_core::admin::Admin).
    Admin,
    /// The store is a
    /// [`TransactionalStore`](idem_core::transactional::TransactionalStore).
    Transactions,
    /// An open transaction on one record does not hold up a verb on another.
    IndependentRecords,
    /// [`Fixture::restart`](crate::fixture::Fixture::restart) restarts the server, or closes and
    /// opens what stands for it; acknowledged writes survive.
    Restart,
    /// [`Fixture::connect_through_proxy`](crate::fixture::Fixture::connect_through_proxy) gives a
    /// connection whose traffic the test can cut.
    NetworkFaults,
    /// [`Fixture::address`](crate::fixture::Fixture::address) says where the data is, and
    /// [`Conformance::attaching`](crate::conformance::Conformance::attaching) opens it from
    /// another process.
    Processes,
    /// [`Fixture::damage`](crate::fixture::Fixture::damage) makes a stored record unreadable.
    Damage,
    /// [`Connected::with_outbox`](crate::fixture::Connected::with_outbox) gives the outbox that
    /// the store's transactions push into.
    Outbox,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Isolated,
        Self::SteppedClock,
        Self::Admin,
        Self::Transactions,
        Self::IndependentRecords,
        Self::Restart,
        Self::NetworkFaults,
        Self::Processes,
        Self::Damage,
        Self::Outbox,
    ];

    /// A stable lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::SteppedClock => "stepped-clock",
            Self::Admin => "admin",
            Self::Transactions => "transactions",
            Self::IndependentRecords => "independent-records",
            Self::Restart => "restart",
            Self::NetworkFaults => "network-faults",
            Self::Processes => "processes",
            Self::Damage => "damage",
            Self::Outbox => "outbox",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a fixture declares. A case that needs more is shown as ignored, with the reason.
///
/// ```
/// use idem_testkit::capability::{Capabilities, Capability};
///
/// let declared = Capabilities::none()
///     .with(Capability::Admin)
///     .without(Capability::Transactions, "the server has no transactions of the user's own");
/// assert!(declared.has(Capability::Admin));
/// let reason = declared.missing(&[Capability::Admin, Capability::Transactions]).unwrap();
/// assert_eq!(reason, "needs transactions: the server has no transactions of the user's own");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    declared: BTreeMap<Capability, Declared>,
    max_value_bytes: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Declared {
    Present,
    Absent(Cow<'static, str>),
}

impl Capabilities {
    /// Nothing but the eight verbs.
    pub fn none() -> Self {
        Self::default()
    }

    /// Offers `capability`.
    #[must_use]
    pub fn with(mut self, capability: Capability) -> Self {
        self.declared.insert(capability, Declared::Present);
        self
    }

    /// Says why `capability` is not offered: the reason that ignored cases show.
    #[must_use]
    pub fn without(mut self, capability: Capability, why: impl Into<Cow<'static, str>>) -> Self {
        self.declared.insert(capability, Declared::Absent(why.into()));
        self
    }

    /// The most bytes that one reply, input or recovery point may have in this store, where that
    /// is under 1 MiB. A longer one must then be refused as `InvalidInput`.
    #[must_use]
    pub fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = Some(bytes);
        self
    }

    /// Whether it is offered.
    pub fn has(&self, capability: Capability) -> bool {
        self.declared.get(&capability) == Some(&Declared::Present)
    }

    /// The declared limit of one value, in bytes.
    pub fn max_value_bytes(&self) -> Option<usize> {
        self.max_value_bytes
    }

    /// Why a case with these needs cannot run; `None` when it can.
    pub fn missing(&self, needs: &[Capability]) -> Option<String> {
        let missing = needs.iter().find(|need| !self.has(**need))?;
        Some(match self.declared.get(missing) {
            Some(Declared::Absent(why)) => format!("needs {missing}: {why}"),
            _ => format!("needs {missing}, which the fixture does not offer"),
        })
    }
}
