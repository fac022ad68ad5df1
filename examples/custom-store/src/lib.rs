//! A store that keeps one file for each record. `docs/writing-a-store.md` walks through it.

use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind as Io, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::claim::{Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::error::ErrorKind::{self, CorruptRecord, NotApplied, OutcomeUnknown, StoreFull};
use idem_core::error::{StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Observed, Record, Recovery};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use idem_core::time::{Clock, Timestamp};
use idem_core::transition::{self, Change, Decision};
use idem_core::{async_trait, stored};
use sha2::{Digest, Sha256};

type Result<T> = std::result::Result<T, StoreError>;

/// How long a call waits for the lock.
const BUSY: Duration = Duration::from_secs(10);

/// Records in the files of one directory of a local file system, which any number of processes on
/// this machine may share. One of them writes at a time.
#[derive(Debug, Clone)]
pub struct FileStore {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
}

impl FileStore {
    /// Records in `directory`, judged by `clock`. It is an error when there is no such directory.
    pub fn open(directory: impl AsRef<Path>, clock: impl Clock) -> Result<Self> {
        let directory = fs::canonicalize(directory).map_err(failed(NotApplied, Verb::Open))?;
        Ok(Self { directory, clock: Arc::new(clock) })
    }

    /// The file of a record, there or not. Without the length, scope `a` with key `bc` and scope
    /// `ab` with key `c` would share one.
    pub fn path(&self, scope: &Scope, key: &Key) -> PathBuf {
        let length = (scope.as_bytes().len() as u64).to_be_bytes();
        let name = Sha256::digest([&length, scope.as_bytes(), key.as_bytes()].concat());
        self.directory.join(format!("{name:x}.json"))
    }

    /// Keeps every other writer out until the file is dropped, or the process ends. The lock file
    /// is never deleted: a new one of the same name would let a second writer in.
    async fn lock(&self, verb: Verb) -> Result<File> {
        let (path, started) = (self.directory.join("lock"), Instant::now());
        let open = move || File::create(path).map_err(failed(NotApplied, verb));
        let file = blocking(verb, open).await?;
        while let Err(error) = file.try_lock() {
            if started.elapsed() > BUSY {
                return Err(failed(NotApplied, verb)(error.into()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(file)
    }

    /// How every verb but the sweep changes a record: locked, read, judged, written, unlocked.
    async fn decide<T, R>(&self, verb: Verb, (scope, key): (&Scope, &Key), rule: R) -> Result<T>
    where
        R: FnOnce(Option<&Record>, Timestamp) -> Decision<T> + Send,
    {
        let held = self.lock(verb).await?;
        let (store, path) = (self.clone(), self.path(scope, key));
        let read = move || Ok((store.read(&path, verb)?, store, path));
        let (found, store, path) = blocking(verb, read).await?;
        // The lock is held: nothing comes between this instant and the write that it leads to.
        let Decision { change, outcome } = rule(found.as_ref(), self.clock.now());
        let apply = move || store.apply(&path, change, verb, held);
        blocking(verb, apply).await?;
        outcome.map_err(|refusal| refusal.at(verb))
    }

    /// The record in this file. Writers replace a file whole, so this takes no lock.
    fn read(&self, path: &Path, verb: Verb) -> Result<Option<Record>> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == Io::NotFound => return Ok(None),
            read => read.map_err(failed(NotApplied, verb))?,
        };
        let own = stored::decode(&bytes).ok().filter(|it| self.path(&it.scope, &it.key) == path);
        own.map(Some).ok_or(StoreError::new(CorruptRecord, verb, "not the record of its file"))
    }

    /// Every record there is, or why it cannot be read.
    async fn all(&self, verb: Verb) -> Result<Vec<Result<Record>>> {
        let store = self.clone();
        let read = move || {
            let files = fs::read_dir(&store.directory).and_then(Iterator::collect);
            let files: Vec<DirEntry> = files.map_err(failed(NotApplied, verb))?;
            let paths = files.iter().map(DirEntry::path);
            let records = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
            Ok(records.filter_map(|path| store.read(&path, verb).transpose()).collect())
        };
        blocking(verb, read).await
    }

    /// Returns once it is on the disk, also where nothing is to be written: what this call answers
    /// from may have been written by a process that died before its own sync. It goes on to the end
    /// without its caller, and so does the lock.
    fn apply(&self, path: &Path, change: Change, verb: Verb, _held: File) -> Result<()> {
        let (unknown, draft) = (failed(OutcomeUnknown, verb), self.directory.join("draft"));
        match change {
            Change::None => {}
            Change::Put(record) => {
                // Under the lock nobody else uses the draft. A dead process's is overwritten.
                let bytes = stored::encode(&record);
                let write = |mut it: File| it.write_all(&bytes).and_then(|()| it.sync_all());
                File::create(&draft).and_then(write).map_err(failed(NotApplied, verb))?;
                fs::rename(&draft, path).map_err(&unknown)?;
            }
            Change::Delete => fs::remove_file(path).map_err(&unknown)?,
        }
        // Until then a power failure can undo the rename.
        File::open(&self.directory).and_then(|it| it.sync_all()).map_err(unknown)
    }
}

/// Before the rename nothing has changed. From it on the change may stand, and may or may not
/// survive a power failure.
fn failed(kind: ErrorKind, verb: Verb) -> impl Fn(io::Error) -> StoreError {
    move |error| {
        let full = matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded);
        let kind = if full && kind == NotApplied { StoreFull } else { kind };
        StoreError::new(kind, verb, "the directory could not be used").with_source(error)
    }
}

/// Runs what waits for the disk on a thread that may wait.
async fn blocking<T: Send + 'static>(
    verb: Verb,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(failed(OutcomeUnknown, verb)(error.into())))
}

#[async_trait]
impl Store for FileStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed> {
        let fresh = Incarnation::random();
        let rule = |found: Option<&Record>, now| transition::claim(found, claim, now, fresh);
        self.decide(Verb::Claim, (claim.scope, claim.key), rule).await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed> {
        let rule = |found: Option<&Record>, now| transition::renew(found, fence, lease, now);
        self.decide(Verb::Renew, (&fence.scope, &fence.key), rule).await
    }

    async fn checkpoint(&self, fence: &Fence, at: &Recovery, lease: Duration) -> Result<Lease> {
        let rule = |it: Option<&Record>, now| transition::checkpoint(it, fence, at, lease, now);
        Ok(self.decide(Verb::Checkpoint, (&fence.scope, &fence.key), rule).await?.1)
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<()> {
        let rule = |found: Option<&Record>, now| transition::complete(found, fence, reply, now);
        self.decide(Verb::Complete, (&fence.scope, &fence.key), rule).await.map(drop)
    }

    async fn release(&self, fence: &Fence) -> Result<()> {
        let rule = |found: Option<&Record>, now| transition::release(found, fence, now);
        self.decide(Verb::Release, (&fence.scope, &fence.key), rule).await
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>> {
        let (store, path) = (self.clone(), self.path(scope, key));
        let found = blocking(Verb::Get, move || store.read(&path, Verb::Get)).await?;
        let now = self.clock.now();
        Ok(transition::visible(found.as_ref(), now).map(|it| Observed { record: it.clone(), now }))
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page> {
        let all = self.all(Verb::Lapsed).await?.into_iter().collect::<Result<Vec<_>>>()?;
        Page::of_lapsed(&all, after, limit, self.clock.now())
    }

    async fn sweep(&self, limit: u32) -> Result<Swept> {
        let held = self.lock(Verb::Sweep).await?;
        // A damaged record is left for a person, and does not stop the sweep.
        let (all, now) = (self.all(Verb::Sweep).await?.into_iter().flatten(), self.clock.now());
        let over = all.filter(|record| transition::is_sweepable(record, now));
        let mut paths: Vec<_> = over.map(|it| self.path(&it.scope, &it.key)).collect();
        let more = paths.len() > page_size(limit) as usize;
        paths.truncate(page_size(limit) as usize);
        let swept = Swept { deleted: paths.len() as u32, more };
        let remove = move || {
            let _held = held; // No sync: what a power failure brings back is swept again.
            paths.iter().try_for_each(fs::remove_file).map_err(failed(OutcomeUnknown, Verb::Sweep))
        };
        blocking(Verb::Sweep, remove).await.map(|()| swept)
    }
}
