//! A store that keeps one file for each record. `docs/writing-a-store.md` walks through it.

mod file;
mod stored;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use idem_core::async_trait;
use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::cursor::LapsedPosition;
use idem_core::error::{StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Observed, Record, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use idem_core::time::{Clock, Timestamp};
use idem_core::transition::{self, Change, Decision};

use file::Directory;

/// Records in the files of one directory of a local file system, which any number of processes on
/// this machine may share.
#[derive(Debug, Clone)]
pub struct FileStore {
    directory: Directory,
    clock: Arc<dyn Clock>,
}

impl FileStore {
    /// Records in `directory`, judged by `clock`. It is made if it is not there; its parent is not.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn open(directory: impl Into<PathBuf>, clock: impl Clock) -> Result<Self, StoreError> {
        let directory = Directory::create(&directory.into())?;
        Ok(Self { directory, clock: Arc::new(clock) })
    }

    /// The file of a record, there or not.
    pub fn path(&self, scope: &Scope, key: &Key) -> PathBuf {
        self.directory.path(scope, key)
    }

    /// The one way in which a record changes: locked, read, judged, written, unlocked.
    async fn decide<T>(
        &self,
        verb: Verb,
        path: PathBuf,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        let held = self.directory.lock(&path, verb).await?;
        let (directory, from) = (self.directory.clone(), path.clone());
        let found = file::blocking(verb, move || directory.read(&from, verb)).await?;
        // The lock is held: nothing comes between this instant and the write that it leads to.
        let decision = rule(found.as_ref(), self.clock.now());
        let (directory, change) = (self.directory.clone(), decision.change);
        let write = move || {
            let _held = held; // It goes on to the end without its caller, and so does the lock.
            directory.apply(&path, change, verb)
        };
        file::blocking(verb, write).await?;
        decision.outcome.map_err(|refusal| refusal.at(verb))
    }

    async fn decide_under<T>(
        &self,
        verb: Verb,
        fence: &Fence,
        rule: impl FnOnce(Option<&Record>, Timestamp) -> Decision<T> + Send,
    ) -> Result<T, StoreError> {
        self.decide(verb, self.path(&fence.scope, &fence.key), rule).await
    }
}

#[async_trait]
impl Store for FileStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let rule = |found: Option<&Record>, now| {
            transition::claim(found, claim, now, Incarnation::random())
        };
        self.decide(Verb::Claim, self.path(claim.scope, claim.key), rule).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let rule = |found: Option<&Record>, now| transition::renew(found, fence, lease, now);
        self.decide_under(Verb::Renew, fence, rule).await
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let rule = |found: Option<&Record>, now| {
            transition::checkpoint(found, fence, recovery, lease, now)
        };
        let (_, lease) = self.decide_under(Verb::Checkpoint, fence, rule).await?;
        Ok(lease)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let rule = |found: Option<&Record>, now| transition::complete(found, fence, reply, now);
        self.decide_under(Verb::Complete, fence, rule).await.map(drop)
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let rule = |found: Option<&Record>, now| transition::release(found, fence, now);
        self.decide_under(Verb::Release, fence, rule).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let (directory, path) = (self.directory.clone(), self.path(scope, key));
        let found = file::blocking(Verb::Get, move || directory.read(&path, Verb::Get)).await?;
        let now = self.clock.now();
        let seen = transition::visible(found.as_ref(), now).cloned();
        Ok(seen.map(|record| Observed { record, now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        let (directory, limit) = (self.directory.clone(), page_size(limit) as usize);
        let all = file::blocking(Verb::Lapsed, move || directory.all(Verb::Lapsed)).await?;
        let now = self.clock.now();
        let mut lapsed = BTreeMap::new();
        for found in all {
            let (_, record) = found?;
            let is_lapsed = transition::is_lapsed(&record, now);
            let seen = Observed { record, now };
            match LapsedPosition::of(&seen) {
                Some(at) if is_lapsed && Some(&at) > after.as_ref() => lapsed.insert(at, seen),
                _ => None,
            };
        }
        let end = lapsed.keys().nth(limit - 1).filter(|_| lapsed.len() > limit);
        let next = end.map(LapsedPosition::to_cursor);
        Ok(Page { records: lapsed.into_values().take(limit).collect(), next })
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let directory = self.directory.clone();
        let all = file::blocking(Verb::Sweep, move || directory.all(Verb::Sweep)).await?;
        let mut swept = Swept::default();
        // A damaged record is left for a person, and does not stop the sweep.
        for (path, record) in all.into_iter().flatten() {
            if !transition::is_sweepable(&record, self.clock.now()) {
                continue;
            }
            if swept.deleted == page_size(limit) {
                swept.more = true;
                break;
            }
            // Judged again under its lock: it may have been claimed anew.
            let gone = self.decide(Verb::Sweep, path, |found, now| {
                let goes = found.is_some_and(|record| transition::is_sweepable(record, now));
                let change = if goes { Change::Delete } else { Change::None };
                Decision { change, outcome: Ok(u32::from(goes)) }
            });
            match gone.await {
                Ok(deleted) => swept.deleted += deleted,
                Err(error) if swept.deleted == 0 => return Err(error),
                // An error would say that nothing was deleted. The next sweep meets it again.
                Err(_) => {
                    swept.more = true;
                    break;
                }
            }
        }
        Ok(swept)
    }
}
