//! The claim: one statement when nothing races, and what follows when something does.

use idem_core::claim::{Acquired, Claim, Claimed};
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::record::{Incarnation, Record, State};
use idem_core::time::{Timestamp, bounded_lease};
use idem_core::transition::{self, Change};
use sqlx::{SqlSafeStr, SqlStr};

use crate::arguments::Arguments;
use crate::failure::Fault;
use crate::row::{self, Answer};
use crate::sql::{INSERTED, RENEWED, REPLACED};
use crate::store::Shared;
use crate::verbs::{self, MAX_RACES, Via, pause, too_many_races};

/// Takes the record, or says who has it or how it ended.
pub(crate) async fn claim(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
) -> Result<Claimed, StoreError> {
    let verb = Verb::Claim;
    protect(via).await?;
    let mut is_ours = false;
    for race in 1..=MAX_RACES {
        let arguments = Arguments::of("claim", verb).claim(claim, &shared.lock_wait);
        let sent = via.row(shared, "claim", &shared.statements.claim, arguments, verb).await;
        let row = match (sent, &*via) {
            (Ok(row), _) => row,
            (Err(Fault::Locked(error)), _) => return waited(shared, via, claim, error).await,
            (Err(Fault::Conflict(_)), Via::Pool) => {
                pause(race).await;
                continue;
            }
            // The row that is in the way is newer than this transaction's snapshot.
            (Err(Fault::Conflict(error)), _) => return waited(shared, via, claim, error).await,
            (Err(Fault::Other(error)), _) => return Err(error),
        };
        let Answer { now, done, record } = row::answer(&row, "claim", verb)?;
        if let (Some((done, at)), Some(record)) = (done, &record) {
            if was_delayed(claim, record, at) {
                is_ours = true;
                continue; // The record is ours, so the same call sets its lease anew.
            }
            return Ok(Claimed::Acquired(acquired(claim, &done, record, at)));
        }
        let decision = transition::claim(record.as_ref(), claim, now, NO_LIFE);
        if decision.change == Change::None {
            return decision.outcome.map_err(|refusal| refusal.at(verb));
        }
    }
    if is_ours {
        let detail = "the record was taken, and its lease was over before the answer came";
        return Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, detail));
    }
    Err(too_many_races(verb))
}

/// The pure rules use it only for an insert, and what they would insert is not written.
const NO_LIFE: Incarnation = Incarnation::from_bytes([0; 16]);

/// An insert that waited for another's to be taken back counted its lease from before the wait.
fn was_delayed(claim: &Claim<'_>, record: &Record, at: Timestamp) -> bool {
    verbs::lease_of(record, at).remaining <= bounded_lease(claim.lease) / 2
}

fn acquired(claim: &Claim<'_>, done: &str, record: &Record, at: Timestamp) -> Acquired {
    let lease = verbs::lease_of(record, at).remaining;
    if matches!(done, INSERTED | RENEWED | REPLACED) {
        return Acquired::inserted(claim, record.incarnation, lease).replacing(done == REPLACED);
    }
    Acquired::held(record.fence(), lease, record.fingerprint)
        .with_age(at.since(record.created_at))
        .with_recovery(record.recovery().cloned())
        .with_input(record.input.clone())
}

/// The claim waited as long as it may: for the record, unless somebody keeps writers out of the
/// whole table (R6).
async fn waited(
    shared: &Shared,
    via: &mut Via<'_>,
    claim: &Claim<'_>,
    error: StoreError,
) -> Result<Claimed, StoreError> {
    undo(via).await?;
    if is_table_locked(shared, via).await? {
        return Err(error);
    }
    let (found, now) = verbs::find(shared, via, claim.scope, claim.key, Verb::Claim).await?;
    if let Some(Record { owner, state: State::InProgress { .. }, .. }) = &found
        && *owner == claim.owner
    {
        // A transaction of this very claim's: whether it commits is still open.
        return Err(error);
    }
    let decision = transition::claim(found.as_ref(), claim, now, NO_LIFE);
    match decision.change {
        Change::None => decision.outcome.map_err(|refusal| refusal.at(Verb::Claim)),
        // An insert, a takeover or a completion that is not committed yet.
        _ => Ok(Claimed::InProgress { remaining: shared.settings.lock_wait }),
    }
}

async fn is_table_locked(shared: &Shared, via: &mut Via<'_>) -> Result<bool, StoreError> {
    let (verb, name, statement) = (Verb::Claim, "table_lock", &shared.statements.table_lock);
    let arguments = Arguments::of(name, verb);
    let row = match via {
        Via::Pool => shared.row(name, statement, arguments, verb, false).await,
        Via::Transaction(_) => via.row(shared, name, statement, arguments, verb).await,
    };
    row::value(&row.map_err(Fault::into_error)?, 1, verb)
}

/// In a handler's transaction a wait that ends would take everything with it.
async fn protect(via: &mut Via<'_>) -> Result<(), StoreError> {
    match via {
        Via::Pool => Ok(()),
        Via::Transaction(transaction) => {
            transaction.execute(&statement("SAVEPOINT idem_claim"), Verb::Claim).await
        }
    }
}

async fn undo(via: &mut Via<'_>) -> Result<(), StoreError> {
    match via {
        Via::Pool => Ok(()),
        Via::Transaction(transaction) => {
            transaction.execute(&statement("ROLLBACK TO SAVEPOINT idem_claim"), Verb::Claim).await
        }
    }
}

fn statement(text: &'static str) -> SqlStr {
    text.into_sql_str()
}
