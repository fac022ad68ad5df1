//! What the pure rules say is written, as a statement on exactly the record that was read.

use idem_core::error::Verb;
use idem_core::record::{Fence, Incarnation, Record, Retention, State};
use idem_core::time::{Timestamp, micros};
use mysql_async::Value;
use sha2::{Digest, Sha256};

use crate::failure::Fault;
use crate::row::Found;
use crate::sql::Statements;
use crate::via::Via;

/// One state of one record: no other ever has the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scope: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) incarnation: Vec<u8>,
    pub(crate) revision: i64,
}

impl Identity {
    pub(crate) fn values(&self) -> [Value; 4] {
        [
            self.scope.as_slice().into(),
            self.key.as_slice().into(),
            self.incarnation.as_slice().into(),
            self.revision.into(),
        ]
    }
}

/// Fresh randomness of one call, from which the server makes an incarnation. It is text, so that
/// no character set changes it.
#[derive(Debug, Clone)]
pub(crate) struct Nonce(String);

impl Nonce {
    pub(crate) fn random() -> Self {
        let bytes = *Incarnation::random().as_bytes();
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn value(&self) -> Value {
        self.0.as_str().into()
    }

    /// The incarnation of a life that begins at `now`, as the insert's statement makes it.
    pub(crate) fn incarnation(&self, now: Timestamp) -> Incarnation {
        let mut hash = Sha256::new();
        hash.update(&self.0);
        hash.update(now.as_unix_micros().to_string());
        let digest = hash.finalize();
        Incarnation::from_bytes(std::array::from_fn(|at| digest[at]))
    }
}

/// Writes `after` over what was found, and says whether that still stood.
pub(crate) async fn put(
    statements: &Statements,
    via: &mut Via<'_>,
    found: &Found,
    after: &Record,
    verb: Verb,
) -> Result<bool, Fault> {
    let (statement, values) = statement(statements, found, after);
    via.change(statement, values, &found.identity(), verb).await
}

fn statement<'s>(
    statements: &'s Statements,
    found: &Found,
    after: &Record,
) -> (&'s str, Vec<Value>) {
    let before = &found.record;
    match &after.state {
        State::Completed { reply, completed_at, expires_at } => {
            let expires_at = expires_at.map(Timestamp::as_unix_micros);
            let values = vec![
                completed_at.as_unix_micros().into(),
                expires_at.into(),
                reply.as_bytes().into(),
            ];
            (&statements.set_reply, values)
        }
        State::InProgress { locked_until, .. } if before.incarnation != after.incarnation => {
            (&statements.make_anew, anew(after, *locked_until))
        }
        State::InProgress { locked_until, given_up, recovery: Some(recovery) }
            if before.recovery() != Some(recovery) =>
        {
            let values = vec![
                locked_until.as_unix_micros().into(),
                (*given_up).into(),
                recovery.number.into(),
                recovery.payload.as_bytes().into(),
            ];
            (&statements.set_recovery, values)
        }
        State::InProgress { locked_until, given_up, .. } => {
            let values = vec![
                after.attempt.into(),
                after.owner.as_bytes().as_slice().into(),
                after.marks_begun.into(),
                locked_until.as_unix_micros().into(),
                (*given_up).into(),
            ];
            (&statements.set_lease, values)
        }
    }
}

fn anew(record: &Record, locked_until: Timestamp) -> Vec<Value> {
    let [total, least] = retention(record.retention);
    let sweep_after = kept_at_least(record.retention, record.marks_begun)
        .map(|kept| record.created_at.as_unix_micros().saturating_add(kept));
    vec![
        record.operation.as_str().as_bytes().into(),
        record.fingerprint.scheme().as_byte().into(),
        record.fingerprint.digest().as_slice().into(),
        record.owner.as_bytes().as_slice().into(),
        record.created_at.as_unix_micros().into(),
        total,
        least,
        record.marks_begun.into(),
        locked_until.as_unix_micros().into(),
        sweep_after.into(),
        record.input.as_ref().map(|input| input.as_bytes()).into(),
        record.incarnation.as_bytes().as_slice().into(),
    ]
}

/// The retention's two spans, or NULL twice.
pub(crate) fn retention(retention: Retention) -> [Value; 2] {
    match retention {
        Retention::For { total, after_completion } => {
            [micros(total).into(), micros(after_completion).into()]
        }
        _ => [Value::NULL, Value::NULL],
    }
}

/// How long after it was claimed no sweep needs to look at a record: [`Retention::expiry`] is
/// never before that, nor is the end of the retention of one that never began.
pub(crate) fn kept_at_least(retention: Retention, marks_begun: bool) -> Option<i64> {
    match retention {
        Retention::For { total, .. } if marks_begun => Some(micros(total)),
        Retention::For { total, after_completion } => {
            Some(micros(total).max(micros(after_completion)))
        }
        _ => None,
    }
}

/// Scope, key, incarnation, attempt and owner.
pub(crate) fn fence(fence: &Fence) -> Vec<Value> {
    vec![
        fence.scope.as_bytes().into(),
        fence.key.as_bytes().into(),
        fence.incarnation.as_bytes().as_slice().into(),
        fence.attempt.into(),
        fence.owner.as_bytes().as_slice().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_makes_another_incarnation_at_another_time() {
        let nonce = Nonce::random();
        let at = |micros| nonce.incarnation(Timestamp::from_unix_micros(micros));
        assert_eq!(at(1), at(1));
        assert_ne!(at(1), at(2));
        assert_ne!(at(1), Nonce::random().incarnation(Timestamp::from_unix_micros(1)));
    }
}
