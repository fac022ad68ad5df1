//! A transactional store in memory: what a database promises, and commits that go as they are
//! told. A transaction locks its row, as `SELECT .. FOR UPDATE` would.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::engine::Engine;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Incarnation, Observed, Owner, Record, Recovery, State};
use idem_core::reply::Reply;
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept};
use idem_core::time::{Clock, RuntimeClock, Timestamp};
use idem_core::transactional::TransactionalStore;
use idem_core::transition::{self, Applied, Change, Decision};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

pub(crate) use crate::fate::Commit;
use crate::fate::{Chance, overtake};

/// How long a verb waits for a locked row.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What a handler's own queries run on.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<String>,
    pub(crate) outbox: Vec<String>,
}

impl Rows {
    pub(crate) fn insert(&mut self, row: &str) {
        self.rows.push(row.into());
    }
}

type Records = BTreeMap<(Scope, Key), Record>;

#[derive(Clone, Default)]
pub(crate) struct TxStore {
    clock: RuntimeClock,
    records: Arc<Mutex<Records>>,
    rows: Arc<Mutex<Rows>>,
    row_lock: Arc<tokio::sync::Mutex<()>>,
    commits: Arc<Mutex<VecDeque<Commit>>>,
    chance: Arc<Mutex<Option<Chance>>>,
    fails: Arc<Mutex<Vec<(Verb, ErrorKind)>>>,
    calls: Arc<Mutex<Vec<Verb>>>,
}

/// An open transaction: what it would write.
pub(crate) struct Tx {
    locked: Option<OwnedMutexGuard<()>>,
    records: Records,
    rows: Rows,
    mark: Option<(Records, Rows)>,
}

impl TxStore {
    /// The next commits go like this.
    pub(crate) fn commits_go(&self, fates: impl IntoIterator<Item = Commit>) {
        lock(&self.commits).extend(fates);
    }

    /// Commits go as `chance` says from now on.
    pub(crate) fn commits_go_by(&self, chance: impl FnMut() -> Option<Commit> + Send + 'static) {
        *lock(&self.chance) = Some(Box::new(chance));
    }

    /// Every call of this verb fails like this from now on, in a transaction or not.
    pub(crate) fn fail(&self, verb: Verb, kind: ErrorKind) {
        lock(&self.fails).push((verb, kind));
    }

    pub(crate) fn heal(&self) {
        lock(&self.fails).clear();
        lock(&self.commits).clear();
    }

    pub(crate) fn calls(&self, verb: Verb) -> usize {
        lock(&self.calls).iter().filter(|called| **called == verb).count()
    }

    /// What stands of the handlers' own rows.
    pub(crate) fn rows(&self) -> Rows {
        lock(&self.rows).clone()
    }

    /// Completes the record behind the rules' back: under its own fence, or as another execution
    /// that took over.
    pub(crate) fn complete_behind(&self, engine: &Engine, reply: &str, taken_over: bool) {
        let mut records = lock(&self.records);
        let record = records.values_mut().next().expect("a record stands");
        if taken_over {
            record.attempt += 1;
            record.owner = Owner::random();
        }
        let reply = Reply::from(reply.to_owned()).into();
        let reply = engine.codec().encode_reply(&reply, &record.scope, &record.key).unwrap();
        let completed_at = self.clock.now();
        record.state = State::Completed { reply, completed_at, expires_at: None };
    }

    /// Somebody else has the row locked for a while.
    pub(crate) fn hold_row_for(&self, time: Duration) {
        let row = Arc::clone(&self.row_lock).try_lock_owned().expect("nobody has it");
        tokio::spawn(async move {
            sleep(time).await;
            drop(row);
        });
    }

    fn called(&self, verb: Verb) -> Result<(), StoreError> {
        lock(&self.calls).push(verb);
        match lock(&self.fails).iter().find(|(failing, _)| *failing == verb) {
            Some((_, kind)) => Err(StoreError::new(*kind, verb, "told to fail")),
            None => Ok(()),
        }
    }

    async fn row(&self) -> Option<OwnedMutexGuard<()>> {
        timeout(LOCK_WAIT, Arc::clone(&self.row_lock).lock_owned()).await.ok()
    }

    async fn decide<T>(
        &self,
        verb: Verb,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
    ) -> Result<T, StoreError> {
        self.called(verb)?;
        let Some(_row) = self.row().await else { return Err(waited_too_long(verb)) };
        let identity = (fence.scope.clone(), fence.key.clone());
        apply(verb, &mut lock(&self.records), identity, self.clock.now(), rule)
    }

    async fn lock_in(&self, tx: &mut Tx, verb: Verb) -> Result<(), StoreError> {
        self.called(verb)?;
        if tx.locked.is_none() {
            tx.locked = Some(self.row().await.ok_or_else(|| waited_too_long(verb))?);
            tx.records = lock(&self.records).clone();
        }
        Ok(())
    }

    fn apply_commit(&self, tx: Tx) {
        if tx.locked.is_some() {
            *lock(&self.records) = tx.records;
        }
        let mut rows = lock(&self.rows);
        rows.rows.extend(tx.rows.rows);
        rows.outbox.extend(tx.rows.outbox);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

fn waited_too_long(verb: Verb) -> StoreError {
    StoreError::new(ErrorKind::NotApplied, verb, "waited too long for a lock")
}

fn apply<T>(
    verb: Verb,
    records: &mut Records,
    identity: (Scope, Key),
    now: Timestamp,
    rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T>,
) -> Result<T, StoreError> {
    let decision = rule(records.get(&identity), now);
    match decision.change {
        Change::None => {}
        Change::Put(record) => drop(records.insert(identity, *record)),
        Change::Delete => drop(records.remove(&identity)),
    }
    decision.outcome.map_err(|refusal| refusal.at(verb))
}

/// In a transaction a write that stands already is an error: the rows beside it would stand twice.
fn now_only<T>(applied: Applied, value: T, verb: Verb) -> Result<T, StoreError> {
    match applied {
        Applied::Now => Ok(value),
        Applied::Already => {
            Err(StoreError::new(ErrorKind::AlreadyApplied, verb, "committed before"))
        }
    }
}

#[async_trait]
impl Store for TxStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.called(Verb::Claim)?;
        let Some(_row) = self.row().await else {
            // It waited on its own record.
            return Ok(Claimed::InProgress { remaining: LOCK_WAIT });
        };
        let identity = (claim.scope.clone(), claim.key.clone());
        let fresh = Incarnation::random();
        apply(Verb::Claim, &mut lock(&self.records), identity, self.clock.now(), |found, now| {
            transition::claim(found, claim, now, fresh)
        })
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        self.decide(Verb::Renew, fence, |found, now| transition::renew(found, fence, lease, now))
            .await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.decide(Verb::Checkpoint, fence, |found, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        })
        .await
        .map(|(_, lease)| lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        self.decide(Verb::Complete, fence, |found, now| {
            transition::complete(found, fence, reply, now)
        })
        .await
        .map(|_| ())
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        self.decide(Verb::Release, fence, |found, now| transition::release(found, fence, now)).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        self.called(Verb::Get)?;
        let now = self.clock.now();
        let records = lock(&self.records);
        let found = records.get(&(scope.clone(), key.clone()));
        Ok(transition::visible(found, now).map(|record| Observed { record: record.clone(), now }))
    }

    async fn lapsed(&self, _after: Option<&Cursor>, _limit: u32) -> Result<Page, StoreError> {
        Ok(Page::default())
    }

    async fn sweep(&self, _limit: u32) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }
}

#[async_trait]
impl TransactionalStore for TxStore {
    type Connection = Rows;
    type Transaction = Tx;

    fn connection<'t>(&self, tx: &'t mut Tx) -> &'t mut Rows {
        &mut tx.rows
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        self.called(Verb::Begin)?;
        Ok(Tx { locked: None, records: Records::new(), rows: Rows::default(), mark: None })
    }

    async fn hold_in(&self, tx: &mut Tx, fence: &Fence) -> Result<(), StoreError> {
        self.lock_in(tx, Verb::Hold).await?;
        let identity = (fence.scope.clone(), fence.key.clone());
        apply(Verb::Hold, &mut tx.records, identity, self.clock.now(), |found, now| {
            transition::hold(found, fence, now)
        })
    }

    async fn claim_in(&self, tx: &mut Tx, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        match self.lock_in(tx, Verb::Claim).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotApplied => {
                return Ok(Claimed::InProgress { remaining: LOCK_WAIT });
            }
            Err(error) => return Err(error),
        }
        let identity = (claim.scope.clone(), claim.key.clone());
        let fresh = Incarnation::random();
        apply(Verb::Claim, &mut tx.records, identity, self.clock.now(), |found, now| {
            transition::claim(found, claim, now, fresh)
        })
    }

    async fn savepoint_in(&self, tx: &mut Tx) -> Result<(), StoreError> {
        tx.mark = Some((tx.records.clone(), tx.rows.clone()));
        Ok(())
    }

    async fn undo_to_savepoint_in(&self, tx: &mut Tx) -> Result<(), StoreError> {
        (tx.records, tx.rows) = tx.mark.clone().expect("a savepoint was set");
        Ok(())
    }

    async fn checkpoint_in(
        &self,
        tx: &mut Tx,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        self.lock_in(tx, Verb::Checkpoint).await?;
        let identity = (fence.scope.clone(), fence.key.clone());
        let now = self.clock.now();
        let (applied, lease) =
            apply(Verb::Checkpoint, &mut tx.records, identity, now, |found, now| {
                transition::checkpoint(found, fence, recovery, lease, now)
            })?;
        now_only(applied, lease, Verb::Checkpoint)
    }

    async fn complete_in(
        &self,
        tx: &mut Tx,
        fence: &Fence,
        reply: &Sealed,
    ) -> Result<(), StoreError> {
        self.lock_in(tx, Verb::Complete).await?;
        let identity = (fence.scope.clone(), fence.key.clone());
        let now = self.clock.now();
        let applied = apply(Verb::Complete, &mut tx.records, identity, now, |found, now| {
            transition::complete(found, fence, reply, now)
        })?;
        now_only(applied, (), Verb::Complete)
    }

    async fn push_in(&self, tx: &mut Tx, message: &OutboxMessage) -> Result<(), StoreError> {
        self.called(Verb::Push)?;
        tx.rows.outbox.push(message.topic().into());
        Ok(())
    }

    async fn commit(&self, tx: Tx) -> Result<(), StoreError> {
        self.called(Verb::Commit)?;
        let told = lock(&self.commits).pop_front();
        let fate = told.or_else(|| lock(&self.chance).as_mut().and_then(|chance| chance()));
        let Some(fate) = fate else {
            self.apply_commit(tx);
            return Ok(());
        };
        let lost = StoreError::new(ErrorKind::OutcomeUnknown, Verb::Commit, "the reply was lost");
        match fate {
            Commit::NotApplied => {
                return Err(StoreError::new(ErrorKind::NotApplied, Verb::Commit, "rolled back"));
            }
            Commit::Unacknowledged { applied } | Commit::Silent { applied } => {
                if applied {
                    self.apply_commit(tx);
                } else {
                    drop(tx);
                }
            }
            Commit::Pending { applied, after } => {
                let store = self.clone();
                tokio::spawn(async move {
                    sleep(after).await;
                    if applied {
                        store.apply_commit(tx);
                    }
                });
            }
            Commit::Overtaken => {
                let mut records = tx.records.clone();
                let claimed = !lock(&self.records).is_empty();
                records.values_mut().for_each(|record| overtake(record, claimed));
                *lock(&self.records) = records;
            }
            Commit::Panics => {
                self.apply_commit(tx);
                panic!("asked for by the test");
            }
        }
        if let Commit::Silent { .. } = fate {
            std::future::pending::<()>().await;
        }
        Err(lost)
    }

    async fn rollback(&self, tx: Tx) -> Result<(), StoreError> {
        self.called(Verb::Rollback)?;
        drop(tx);
        Ok(())
    }
}
