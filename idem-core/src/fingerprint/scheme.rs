//! A fingerprint, the scheme it was made under, and the one rule that compares two (R23).

use std::fmt;

/// How a fingerprint was made: which parts count, how a body is read, how it all is hashed. It is
/// stored beside the digest, so that a later release knows which of its schemes to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scheme(u8);

impl Scheme {
    /// No fingerprint: requests under the key are taken for the same.
    pub const NOT_COMPARED: Self = Self(0);
    /// The scheme of this release.
    pub const V1: Self = Self(1);

    /// The scheme of this byte, known to this build or not.
    pub const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// Its byte.
    pub const fn as_byte(self) -> u8 {
        self.0
    }
}

/// What stands in a record for the request that made it: a scheme and 32 bytes.
///
/// `Debug` shows the scheme and the first four bytes (R24): enough to see in a log that two differ,
/// too little to guess a request by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    scheme: Scheme,
    digest: [u8; 32],
}

impl Fingerprint {
    /// No fingerprint: any request under the key is taken for the first one.
    pub const fn not_compared() -> Self {
        Self { scheme: Scheme::NOT_COMPARED, digest: [0; 32] }
    }

    /// A fingerprint as a store read it. Under [`Scheme::NOT_COMPARED`] the digest means nothing
    /// and becomes zeros: downstream keys are derived from it (R20).
    pub const fn from_parts(scheme: Scheme, digest: [u8; 32]) -> Self {
        match scheme {
            Scheme::NOT_COMPARED => Self::not_compared(),
            _ => Self { scheme, digest },
        }
    }

    /// How it was made.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its bytes; zeros when it is not compared.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Whether it is compared at all.
    pub fn is_compared(&self) -> bool {
        self.scheme != Scheme::NOT_COMPARED
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.digest;
        write!(f, "Fingerprint({}:{a:02x}{b:02x}{c:02x}{d:02x}…)", self.scheme.0)
    }
}

/// How many schemes a claim may carry.
pub const MAX_SCHEMES: usize = 8;

/// One request under every scheme that may stand in a record. The first is the one that an insert
/// writes.
///
/// A release that brings a new scheme reads it before any release writes it (R23):
///
/// ```
/// use idem_core::fingerprint::{Comparison, Fingerprint, Fingerprints, Scheme};
///
/// let under = |scheme| Fingerprint::from_parts(Scheme::from_byte(scheme), [scheme; 32]);
/// let reads_it = Fingerprints::new(under(1)).also(under(2));
/// let writes_it = Fingerprints::new(under(2)).also(under(1));
/// // Both run for a while, and each compares what the other wrote.
/// assert_eq!(reads_it.compare(writes_it.primary()), Comparison::Same);
/// assert_eq!(writes_it.compare(reads_it.primary()), Comparison::Same);
/// // A release that knows scheme 1 alone refuses to guess.
/// let old = Fingerprints::new(under(1));
/// assert_eq!(old.compare(writes_it.primary()), Comparison::UnknownScheme);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprints {
    /// Either one that is not compared, or one to [`MAX_SCHEMES`] of different schemes that are.
    prints: Vec<Fingerprint>,
}

impl Fingerprints {
    /// The request under the scheme that is written.
    pub fn new(primary: Fingerprint) -> Self {
        Self { prints: vec![primary] }
    }

    /// Any request under the key is taken for the first one.
    pub fn not_compared() -> Self {
        Self::new(Fingerprint::not_compared())
    }

    /// Adds the request under another scheme that may stand in a record. One whose scheme is there
    /// already takes that one's place. Nothing is added where either is not compared: a claim
    /// compares or it does not.
    ///
    /// # Panics
    /// With more than [`MAX_SCHEMES`] schemes: no release knows that many.
    #[must_use]
    pub fn also(mut self, other: Fingerprint) -> Self {
        if !self.primary().is_compared() || !other.is_compared() {
            return self;
        }
        match self.prints.iter_mut().find(|print| print.scheme == other.scheme) {
            Some(print) => *print = other,
            None => self.prints.push(other),
        }
        assert!(self.prints.len() <= MAX_SCHEMES, "more schemes than any release knows");
        self
    }

    /// The one that an insert writes.
    pub fn primary(&self) -> Fingerprint {
        self.prints[0]
    }

    /// All of them, the primary first.
    pub fn iter(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        self.prints.iter().copied()
    }

    /// Compares a record's fingerprint with its like. This is the only place that does.
    pub fn compare(&self, stored: Fingerprint) -> Comparison {
        if !stored.is_compared() || !self.primary().is_compared() {
            return Comparison::NotComparable;
        }
        match self.prints.iter().find(|print| print.scheme == stored.scheme) {
            None => Comparison::UnknownScheme,
            Some(print) if *print == stored => Comparison::Same,
            Some(_) => Comparison::Differs,
        }
    }
}

impl From<Fingerprint> for Fingerprints {
    fn from(primary: Fingerprint) -> Self {
        Self::new(primary)
    }
}

/// What comparing a stored fingerprint with a claim's says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same request.
    Same,
    /// Another request.
    Differs,
    /// The record has none, or the claim carries none: nothing to object to.
    NotComparable,
    /// The record's has a scheme that the claim does not carry. Nothing may be concluded from it:
    /// a newer release wrote the record.
    UnknownScheme,
}
