//! A record as the fields of a hash.
//!
//! | field | holds |
//! |---|---|
//! | `v` | the layout's version |
//! | `st` | `p` in progress, `c` completed |
//! | `op`, `fs`, `fd` | operation, fingerprint: scheme and 32 bytes |
//! | `at`, `ow`, `ic` | attempt, owner and incarnation, 16 bytes each |
//! | `ca`, `rt`, `ra` | first claimed; retention, or `forever`; the least after completion |
//! | `mb` | `1` when the operation marks begun |
//! | `in` | the input, in progress only |
//! | `lu`, `gu` | end of the lease; `1` when it was given up |
//! | `rn`, `rp` | number and bytes of the recovery point |
//! | `re`, `co`, `ex` | the reply; when it was stored; when it expires, or `never` |

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use idem_core::codec::Sealed;
use idem_core::error::{StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Incarnation, OperationName, Owner, Record, Recovery, Retention, State};
use idem_core::time::Timestamp;
use redis::Value;

use crate::answer::{bytes, corrupt, number, other_layout};
use crate::schema::LAYOUT;

/// Reads a record from the fields of its hash, names and values in turn. Whatever is missing or
/// out of its form is an error: nothing runs on a guess.
pub(crate) fn decode(
    verb: Verb,
    scope: Scope,
    key: Key,
    fields: Value,
) -> Result<Record, StoreError> {
    let fields = Fields::of(fields).ok_or_else(|| corrupt(verb))?;
    match fields.get("v") {
        Some(version) if version == LAYOUT.as_bytes() => {}
        Some(_) => return Err(other_layout(verb)),
        None => return Err(corrupt(verb)),
    }
    fields.record(scope, key).ok_or_else(|| corrupt(verb))
}

struct Fields(HashMap<Vec<u8>, Vec<u8>>);

impl Fields {
    fn of(value: Value) -> Option<Self> {
        let pairs: Vec<(Value, Value)> = match value {
            Value::Map(pairs) => pairs,
            Value::Array(values) => {
                let mut values = values.into_iter();
                let mut pairs = Vec::new();
                while let Some(name) = values.next() {
                    pairs.push((name, values.next()?));
                }
                pairs
            }
            _ => return None,
        };
        let fields = pairs.into_iter().map(|(name, value)| Some((bytes(name)?, bytes(value)?)));
        Some(Self(fields.collect::<Option<_>>()?))
    }

    fn record(&self, scope: Scope, key: Key) -> Option<Record> {
        let scheme = Scheme::from_byte(self.number("fs")?);
        let digest = self.get("fd")?.try_into().ok()?;
        Some(Record {
            scope,
            key,
            operation: OperationName::new(std::str::from_utf8(self.get("op")?).ok()?).ok()?,
            fingerprint: Fingerprint::from_parts(scheme, digest),
            input: self.sealed("in"),
            attempt: self.number("at").filter(|&attempt: &u32| attempt > 0)?,
            owner: Owner::from_bytes(self.get("ow")?.try_into().ok()?),
            incarnation: Incarnation::from_bytes(self.get("ic")?.try_into().ok()?),
            created_at: self.timestamp("ca")?,
            retention: self.retention()?,
            marks_begun: self.flag("mb")?,
            state: self.state()?,
        })
    }

    fn state(&self) -> Option<State> {
        match self.get("st")? {
            b"p" => Some(State::InProgress {
                locked_until: self.timestamp("lu")?,
                given_up: self.flag("gu")?,
                recovery: self.recovery()?,
            }),
            b"c" => Some(State::Completed {
                reply: self.sealed("re")?,
                completed_at: self.timestamp("co")?,
                expires_at: match self.get("ex")? {
                    b"never" => None,
                    _ => Some(self.timestamp("ex")?),
                },
            }),
            _ => None,
        }
    }

    /// `None` for one that is half there.
    fn recovery(&self) -> Option<Option<Recovery>> {
        match (self.get("rn"), self.sealed("rp")) {
            (None, None) => Some(None),
            (Some(_), Some(payload)) => {
                let number = self.number("rn").filter(|&number: &u32| number > 0)?;
                Some(Some(Recovery { number, payload }))
            }
            _ => None,
        }
    }

    fn retention(&self) -> Option<Retention> {
        if self.get("rt")? == b"forever" {
            return Some(Retention::Forever);
        }
        let total = Duration::from_micros(self.number("rt")?);
        Some(Retention::at_least(total, Duration::from_micros(self.number("ra")?)))
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice)
    }

    fn sealed(&self, name: &str) -> Option<Sealed> {
        self.get(name).map(|bytes| Sealed::from_bytes(Bytes::copy_from_slice(bytes)))
    }

    fn number<N: TryFrom<i64>>(&self, name: &str) -> Option<N> {
        number(self.get(name)?).and_then(|number| N::try_from(number).ok())
    }

    fn timestamp(&self, name: &str) -> Option<Timestamp> {
        self.number(name).map(Timestamp::from_unix_micros)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }
}
