//! The files: their names, their locks, and writes that are whole or not there.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind as Io, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::Record;
use idem_core::transition::Change;
use sha2::{Digest, Sha256};

use crate::stored;

/// How long a call waits for a lock. It is held for two writes to the disk, and longer only by a
/// process that was stopped in the middle of them.
const BUSY: Duration = Duration::from_secs(5);

/// How often a lock that is held by somebody else is tried again.
const POLL: Duration = Duration::from_millis(2);

/// A directory of records.
#[derive(Debug, Clone)]
pub(crate) struct Directory(PathBuf);

/// A record and its file, or why it cannot be read.
pub(crate) type Found = Result<(PathBuf, Record), StoreError>;

impl Directory {
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let create = || {
            match fs::create_dir(path) {
                Err(error) if error.kind() != Io::AlreadyExists => return Err(error),
                _ => {}
            }
            let path = path.canonicalize()?;
            sync(path.parent().unwrap_or(&path))?;
            Ok(Self(path))
        };
        create().map_err(not_applied(Verb::Open))
    }

    /// A key may be any bytes (R3), so their hash is the name. The length goes in first: without
    /// it scope `a` with key `bc` and scope `ab` with key `c` would share a file.
    pub(crate) fn path(&self, scope: &Scope, key: &Key) -> PathBuf {
        let mut hash = Sha256::new();
        hash.update((scope.as_bytes().len() as u64).to_be_bytes());
        hash.update(scope.as_bytes());
        hash.update(key.as_bytes());
        self.0.join(format!("{:x}.json", hash.finalize()))
    }

    /// Locks a record against every other process and every other call. Dropping the file unlocks
    /// it, and so does the end of the process.
    ///
    /// 256 lock files serve all records and are never deleted: whoever deletes a lock file lets
    /// two holders in, one on the old file and one on a new one of the same name.
    pub(crate) async fn lock(&self, record: &Path, verb: Verb) -> Result<File, StoreError> {
        let path = self.stripe(record, "lock");
        let open = || File::options().create(true).truncate(false).write(true).open(path);
        let file = blocking(verb, move || open().map_err(not_applied(verb))).await?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if started.elapsed() < BUSY => {}
                Err(error) => return Err(not_applied(verb)(error.into())),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// One of 256 names, by the record's own.
    fn stripe(&self, record: &Path, extension: &str) -> PathBuf {
        let name = record.file_name().unwrap_or_default().to_string_lossy();
        self.0.join(format!("{name:.2}.{extension}"))
    }

    /// The record in this file. Writers replace a file whole, so this takes no lock.
    pub(crate) fn read(&self, path: &Path, verb: Verb) -> Result<Option<Record>, StoreError> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == Io::NotFound => return Ok(None),
            read => read.map_err(not_applied(verb))?,
        };
        match stored::decode(&bytes) {
            Ok(record) if self.path(&record.scope, &record.key) == path => Ok(Some(record)),
            _ => {
                let detail = "a file that is not the record of its name";
                Err(StoreError::new(ErrorKind::CorruptRecord, verb, detail))
            }
        }
    }

    /// Every record there is.
    pub(crate) fn all(&self, verb: Verb) -> Result<Vec<Found>, StoreError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(not_applied(verb))? {
            let path = entry.map_err(not_applied(verb))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let found = self.read(&path, verb).transpose();
                all.extend(found.map(|record| Ok((path, record?))));
            }
        }
        Ok(all)
    }

    /// Writes, and returns once it is on the disk. Also where nothing is to be written: what this
    /// call answers from may have been written by a process that died before its own sync.
    pub(crate) fn apply(&self, path: &Path, change: Change, verb: Verb) -> Result<(), StoreError> {
        match change {
            Change::None => {}
            Change::Put(record) => {
                // Whoever holds this lock is the only one to use this name; a draft that a dead
                // process left is overwritten.
                let draft = self.stripe(path, "draft");
                let written = stored::encode(&record).and_then(|bytes| write(&draft, &bytes));
                if let Err(error) = written {
                    let _ = fs::remove_file(&draft);
                    return Err(not_applied(verb)(error));
                }
                fs::rename(&draft, path).map_err(unknown(verb))?;
            }
            Change::Delete => fs::remove_file(path).map_err(unknown(verb))?,
        }
        sync(&self.0).map_err(unknown(verb))
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Until a directory is synced, a power failure can undo what was renamed in it.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Before the rename: nothing has changed.
fn not_applied(verb: Verb) -> impl Fn(io::Error) -> StoreError {
    move |error| match error.kind() {
        Io::StorageFull | Io::QuotaExceeded => failed(ErrorKind::StoreFull, verb, error),
        _ => failed(ErrorKind::NotApplied, verb, error),
    }
}

/// From the rename on: it may stand, and may or may not survive a power failure.
fn unknown(verb: Verb) -> impl Fn(io::Error) -> StoreError {
    move |error| failed(ErrorKind::OutcomeUnknown, verb, error)
}

fn failed(kind: ErrorKind, verb: Verb, error: io::Error) -> StoreError {
    StoreError::new(kind, verb, "the store's directory could not be used").with_source(error)
}

/// Runs what waits for the disk on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    verb: Verb,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(unknown(verb)(io::Error::other(error))))
}
