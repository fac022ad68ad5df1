//! Taking the scripts' answers apart.

use std::time::Duration;

use bytes::Bytes;
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::record::{Incarnation, Owner};
use idem_core::time::Timestamp;
use redis::Value;

/// An answer that is a list, read from the front.
pub(crate) struct Answer {
    verb: Verb,
    values: std::vec::IntoIter<Value>,
}

impl Answer {
    pub(crate) fn new(verb: Verb, value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(values) => Ok(Self { verb, values: values.into_iter() }),
            _ => Err(unreadable(verb)),
        }
    }

    /// What every answer on one record starts with: what happened, and the server's time.
    pub(crate) fn tag(&mut self) -> Result<Vec<u8>, StoreError> {
        let tag = self.bytes()?;
        self.timestamp()?;
        Ok(tag)
    }

    pub(crate) fn value(&mut self) -> Result<Value, StoreError> {
        self.values.next().ok_or_else(|| self.unreadable())
    }

    /// Bytes; `None` for nil.
    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.value()? {
            Value::Nil => Ok(None),
            value => bytes(value).map(Some).ok_or_else(|| self.unreadable()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.optional_bytes()?.ok_or_else(|| self.unreadable())
    }

    pub(crate) fn sealed(&mut self) -> Result<Sealed, StoreError> {
        Ok(Sealed::from_bytes(Bytes::from(self.bytes()?)))
    }

    pub(crate) fn optional_sealed(&mut self) -> Result<Option<Sealed>, StoreError> {
        Ok(self.optional_bytes()?.map(|bytes| Sealed::from_bytes(Bytes::from(bytes))))
    }

    /// A number; `None` for empty text.
    pub(crate) fn optional_number(&mut self) -> Result<Option<i64>, StoreError> {
        match self.value()? {
            Value::Int(number) => Ok(Some(number)),
            value => match bytes(value) {
                Some(text) if text.is_empty() => Ok(None),
                Some(text) => number(&text).map(Some).ok_or_else(|| self.unreadable()),
                None => Err(self.unreadable()),
            },
        }
    }

    pub(crate) fn number<N: TryFrom<i64>>(&mut self) -> Result<N, StoreError> {
        let number = self.optional_number()?.and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.unreadable())
    }

    pub(crate) fn duration(&mut self) -> Result<Duration, StoreError> {
        Ok(Duration::from_micros(self.number()?))
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::from_unix_micros(self.number()?))
    }

    pub(crate) fn incarnation(&mut self) -> Result<Incarnation, StoreError> {
        Ok(Incarnation::from_bytes(self.array()?))
    }

    pub(crate) fn owner(&mut self) -> Result<Owner, StoreError> {
        Ok(Owner::from_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        self.bytes()?.try_into().map_err(|_| self.unreadable())
    }

    #[cfg(test)]
    pub(crate) fn peek(&self, at: usize) -> &Value {
        &self.values.as_slice()[at]
    }

    /// The values that are left.
    pub(crate) fn rest(self) -> impl Iterator<Item = Value> {
        self.values
    }

    /// What a script says of a record that it cannot use or may not change, and what none says.
    pub(crate) fn fault(&self, tag: &[u8]) -> StoreError {
        let (kind, detail) = match tag {
            b"lost" => return StoreError::fence_lost(self.verb),
            b"corrupt" => return corrupt(self.verb),
            b"layout" => return other_layout(self.verb),
            b"scheme" => (
                ErrorKind::WrongSchema,
                "the record's fingerprint has a scheme that this build does not know",
            ),
            b"out-of-order" => {
                (ErrorKind::Refused, "the recovery point does not follow the one that stands")
            }
            b"begun" => (ErrorKind::Refused, "something may have begun, so the key is not freed"),
            _ => return self.unreadable(),
        };
        StoreError::new(kind, self.verb, detail)
    }

    fn unreadable(&self) -> StoreError {
        unreadable(self.verb)
    }
}

pub(crate) fn corrupt(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::CorruptRecord, verb, "what is stored is not a record")
}

pub(crate) fn other_layout(verb: Verb) -> StoreError {
    let detail = "what is stored has a layout that this build does not know";
    StoreError::new(ErrorKind::WrongSchema, verb, detail)
}

/// An answer in no form that a script gives: something else answers in its place.
pub(crate) fn unreadable(verb: Verb) -> StoreError {
    let detail = "the server's answer is not one of this store's scripts";
    StoreError::new(ErrorKind::OutcomeUnknown, verb, detail)
}

pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// What the scripts take for a number too: decimal digits and nothing else, exact in a double.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    let digits = (1..=16).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let number: i64 = digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()?;
    (number <= 1 << 53).then_some(number)
}
