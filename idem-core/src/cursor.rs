//! Where a page of records ended.

use crate::error::{ErrorKind, StoreError, Verb};
use crate::key::{Key, Scope};
use crate::record::{Observed, Record, State};
use crate::store::Cursor;
use crate::time::Timestamp;

/// A position in the order that [`Store::lapsed`](crate::store::Store::lapsed) pages in: by the
/// end of the lease, then scope, then key. Store authors turn it into a [`Cursor`] and back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LapsedPosition {
    /// When the lease ran out.
    pub locked_until: Timestamp,
    /// Whose key.
    pub scope: Scope,
    /// Which key.
    pub key: Key,
}

impl LapsedPosition {
    /// The position of a record in progress; `None` for a completed one.
    pub fn of(observed: &Observed) -> Option<Self> {
        Self::of_record(&observed.record)
    }

    pub(crate) fn of_record(record: &Record) -> Option<Self> {
        match record.state {
            State::InProgress { locked_until, .. } => {
                Some(Self { locked_until, scope: record.scope.clone(), key: record.key.clone() })
            }
            State::Completed { .. } => None,
        }
    }

    /// As a cursor.
    pub fn to_cursor(&self) -> Cursor {
        let mut bytes = vec![LAPSED];
        bytes.extend_from_slice(&self.locked_until.as_unix_micros().to_be_bytes());
        push_identity(&mut bytes, &self.scope, &self.key);
        Cursor::from_bytes(bytes)
    }

    /// From a cursor that [`to_cursor`](Self::to_cursor) made.
    ///
    /// # Errors
    /// `InvalidInput` for any other cursor.
    pub fn from_cursor(cursor: &Cursor) -> Result<Self, StoreError> {
        let parsed = cursor.as_bytes().split_first().and_then(|(&tag, rest)| {
            let (micros, rest) = rest.split_first_chunk::<8>()?;
            let (scope, key) = split_identity(rest)?;
            let locked_until = Timestamp::from_unix_micros(i64::from_be_bytes(*micros));
            (tag == LAPSED).then_some(Self { locked_until, scope, key })
        });
        parsed.ok_or_else(|| foreign(Verb::Lapsed))
    }
}

/// A position in the order that [`Admin::list`](crate::admin::Admin::list) pages in: by scope,
/// then key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    /// Whose key.
    pub scope: Scope,
    /// Which key.
    pub key: Key,
}

impl ListPosition {
    /// The position of a record.
    pub fn of(observed: &Observed) -> Self {
        Self { scope: observed.record.scope.clone(), key: observed.record.key.clone() }
    }

    /// As a cursor.
    pub fn to_cursor(&self) -> Cursor {
        let mut bytes = vec![LIST];
        push_identity(&mut bytes, &self.scope, &self.key);
        Cursor::from_bytes(bytes)
    }

    /// From a cursor that [`to_cursor`](Self::to_cursor) made.
    ///
    /// # Errors
    /// `InvalidInput` for any other cursor.
    pub fn from_cursor(cursor: &Cursor) -> Result<Self, StoreError> {
        let parsed = cursor.as_bytes().split_first().and_then(|(&tag, rest)| {
            let (scope, key) = split_identity(rest)?;
            (tag == LIST).then_some(Self { scope, key })
        });
        parsed.ok_or_else(|| foreign(Verb::List))
    }
}

const LAPSED: u8 = 1;
const LIST: u8 = 2;

fn foreign(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::InvalidInput, verb, "the cursor is not one of this listing")
}

fn push_identity(bytes: &mut Vec<u8>, scope: &Scope, key: &Key) {
    bytes.push(u8::try_from(scope.as_bytes().len()).expect("a scope has at most 255 bytes"));
    bytes.extend_from_slice(scope.as_bytes());
    bytes.extend_from_slice(key.as_bytes());
}

fn split_identity(bytes: &[u8]) -> Option<(Scope, Key)> {
    let (&length, rest) = bytes.split_first()?;
    let (scope, key) = rest.split_at_checked(usize::from(length))?;
    Some((Scope::from_bytes(scope).ok()?, Key::opaque(key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_from_their_cursors_and_from_no_others() {
        let scope = Scope::new("a").unwrap();
        let key = Key::opaque(b"b\0c").unwrap();
        let lapsed = LapsedPosition {
            locked_until: Timestamp::from_unix_micros(-5),
            scope: scope.clone(),
            key: key.clone(),
        };
        let list = ListPosition { scope, key };
        assert_eq!(LapsedPosition::from_cursor(&lapsed.to_cursor()).unwrap(), lapsed);
        assert_eq!(ListPosition::from_cursor(&list.to_cursor()).unwrap(), list);
        for cursor in [list.to_cursor(), Cursor::from_bytes([]), Cursor::from_bytes([1, 2, 3])] {
            let error = LapsedPosition::from_cursor(&cursor).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert!(ListPosition::from_cursor(&lapsed.to_cursor()).is_err());
    }
}
