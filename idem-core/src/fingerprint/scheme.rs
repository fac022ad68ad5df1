//! A fingerprint, the scheme it was made under, and the one rule that compares two (R23).

use std::fmt;

/// How a fingerprint was made. It is stored, so that a later release can tell which of its
/// schemes to compare with.
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

/// A scheme and 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    scheme: Scheme,
    digest: [u8; 32],
}

impl Fingerprint {
    /// No fingerprint.
    pub const fn not_compared() -> Self {
        Self { scheme: Scheme::NOT_COMPARED, digest: [0; 32] }
    }

    /// A fingerprint as a store read it.
    pub const fn from_parts(scheme: Scheme, digest: [u8; 32]) -> Self {
        Self { scheme, digest }
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

/// One request under every scheme that this build knows. The first is the one that an insert
/// writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprints {
    prints: Vec<Fingerprint>,
}

impl Fingerprints {
    /// Under one scheme.
    pub fn new(primary: Fingerprint) -> Self {
        Self { prints: vec![primary] }
    }

    /// Requests under the key are taken for the same.
    pub fn not_compared() -> Self {
        Self::new(Fingerprint::not_compared())
    }

    /// Adds the request under another scheme that may stand in a record. One of a scheme that is
    /// there already takes its place.
    ///
    /// # Panics
    /// With more than [`MAX_SCHEMES`] schemes: no release knows that many.
    #[must_use]
    pub fn also(mut self, other: Fingerprint) -> Self {
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

    /// Compares the stored one with its like.
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
    /// One of the two is not compared.
    NotComparable,
    /// The stored one has a scheme that the claim does not carry.
    UnknownScheme,
}
