//! What a relay and an operator do, each in one transaction.

use std::time::Duration;

use idem_core::async_trait;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::outbox::{
    LeaseMessages, Leased, Lost, MAX_LEASED_BYTES, MessageId, MessageLease, SettleAs, Settlement,
};
use idem_core::store::{Swept, page_size};
use idem_core::time::{bounded_lease, micros};
use mysql_async::Value;

use crate::failure::Fault;
use crate::outbox::rows;
use crate::outbox::work::{Job, Work};
use crate::row::{self, Corrupt, Fields};
use crate::sql::OutboxStatements;
use crate::store::Shared;

const VERB: Verb = Verb::Relay;

pub(super) struct Lease<'j> {
    pub(super) shared: &'j Shared,
    pub(super) call: &'j LeaseMessages,
}

#[async_trait]
impl Job for Lease<'_> {
    type Outcome = Vec<Leased>;

    async fn work(&self, work: &mut Work<'_>) -> Result<Vec<Leased>, Fault> {
        let (call, statements) = (self.call, &self.shared.statements.outbox);
        let owner: Value = call.owner.as_bytes().as_slice().into();
        let now = work.number(&self.shared.statements.clock, Vec::new()).await?;
        let limit = page_size(call.limit);
        let at: Value = now.into();
        let values = vec![
            at.clone(),
            at.clone(),
            call.past_dead.into(),
            at.clone(),
            at.clone(),
            at,
            limit.into(),
        ];
        let numbers = chosen(work, &statements.due, values).await?;
        let [Some(first), Some(last)] = [numbers.first(), numbers.last()] else {
            return Ok(Vec::new());
        };
        let until = now.saturating_add(micros(bounded_lease(call.lease)));
        let items: Vec<Value> = numbers.iter().map(|number| (*number).into()).collect();
        work.in_chunks(&statements.take, &[owner.clone(), until.into()], &items).await?;
        let values = vec![(*first).into(), (*last).into(), owner.clone()];
        let mut leased = Vec::with_capacity(numbers.len());
        let mut is_readable = true;
        for row in work.rows(&statements.taken, values).await? {
            let taken = rows::taken(row)?;
            let lease = MessageLease { id: taken.id, owner: call.owner };
            let (failures, lapses) = (taken.failures, taken.lapses);
            match taken.message.filter(|_| is_readable) {
                Some(message) => leased.push(Leased { message, lease, failures, lapses }),
                // The first that cannot be read is for a person; those after it wait for the next
                // call, since it may hold some of them back.
                None if is_readable => {
                    is_readable = false;
                    let values = vec![rows::UNREADABLE.as_bytes().into(), taken.number.into()];
                    work.run(&statements.bury, values).await?;
                }
                None => {
                    work.run(&statements.given_back, held(&lease)).await?;
                }
            }
        }
        Ok(leased)
    }
}

/// The numbers of what may be taken, cut by the bytes.
async fn chosen(
    work: &mut Work<'_>,
    statement: &str,
    values: Vec<Value>,
) -> Result<Vec<i64>, Fault> {
    let (mut numbers, mut total) = (Vec::new(), 0_usize);
    for row in work.rows(statement, values).await? {
        let [number, bytes] = row::numbers(Some(row), VERB)?;
        let bytes = usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX);
        total = total.saturating_add(bytes);
        if total > MAX_LEASED_BYTES && !numbers.is_empty() {
            break;
        }
        numbers.extend(number);
    }
    Ok(numbers)
}

fn held(lease: &MessageLease) -> Vec<Value> {
    vec![lease.id.as_bytes().as_slice().into(), lease.owner.as_bytes().as_slice().into()]
}

pub(super) struct Renew<'j> {
    pub(super) statements: &'j OutboxStatements,
    pub(super) leases: &'j [MessageLease],
    pub(super) lease: Duration,
}

#[async_trait]
impl Job for Renew<'_> {
    type Outcome = Lost;

    async fn work(&self, work: &mut Work<'_>) -> Result<Lost, Fault> {
        let mut lost = Lost::default();
        for lease in self.leases {
            if work.number(&self.statements.held, held(lease)).await? == 0 {
                lost.ids.push(lease.id);
                continue;
            }
            let mut values = vec![micros(bounded_lease(self.lease)).into()];
            values.extend(held(lease));
            work.run(&self.statements.renew, values).await?;
        }
        Ok(lost)
    }
}

pub(super) struct Settle<'j> {
    pub(super) statements: &'j OutboxStatements,
    pub(super) settlements: &'j [Settlement],
}

#[async_trait]
impl Job for Settle<'_> {
    type Outcome = Lost;

    async fn work(&self, work: &mut Work<'_>) -> Result<Lost, Fault> {
        let mut lost = Lost::default();
        for settlement in self.settlements {
            let lease = &settlement.lease;
            let (statement, mut values) = self.settling(&settlement.outcome)?;
            values.extend(held(lease));
            // Each of them ends the lease, so one row is counted where it was held.
            if work.run(statement, values).await? == 0
                && work.number(&self.statements.held_last, held(lease)).await? == 0
            {
                lost.ids.push(lease.id);
            }
        }
        Ok(lost)
    }
}

impl Settle<'_> {
    fn settling(&self, outcome: &SettleAs) -> Result<(&str, Vec<Value>), StoreError> {
        let statements = self.statements;
        Ok(match outcome {
            SettleAs::Sent => (&statements.sent, Vec::new()),
            SettleAs::Failed { retry_after, reason } => {
                (&statements.failed, vec![micros(*retry_after).into(), reason.as_bytes().into()])
            }
            SettleAs::Dead { reason } => (&statements.dead, vec![reason.as_bytes().into()]),
            SettleAs::GivenBack => (&statements.given_back, Vec::new()),
            _ => {
                let detail = "this build does not know the settlement";
                return Err(StoreError::new(ErrorKind::InvalidInput, VERB, detail));
            }
        })
    }
}

/// Changes dead letters, and counts them.
pub(super) struct DeadLetters<'j> {
    pub(super) statements: &'j [String],
    pub(super) ids: &'j [MessageId],
}

#[async_trait]
impl Job for DeadLetters<'_> {
    type Outcome = u64;

    async fn work(&self, work: &mut Work<'_>) -> Result<u64, Fault> {
        let ids: Vec<Value> = self.ids.iter().map(|id| id.as_bytes().as_slice().into()).collect();
        work.in_chunks(self.statements, &[], &ids).await
    }
}

pub(super) struct DeleteSent<'j> {
    pub(super) statements: &'j OutboxStatements,
    pub(super) sent_before: Duration,
    pub(super) limit: u32,
}

#[async_trait]
impl Job for DeleteSent<'_> {
    type Outcome = Swept;

    async fn work(&self, work: &mut Work<'_>) -> Result<Swept, Fault> {
        let statements = self.statements;
        let limit = page_size(self.limit);
        let values = vec![micros(self.sent_before).into(), (u64::from(limit) + 1).into()];
        let (mut numbers, mut keys) = (Vec::<Value>::new(), std::collections::BTreeSet::new());
        let rows = work.rows(&statements.old, values).await?;
        let more = rows.len() > limit as usize;
        for row in rows.into_iter().take(limit as usize) {
            let mut fields = Fields::of(row);
            let read = |Corrupt(_)| row::other_form(VERB);
            numbers.push(fields.number("number").map_err(read)?.into());
            keys.extend(fields.optional_bytes("ordering_key").map_err(read)?);
        }
        let deleted = work.in_chunks(&statements.delete_sent, &[], &numbers).await?;
        let keys: Vec<Value> = keys.into_iter().map(Value::from).collect();
        let mut free: Vec<Value> = Vec::new();
        for row in work.rows_in_chunks(&statements.lock_keys, &keys).await? {
            free.extend(row.unwrap().pop());
        }
        work.in_chunks(&statements.delete_keys, &[], &free).await?;
        Ok(Swept { deleted: u32::try_from(deleted).unwrap_or(u32::MAX), more })
    }
}
