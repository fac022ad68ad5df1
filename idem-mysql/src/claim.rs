//! The claim: one statement for a new key, a read and one more statement for any other.

use std::time::{Duration, Instant};

use idem_core::claim::{Acquired, Claim, Claimed, Takeover};
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::record::{Record, State};
use idem_core::time::{Timestamp, bounded_lease, micros};
use idem_core::transition::{self, Change};
use mysql_async::Value;

use crate::failure::Fault;
use crate::store::Shared;
use crate::verbs::{MAX_LATE, MAX_RACES, pause};
use crate::via::{Payloads, Via, too_many_races};
use crate::write::{self, Nonce};

/// What one try came to.
enum Try {
    /// The answer. Nothing stands in its way.
    Answered(Claimed),
    /// The record is ours, and the wait for it used up much of the lease: the same call sets it
    /// anew.
    Late(Claimed),
    /// The record changed between two statements; nothing was written.
    Changed,
}

/// Takes the record, or says who has it or how it ended.
pub(crate) async fn claim(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
) -> Result<Claimed, StoreError> {
    let verb = Verb::Claim;
    shared.check_size(claim.input, verb)?;
    let nonce = Nonce::random();
    let mut late = 0;
    for race in 1..=MAX_RACES {
        match attempt(shared, via, claim, &nonce).await {
            Ok(Try::Answered(claimed)) => return Ok(claimed),
            Ok(Try::Late(claimed)) if late == MAX_LATE => return Ok(claimed),
            Ok(Try::Late(_)) => late += 1,
            Ok(Try::Changed) => {}
            Err(Fault::Conflict(error)) => {
                if !via.may_repeat(verb).await {
                    return Err(error);
                }
                pause(race).await;
            }
            Err(Fault::Locked(error)) if late == 0 => {
                return waited(shared, via, claim, error).await;
            }
            Err(fault) if late > 0 && via.commits() => return Err(taken(fault.into_error())),
            Err(fault) => return Err(fault.into_error()),
        }
    }
    match late {
        0 => Err(too_many_races(verb)),
        _ => Err(taken(too_many_races(verb))),
    }
}

/// The record was taken before this went wrong.
fn taken(error: StoreError) -> StoreError {
    let detail = "the record was taken, and its lease was not set anew";
    StoreError::new(ErrorKind::OutcomeUnknown, Verb::Claim, detail).with_source(error)
}

async fn attempt(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
    nonce: &Nonce,
) -> Result<Try, Fault> {
    let verb = Verb::Claim;
    let sent = Instant::now();
    if !matches!(claim.takeover, Takeover::Only { .. })
        && let Some(now) = insert(shared, via, claim, nonce).await?
    {
        let acquired = Acquired::inserted(claim, nonce.incarnation(now), whole_lease(claim));
        let answer = Claimed::Acquired(acquired);
        let until = now.after(claim.lease);
        let in_time = shared.was_in_time(via, until, claim.lease, sent, verb).await;
        return judged(via, in_time, answer);
    }
    let found = via.find(shared, (claim.scope, claim.key), Payloads::All, verb).await?;
    let now = found.as_ref().map_or(Timestamp::from_unix_micros(0), |found| found.now);
    let record = found.as_ref().map(|found| &found.record);
    let decision = transition::claim(record, claim, now, nonce.incarnation(now));
    let answer = decision.outcome.map_err(|refusal| refusal.at(verb))?;
    match (decision.change, found) {
        (Change::None, _) => Ok(Try::Answered(answer)),
        (Change::Put(after), Some(found)) => {
            if !write::put(&shared.statements, via, &found, &after, verb).await? {
                return Ok(Try::Changed);
            }
            via.note_revision(found.revision + 1);
            let State::InProgress { locked_until, .. } = after.state else {
                return Ok(Try::Answered(answer));
            };
            let in_time = shared.was_in_time(via, locked_until, claim.lease, sent, verb).await;
            judged(via, in_time, answer)
        }
        // It went between the insert and the read.
        _ => Ok(Try::Changed),
    }
}

/// What a record that was taken comes to. Where it stands already, a clock that could not be read
/// does not undo it: the same call sets the lease anew, or says that the outcome is unknown.
fn judged(via: &Via<'_>, in_time: Result<bool, Fault>, answer: Claimed) -> Result<Try, Fault> {
    match in_time {
        Ok(true) => Ok(Try::Answered(answer)),
        Ok(false) => Ok(Try::Late(answer)),
        Err(_) if via.commits() => Ok(Try::Late(answer)),
        Err(fault) => Err(fault),
    }
}

/// Inserts the record if none is there, and gives the server's time if it did. In a transaction
/// the record is locked, and whether it was there is for the read that follows to say.
async fn insert(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
    nonce: &Nonce,
) -> Result<Option<Timestamp>, Fault> {
    let mut values = values(claim, nonce);
    if !via.commits() {
        via.run(&shared.statements.insert_or_lock, values, Verb::Claim).await?;
        return Ok(None);
    }
    values.extend([claim.scope.as_bytes().into(), claim.key.as_bytes().into()]);
    match via.run(&shared.statements.insert, values, Verb::Claim).await {
        Ok(done) if done.rows == 1 => Ok(done.handed_back.and_then(|micros| {
            // Without the time the read that follows finds the record as ours.
            i64::try_from(micros).ok().map(Timestamp::from_unix_micros)
        })),
        Ok(_) | Err(Fault::Duplicate(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn values(claim: &Claim<'_>, nonce: &Nonce) -> Vec<Value> {
    let print = claim.fingerprints.primary();
    let [total, least] = write::retention(claim.retention);
    vec![
        claim.scope.as_bytes().into(),
        claim.key.as_bytes().into(),
        claim.operation.as_str().as_bytes().into(),
        print.scheme().as_byte().into(),
        print.digest().as_slice().into(),
        claim.owner.as_bytes().as_slice().into(),
        nonce.value(),
        total,
        least,
        claim.marks_begun.into(),
        micros(bounded_lease(claim.lease)).into(),
        write::kept_at_least(claim.retention, claim.marks_begun).into(),
        claim.input.map(|input| input.as_bytes()).into(),
    ]
}

/// In whole microseconds, as the store counts it.
fn whole_lease(claim: &Claim<'_>) -> Duration {
    let micros = u64::try_from(micros(bounded_lease(claim.lease)));
    Duration::from_micros(micros.unwrap_or_default())
}

/// The claim waited as long as it may, and only the record itself can have been in its way. For a
/// transaction it is read on a connection of its own: that one may see it as it was long ago.
async fn waited(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
    error: StoreError,
) -> Result<Claimed, StoreError> {
    let verb = Verb::Claim;
    let identity = (claim.scope, claim.key);
    let found = match via {
        Via::Own(_) => via.find(shared, identity, Payloads::All, verb).await,
        Via::Transaction(_) => {
            let Ok(lent) = shared.verbs.lend(verb).await else {
                return Ok(Claimed::InProgress { remaining: shared.settings.lock_wait });
            };
            Via::Own(Box::new(lent)).find(shared, identity, Payloads::All, verb).await
        }
    };
    let found = found.map_err(Fault::into_error)?;
    if let Some(found) = &found
        && let Record { owner, state: State::InProgress { .. }, .. } = &found.record
        && *owner == claim.owner
    {
        // A transaction of this very claim's: whether it commits is still open.
        return Err(error);
    }
    let now = found.as_ref().map_or(Timestamp::from_unix_micros(0), |found| found.now);
    let record = found.as_ref().map(|found| &found.record);
    let decision = transition::claim(record, claim, now, Nonce::random().incarnation(now));
    match decision.change {
        Change::None => decision.outcome.map_err(|refusal| refusal.at(verb)),
        // An insert, a takeover or a completion that is not committed yet.
        _ => Ok(Claimed::InProgress { remaining: shared.settings.lock_wait }),
    }
}
