//! The layout of what is stored: names of keys, partitions, and the layout's version.
//!
//! A store is cut into [`PARTITIONS`], each with a hash tag of its own. A record and the indexes
//! that know it carry the same tag, so that one script may touch them all in a Cluster; the
//! partitions spread over its nodes. The tag is the first brace of every key's name, so that no
//! scope and no key can steer the slot, whatever braces it holds.
//!
//! | key | holds |
//! |---|---|
//! | `{NS.PP}r` + identity | a record, a hash |
//! | `{NS.PP}i` | identities, in the order of scope, then key |
//! | `{NS.PP}f`, `{NS.PP}b` | ends of leases, without and with a recovery point |
//! | `{NS.PP}e` | expiries of replies |
//! | `{NS.PP}w` | when a record that marks begun and did not begin may be swept |
//! | `{NS.PP}n` | how many lives were made; it never expires and never goes back |
//! | `{NS}layout` | the version of this layout |
//!
//! Times are whole microseconds since the epoch, in records as decimal text, in indexes as scores.

use idem_core::key::{Key, Scope};
use sha2::{Digest, Sha256};

/// How many partitions there are. It is part of the layout: another number finds no record.
pub const PARTITIONS: u8 = 64;

/// The layout that this build reads and writes.
pub const LAYOUT: &str = "1";

/// Names of keys under one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    namespace: String,
}

impl Names {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    /// The key that says which layout is stored.
    pub(crate) fn layout(&self) -> Vec<u8> {
        format!("{{{}}}layout", self.namespace).into_bytes()
    }

    /// One index of a partition.
    pub(crate) fn index(&self, partition: u8, index: Index) -> Vec<u8> {
        let mut name = self.tag(partition);
        name.push(index as u8);
        name
    }

    /// All indexes of a partition, in the order in which the scripts take them.
    pub(crate) fn indexes(&self, partition: u8) -> Vec<Vec<u8>> {
        Index::ALL.iter().map(|index| self.index(partition, *index)).collect()
    }

    /// A record by its identity.
    pub(crate) fn record(&self, partition: u8, identity: &[u8]) -> Vec<u8> {
        let mut name = self.tag(partition);
        name.push(b'r');
        name.extend_from_slice(identity);
        name
    }

    fn tag(&self, partition: u8) -> Vec<u8> {
        format!("{{{}.{partition:02}}}", self.namespace).into_bytes()
    }
}

/// The indexes of a partition, by the letter that ends their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    Identities = b'i' as isize,
    FreshLeases = b'f' as isize,
    BegunLeases = b'b' as isize,
    Expiries = b'e' as isize,
    Unbegun = b'w' as isize,
    Lives = b'n' as isize,
}

impl Index {
    const ALL: [Self; 6] = [
        Self::Identities,
        Self::FreshLeases,
        Self::BegunLeases,
        Self::Expiries,
        Self::Unbegun,
        Self::Lives,
    ];
}

/// (scope, key) as bytes whose order is that of scope, then key. A NUL in the scope becomes
/// 00 FF, and 00 00 ends it; the key follows as it is.
pub(crate) fn identity(scope: &Scope, key: &Key) -> Vec<u8> {
    let mut identity = scope_prefix(scope);
    identity.extend_from_slice(key.as_bytes());
    identity
}

/// How the identities of one scope start, and no others.
pub(crate) fn scope_prefix(scope: &Scope) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(scope.as_bytes().len() + 2);
    for &byte in scope.as_bytes() {
        prefix.push(byte);
        if byte == 0 {
            prefix.push(0xff);
        }
    }
    prefix.extend_from_slice(&[0, 0]);
    prefix
}

/// The scope and key of an identity; `None` for bytes that [`identity`] does not make.
pub(crate) fn parse_identity(identity: &[u8]) -> Option<(Scope, Key)> {
    let mut scope = Vec::new();
    let mut rest = identity;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        if byte != 0 {
            scope.push(byte);
            continue;
        }
        let (&mark, after) = rest.split_first()?;
        rest = after;
        match mark {
            0 => break,
            0xff => scope.push(0),
            _ => return None,
        }
    }
    Some((Scope::from_bytes(scope).ok()?, Key::opaque(rest).ok()?))
}

/// Which partition holds a record. Part of the layout.
pub(crate) fn partition(identity: &[u8]) -> u8 {
    Sha256::digest(identity)[0] % PARTITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(scope: &str, key: &[u8]) -> (Scope, Key) {
        (Scope::new(scope).unwrap(), Key::opaque(key).unwrap())
    }

    #[test]
    fn identities_come_back_and_keep_the_order_of_scope_then_key() {
        let scopes = ["a", "a\0", "a\0b", "a\u{1}", "ab", "é", "\0", "\0\0", "{x}"];
        let keys: [&[u8]; 8] = [b"k", b"K", b"k ", b"k\0", b"\0", b"\0\0", b"\xff", b"{y}"];
        let mut all: Vec<(Scope, Key)> = Vec::new();
        for scope in scopes {
            all.extend(keys.iter().map(|key| named(scope, key)));
        }
        all.sort();
        let identities: Vec<Vec<u8>> = all.iter().map(|(s, k)| identity(s, k)).collect();
        assert!(identities.is_sorted_by(|a, b| a < b));
        for (pair, bytes) in all.iter().zip(&identities) {
            assert_eq!(parse_identity(bytes).as_ref(), Some(pair));
        }
        for bytes in [&b""[..], b"a", b"a\0", b"a\0\x01k", b"\0\0k", b"a\0\0"] {
            assert_eq!(parse_identity(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn the_first_brace_of_every_name_is_the_stores_own() {
        let names = Names::new("idem");
        let (scope, key) = named("}{x}", b"{y}");
        let bytes = identity(&scope, &key);
        assert!(names.record(7, &bytes).starts_with(b"{idem.07}r"));
        assert_eq!(names.index(7, Index::Expiries), b"{idem.07}e");
        assert_eq!(names.layout(), b"{idem}layout");
    }

    /// The stored layout depends on these; they may not change within a version.
    #[test]
    fn partitions_are_frozen() {
        let of = |scope, key| {
            let (scope, key) = named(scope, key);
            partition(&identity(&scope, &key))
        };
        assert_eq!([of("a", b"k"), of("acct_1", b"order-7"), of("{x}", b"{y}")], FROZEN);
    }

    const FROZEN: [u8; 3] = [39, 12, 6];
}
