//! The file under a ledger: locked by one process, append-only, never left with half a line.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long between two attempts to lock the file.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// An open ledger file. Dropping it, or the end of the process, releases the lock.
pub(super) struct LedgerFile {
    file: File,
    /// The bytes of all whole lines. What stands behind them is of no meaning.
    length: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    /// Something may stand behind the last whole line, and must be cut off first.
    Torn,
    /// Nobody knows what is on the disk.
    Broken,
}

/// Whether a line must be on the disk before anything else happens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Written: survives the end of the process.
    Written,
    /// Written and synchronised: survives the loss of power.
    Synchronised,
}

/// Why a file could not be opened for appending.
pub(super) enum OpenError {
    InUse,
    Io(io::Error),
}

impl LedgerFile {
    /// Opens or creates the file and locks it, waiting at most `lock_wait` for a process that
    /// holds it.
    ///
    /// It blocks the thread.
    pub(super) fn open(path: &Path, lock_wait: Duration) -> Result<Self, OpenError> {
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(OpenError::Io)?;
        lock(&file, path, lock_wait)?;
        Ok(Self { file, length: 0, state: State::Clean })
    }

    /// A reader from the start of the file. Its position is shared with nothing: writes append.
    pub(super) fn reader(&self) -> BufReader<&File> {
        BufReader::new(&self.file)
    }

    /// States how many bytes are whole lines, and cuts off the rest.
    pub(super) fn keep(&mut self, length: u64) -> io::Result<()> {
        self.length = length;
        self.cut()
    }

    /// Appends one line, whole or not at all.
    ///
    /// After a failed write the file is cut back to the last whole line. After a failed
    /// synchronisation nothing more is ever written: the operating system may have dropped what
    /// it could not write, and a later success would say nothing about it.
    pub(super) fn append(&mut self, line: &[u8], durability: Durability) -> io::Result<()> {
        match self.state {
            State::Clean => {}
            State::Torn => self.cut()?,
            State::Broken => return Err(io::Error::other("an earlier synchronisation failed")),
        }
        self.state = State::Torn;
        if let Err(error) = self.file.write_all(line) {
            // If this fails too, the next append tries again before it writes.
            let _ = self.cut();
            return Err(error);
        }
        if durability == Durability::Synchronised
            && let Err(error) = self.file.sync_data()
        {
            let _ = self.cut();
            self.state = State::Broken;
            return Err(error);
        }
        self.length += line.len() as u64;
        self.state = State::Clean;
        Ok(())
    }

    /// Whether a line can be appended, as far as is known.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    fn cut(&mut self) -> io::Result<()> {
        self.state = State::Torn;
        self.file.set_len(self.length)?;
        self.state = State::Clean;
        Ok(())
    }
}

/// Makes the name of a new file as durable as the file.
pub(super) fn synchronise_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn lock(file: &File, path: &Path, lock_wait: Duration) -> Result<(), OpenError> {
    let started = Instant::now();
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(OpenError::Io(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if started.elapsed() >= lock_wait {
            return Err(OpenError::InUse);
        }
        if !told {
            tracing::warn!(
                ledger = %path.display(),
                "waiting for another process to let go of the ledger"
            );
            told = true;
        }
        std::thread::sleep(LOCK_POLL);
    }
}
