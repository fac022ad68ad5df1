//! What a verb sends to its script, and what it makes of the answer.

use std::fmt;
use std::time::Duration;

use idem_core::claim::{Acquired, Claim, Claimed, Lapsed, Replay, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Recovery, Retention};
use idem_core::store::{Lease, Renewed};
use idem_core::time::{bounded_lease, micros};

use crate::answer::Answer;
use crate::config::MAX_PAYLOAD_BYTES;
use crate::schema;
use crate::script::{self, Script};
use crate::store::RedisStore;

impl RedisStore {
    pub(crate) async fn ask_claim(&self, claim: &Claim<'_>) -> Result<Answer, StoreError> {
        let arguments = claim_arguments(claim, self.shared.link.waits())?;
        self.on_record(Verb::Claim, &script::CLAIM, (claim.scope, claim.key), arguments).await
    }

    pub(crate) async fn ask_renew(
        &self,
        fence: &Fence,
        lease: Duration,
    ) -> Result<Answer, StoreError> {
        let lease = if lease.is_zero() { 0 } else { micros(bounded_lease(lease)) };
        self.under_fence(Verb::Renew, &script::RENEW, fence, vec![text(lease)]).await
    }

    pub(crate) async fn ask_checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Answer, StoreError> {
        let payload = payload(Verb::Checkpoint, &recovery.payload)?;
        let more = vec![text(micros(bounded_lease(lease))), text(recovery.number), payload];
        self.under_fence(Verb::Checkpoint, &script::CHECKPOINT, fence, more).await
    }

    pub(crate) async fn ask_complete(
        &self,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<Answer, StoreError> {
        let more = vec![payload(Verb::Complete, reply)?];
        self.under_fence(Verb::Complete, &script::COMPLETE, fence, more).await
    }

    pub(crate) async fn ask_release(&self, fence: &Fence) -> Result<Answer, StoreError> {
        self.under_fence(Verb::Release, &script::RELEASE, fence, Vec::new()).await
    }

    pub(crate) async fn ask_remove(&self, fence: &Fence) -> Result<Answer, StoreError> {
        self.under_fence(Verb::Remove, &script::REMOVE, fence, Vec::new()).await
    }

    async fn under_fence(
        &self,
        verb: Verb,
        script: &Script,
        fence: &Fence,
        more: Vec<Vec<u8>>,
    ) -> Result<Answer, StoreError> {
        let mut arguments = vec![
            flag(self.shared.link.waits()),
            fence.incarnation.as_bytes().to_vec(),
            text(fence.attempt),
            fence.owner.as_bytes().to_vec(),
        ];
        arguments.extend(more);
        self.on_record(verb, script, (&fence.scope, &fence.key), arguments).await
    }

    /// Runs a script on one record, whose indexes come first.
    pub(crate) async fn on_record(
        &self,
        verb: Verb,
        script: &Script,
        (scope, key): (&Scope, &Key),
        arguments: Vec<Vec<u8>>,
    ) -> Result<Answer, StoreError> {
        let identity = schema::identity(scope, key);
        let partition = schema::partition(&identity);
        let mut keys = self.shared.names.indexes(partition);
        keys.push(self.shared.names.record(partition, &identity));
        Answer::new(verb, self.shared.link.run(verb, script, &keys, &arguments).await?)
    }
}

pub(crate) fn claimed(claim: &Claim<'_>, mut answer: Answer) -> Result<Claimed, StoreError> {
    let tag = answer.tag()?;
    Ok(match tag.as_slice() {
        b"inserted" => {
            let (life, lease) = (answer.incarnation()?, answer.duration()?);
            let replaced = answer.bytes()? == b"1";
            Claimed::Acquired(Acquired::inserted(claim, life, lease).replacing(replaced))
        }
        b"held" => Claimed::Acquired(held(claim, &mut answer)?),
        b"in-progress" => Claimed::InProgress { remaining: answer.duration()? },
        b"lapsed" => Claimed::Lapsed(Lapsed::new(answer.number()?, answer.duration()?)),
        b"completed" => {
            let reply = answer.sealed()?;
            let left = answer.optional_number()?;
            let left = left.map(|left| Duration::from_micros(u64::try_from(left).unwrap_or(0)));
            let fence = fence(claim, &mut answer)?;
            Claimed::Completed(Replay::new(reply, left, fence))
        }
        b"mismatch" => Claimed::Mismatch { completed: answer.bytes()? == b"1" },
        b"gone" => Claimed::Gone,
        other => return Err(answer.fault(other)),
    })
}

fn held(claim: &Claim<'_>, answer: &mut Answer) -> Result<Acquired, StoreError> {
    let incarnation = answer.incarnation()?;
    let attempt = answer.number()?;
    let (scope, key) = (claim.scope.clone(), claim.key.clone());
    let fence = Fence { scope, key, incarnation, attempt, owner: claim.owner };
    let (lease, age) = (answer.duration()?, answer.duration()?);
    let fingerprint = Fingerprint::from_parts(Scheme::from_byte(answer.number()?), answer.array()?);
    let (number, payload) = (answer.number()?, answer.optional_sealed()?);
    let recovery = payload.map(|payload| Recovery { number, payload });
    Ok(Acquired::held(fence, lease, fingerprint)
        .with_age(age)
        .with_recovery(recovery)
        .with_input(answer.optional_sealed()?))
}

/// The fence under which a record was completed.
fn fence(claim: &Claim<'_>, answer: &mut Answer) -> Result<Fence, StoreError> {
    Ok(Fence {
        scope: claim.scope.clone(),
        key: claim.key.clone(),
        incarnation: answer.incarnation()?,
        attempt: answer.number()?,
        owner: answer.owner()?,
    })
}

pub(crate) fn renewed(mut answer: Answer) -> Result<Renewed, StoreError> {
    let tag = answer.tag()?;
    match tag.as_slice() {
        b"held" => Ok(Renewed::Held(Lease { remaining: answer.duration()? })),
        b"given-up" => Ok(Renewed::GivenUp),
        b"completed" => Ok(Renewed::Completed),
        other => Err(answer.fault(other)),
    }
}

pub(crate) fn checkpointed(mut answer: Answer) -> Result<Lease, StoreError> {
    let tag = answer.tag()?;
    match tag.as_slice() {
        b"held" => Ok(Lease { remaining: answer.duration()? }),
        other => Err(answer.fault(other)),
    }
}

pub(crate) fn completed(mut answer: Answer) -> Result<(), StoreError> {
    let tag = answer.tag()?;
    if tag == b"stored" { Ok(()) } else { Err(answer.fault(&tag)) }
}

/// What `release` and `remove` say.
pub(crate) fn gone(mut answer: Answer) -> Result<(), StoreError> {
    let tag = answer.tag()?;
    if tag == b"gone" { Ok(()) } else { Err(answer.fault(&tag)) }
}

pub(crate) fn claim_arguments(claim: &Claim<'_>, waits: bool) -> Result<Vec<Vec<u8>>, StoreError> {
    let (total, least) = match claim.retention {
        Retention::For { total, after_completion } => {
            (text(micros(total)), text(micros(after_completion)))
        }
        _ => (b"forever".to_vec(), text(0)),
    };
    let age = |limit: Option<Duration>| limit.map_or_else(Vec::new, |limit| text(micros(limit)));
    let (policy, attempts, age, life) = match claim.takeover {
        Takeover::Never => ("never", 0, Vec::new(), Vec::new()),
        Takeover::Below { attempts, younger_than } => {
            ("below", attempts, age(Some(younger_than)), Vec::new())
        }
        Takeover::Only { incarnation, attempt, younger_than } => {
            ("only", attempt, age(younger_than), incarnation.as_bytes().to_vec())
        }
        _ => {
            let detail = "this store does not know the takeover policy";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Claim, detail));
        }
    };
    let input = claim.input.map(|input| payload(Verb::Claim, input)).transpose()?;
    let mut arguments = vec![
        flag(waits),
        claim.owner.as_bytes().to_vec(),
        claim.operation.as_str().into(),
        flag(claim.marks_begun),
        text(micros(bounded_lease(claim.lease))),
        total,
        least,
        policy.into(),
        text(attempts),
        age,
        life,
        randomness()?,
        flag(input.is_some()),
        input.unwrap_or_default(),
    ];
    for print in claim.fingerprints.iter() {
        arguments.push(text(print.scheme().as_byte()));
        arguments.push(print.digest().to_vec());
    }
    Ok(arguments)
}

fn payload(verb: Verb, sealed: &Sealed) -> Result<Vec<u8>, StoreError> {
    if sealed.len() > MAX_PAYLOAD_BYTES {
        let detail = "a reply, an input or a recovery point is longer than this store takes";
        return Err(StoreError::new(ErrorKind::InvalidInput, verb, detail));
    }
    Ok(sealed.as_bytes().to_vec())
}

/// What makes two lives differ even where the server forgot how many there were.
fn randomness() -> Result<Vec<u8>, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| {
        let detail = "the operating system gives no randomness";
        StoreError::new(ErrorKind::NotApplied, Verb::Claim, detail)
    })?;
    Ok(bytes.to_vec())
}

pub(crate) fn flag(set: bool) -> Vec<u8> {
    if set { b"1".to_vec() } else { b"0".to_vec() }
}

pub(crate) fn text(number: impl fmt::Display) -> Vec<u8> {
    number.to_string().into_bytes()
}
