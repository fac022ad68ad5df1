//! The workshop's transactions: a copy of everything, put back as a whole by the commit.

use std::time::Duration;

use idem_core::admin::{Admin, Filter, Forgotten, Stats};
use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::Scope;
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Record, Recovery};
use idem_core::store::{Cursor, Lease, Page};
use idem_core::time::Timestamp;
use idem_core::transactional::TransactionalStore;
use idem_core::transition::{self, Applied, Change, Decision};
use tokio::sync::OwnedMutexGuard;

use super::rules::InTransaction;
use super::workshop::{Data, Workshop};
use crate::effects::Effects;
use crate::fixture::SetupError;

/// An open transaction. It holds the store's only writer.
pub(super) struct Open {
    store: Workshop,
    work: Data,
    savepoint: Option<Data>,
    _writer: OwnedMutexGuard<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.store.rules.transaction() == InTransaction::DropCommits {
            *self.store.data() = std::mem::take(&mut self.work);
        }
    }
}

impl Workshop {
    fn lever(&self) -> InTransaction {
        self.rules.transaction()
    }

    /// One verb inside a transaction; `outside` commits it at once as well.
    fn decide_in<T>(
        &self,
        open: &mut Open,
        verb: Verb,
        of: (&Scope, &idem_core::key::Key),
        outside: bool,
        rule: impl Fn(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, StoreError> {
        let identity = self.rules.file(of.0, of.1);
        let decision = rule(open.work.records.get(&identity), self.now());
        if outside {
            self.write(&mut self.data(), identity.clone(), &decision.change);
        }
        self.write(&mut open.work, identity, &decision.change);
        decision.outcome.map_err(|refusal| self.rules.error(verb, refusal, of.1))
    }

    fn only_once(&self, verb: Verb, applied: Applied) -> Result<(), StoreError> {
        let lenient = match verb {
            Verb::Complete => InTransaction::RepeatedCompletionIsOk,
            _ => InTransaction::RepeatedCheckpointIsOk,
        };
        if applied == Applied::Now || self.lever() == lenient {
            return Ok(());
        }
        let detail = "this very write was committed before";
        Err(StoreError::new(ErrorKind::AlreadyApplied, verb, detail))
    }
}

#[async_trait]
impl TransactionalStore for Workshop {
    type Connection = Data;
    type Transaction = Open;

    fn connection<'t>(&self, open: &'t mut Open) -> &'t mut Data {
        &mut open.work
    }

    async fn begin(&self) -> Result<Open, StoreError> {
        let writer = self.writer(Verb::Begin).await?;
        self.pause().await;
        let work = self.data().clone();
        Ok(Open { store: self.clone(), work, savepoint: None, _writer: writer })
    }

    async fn hold_in(&self, open: &mut Open, fence: &Fence) -> Result<(), StoreError> {
        if self.lever() == InTransaction::HoldsAnything {
            return Ok(());
        }
        self.decide_in(open, Verb::Hold, (&fence.scope, &fence.key), false, |found, now| {
            transition::hold(found, fence, now)
        })
    }

    async fn claim_in(&self, open: &mut Open, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.pause().await;
        let outside = self.lever() == InTransaction::ClaimsOutside;
        self.decide_in(open, Verb::Claim, (claim.scope, claim.key), outside, |found, now| {
            self.rules.claim(found, claim, now, self.rules.incarnation(claim))
        })
    }

    async fn savepoint_in(&self, open: &mut Open) -> Result<(), StoreError> {
        open.savepoint = Some(match self.lever() {
            InTransaction::SavepointMarksNothing => self.data().clone(),
            _ => open.work.clone(),
        });
        Ok(())
    }

    async fn undo_to_savepoint_in(&self, open: &mut Open) -> Result<(), StoreError> {
        let Some(savepoint) = open.savepoint.clone() else {
            let detail = "there is no savepoint";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Rollback, detail));
        };
        if self.lever() != InTransaction::UndoesNothing {
            open.work = savepoint;
        }
        Ok(())
    }

    async fn checkpoint_in(
        &self,
        open: &mut Open,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let outside = self.lever() == InTransaction::ChecksPointsOutside;
        let of = (&fence.scope, &fence.key);
        let rule =
            |found: Option<&Record>, now| self.rules.checkpoint(found, fence, recovery, lease, now);
        let (applied, lease) = self.decide_in(open, Verb::Checkpoint, of, outside, rule)?;
        self.only_once(Verb::Checkpoint, applied).map(|()| lease)
    }

    async fn complete_in(
        &self,
        open: &mut Open,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        let outside = self.lever() == InTransaction::CompletesOutside;
        let of = (&fence.scope, &fence.key);
        let rule = |found: Option<&Record>, now| self.rules.complete(found, fence, reply, now);
        let applied = self.decide_in(open, Verb::Complete, of, outside, rule)?;
        self.only_once(Verb::Complete, applied)
    }

    async fn push_in(&self, open: &mut Open, _: &OutboxMessage) -> Result<(), StoreError> {
        if self.lever() == InTransaction::PushesOutside {
            self.data().messages += 1;
        }
        open.work.messages += 1;
        Ok(())
    }

    async fn commit(&self, mut open: Open) -> Result<(), StoreError> {
        self.pause().await;
        let mut work = std::mem::take(&mut open.work);
        let mut data = self.data();
        if self.lever() == InTransaction::CommitsTheRecordAlone {
            work.rows.clone_from(&data.rows);
        }
        *data = work.clone();
        drop(data);
        open.work = work;
        Ok(())
    }

    async fn rollback(&self, open: Open) -> Result<(), StoreError> {
        if self.lever() == InTransaction::RollbackCommits {
            return self.commit(open).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Admin for Workshop {
    async fn stats(&self) -> Result<Stats, StoreError> {
        let now = self.now();
        Ok(self.rules.stats(&self.data(), now))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let now = self.now();
        self.rules.list(&self.data(), filter, after, limit, now)
    }

    async fn forget(&self, scope: &Scope, limit: u32) -> Result<Forgotten, StoreError> {
        let _writer = self.writer(Verb::Forget).await?;
        Ok(self.rules.forget(&mut self.data(), scope, limit))
    }

    async fn remove(&self, fence: &Fence) -> Result<(), StoreError> {
        let _writer = self.writer(Verb::Remove).await?;
        let mut data = self.data();
        let identity = self.rules.file(&fence.scope, &fence.key);
        let decision = self.rules.remove(data.records.get(&identity), fence);
        if decision.change == Change::Delete {
            data.records.remove(&identity);
        }
        decision.outcome.map_err(|refusal| self.rules.error(Verb::Remove, refusal, &fence.key))
    }
}

/// A handler's rows.
pub(super) struct Rows;

#[async_trait]
impl Effects<Workshop> for Rows {
    async fn insert(&self, data: &mut Data, marker: &str) -> Result<(), SetupError> {
        data.rows.push(marker.to_owned());
        Ok(())
    }

    async fn count(&self, store: &Workshop, marker: &str) -> Result<u64, SetupError> {
        let count = store.data().rows.iter().filter(|row| *row == marker).count();
        Ok(u64::try_from(count)?)
    }
}
