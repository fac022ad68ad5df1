//! The parameters of a statement, in their order.

use idem_core::claim::{Claim, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::record::{Fence, Retention};
use idem_core::time::{bounded_lease, micros};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, Encode, Postgres, Type};

use crate::config::MAX_PAYLOAD_BYTES;

/// Collects parameters; the first one that cannot be sent is kept as an error.
pub(crate) struct Arguments {
    verb: Verb,
    arguments: Result<PgArguments, StoreError>,
}

impl Arguments {
    /// Of the statement `name`, which is always the first parameter.
    pub(crate) fn of(name: &str, verb: Verb) -> Self {
        Self { verb, arguments: Ok(PgArguments::default()) }.add(name)
    }

    pub(crate) fn add<'q, T>(mut self, value: T) -> Self
    where
        T: Encode<'q, Postgres> + Type<Postgres>,
    {
        if let Ok(arguments) = &mut self.arguments
            && arguments.add(value).is_err()
        {
            let detail = "a value cannot be sent to the server";
            self.arguments = Err(StoreError::new(ErrorKind::InvalidInput, self.verb, detail));
        }
        self
    }

    /// An input, a recovery point or a reply.
    pub(crate) fn payload(self, sealed: Option<&Sealed>) -> Self {
        if sealed.is_some_and(|sealed| sealed.len() > MAX_PAYLOAD_BYTES) {
            let detail = "a reply, an input or a recovery point is longer than this store takes";
            let error = StoreError::new(ErrorKind::InvalidInput, self.verb, detail);
            return Self { arguments: Err(error), ..self };
        }
        self.add(sealed.map(|sealed| sealed.as_bytes()))
    }

    /// The record, the whole fence, and the bound on waits.
    pub(crate) fn fence(self, fence: &Fence, lock_wait: &str) -> Self {
        self.add(fence.scope.as_bytes())
            .add(fence.key.as_bytes())
            .add(fence.incarnation.as_bytes().as_slice())
            .add(i64::from(fence.attempt))
            .add(fence.owner.as_bytes().as_slice())
            .add(lock_wait)
    }

    pub(crate) fn claim(self, claim: &Claim<'_>, lock_wait: &str) -> Self {
        let primary = claim.fingerprints.primary();
        let schemes: Vec<i16> =
            claim.fingerprints.iter().map(|print| i16::from(print.scheme().as_byte())).collect();
        let digests: Vec<Vec<u8>> =
            claim.fingerprints.iter().map(|print| print.digest().to_vec()).collect();
        let (retention, after_completion) = match claim.retention {
            Retention::For { total, after_completion } => {
                (Some(micros(total)), Some(micros(after_completion)))
            }
            _ => (None, None),
        };
        self.add(claim.scope.as_bytes())
            .add(claim.key.as_bytes())
            .add(claim.owner.as_bytes().as_slice())
            .add(claim.operation.as_str().as_bytes())
            .add(i16::from(primary.scheme().as_byte()))
            .add(primary.digest().as_slice())
            .add(schemes)
            .add(digests)
            .payload(claim.input)
            .add(claim.marks_begun)
            .add(micros(bounded_lease(claim.lease)))
            .add(retention)
            .add(after_completion)
            .takeover(claim.takeover)
            .add(lock_wait)
    }

    fn takeover(self, takeover: Takeover) -> Self {
        let (name, attempt, younger_than, incarnation) = match takeover {
            Takeover::Never => ("never", None, None, None),
            Takeover::Below { attempts, younger_than } => {
                ("below", Some(attempts), Some(younger_than), None)
            }
            Takeover::Only { incarnation, attempt, younger_than } => {
                ("only", Some(attempt), younger_than, Some(incarnation))
            }
            // A policy that this build does not know is refused before anything is sent.
            _ => {
                let detail = "this build does not know the takeover policy";
                let error = StoreError::new(ErrorKind::InvalidInput, self.verb, detail);
                return Self { arguments: Err(error), ..self };
            }
        };
        self.add(name)
            .add(attempt.map(i64::from))
            .add(younger_than.map(micros))
            .add(incarnation.map(|incarnation| incarnation.as_bytes().to_vec()))
    }

    pub(crate) fn finish(self) -> Result<PgArguments, StoreError> {
        self.arguments
    }
}
