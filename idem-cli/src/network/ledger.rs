//! The ledger of a card network: the ground truth about calls and effects.
//!
//! An effect is on the disk before anybody hears of it, and happens at most once per key. A call
//! is in the file before anything is done about it.

use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::book::{Book, Call, Contradiction, Settled};
use super::charge::{Charge, ChargeRequest, LedgerView};
use super::file::{Durability, LedgerFile, OpenError, synchronise_folder};
use super::line::{Line, MAX_LINE_BYTES, Settlement, VERSION};

/// The most calls that one ledger takes; all of them are kept in memory.
pub const MAX_CALLS: u64 = 2_000_000;

/// An open ledger. One process at a time holds it.
pub struct Ledger {
    file: LedgerFile,
    book: Book,
}

/// What the network says to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The charge of this key, made by this call or an earlier one.
    Charged(Charge),
    /// This key is declined, now and for ever. Holds the id of the decline.
    Declined(String),
    /// This key was used for another payload.
    Mismatch,
}

/// Why a ledger could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenLedgerError {
    /// The file cannot be opened, locked, read or written.
    #[error("cannot open the ledger {}", path.display())]
    Io {
        /// The ledger.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("the ledger {} is in use by another process (waited {waited:?})", path.display())]
    InUse {
        /// The ledger.
        path: PathBuf,
        /// How long this process waited for it.
        waited: Duration,
    },
    /// The file holds something else. It is left as it is.
    #[error("{} is not the ledger of a card network", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of this program wrote it. It is left as it is.
    #[error("the ledger {} has format {version}; this program knows {VERSION}", path.display())]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// The version in its first line.
        version: u32,
    },
    /// A whole line cannot be read. The file is left as it is.
    #[error("line {line} of the ledger {} is malformed", path.display())]
    Malformed {
        /// The ledger.
        path: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        source: LineFault,
    },
}

/// What is wrong with a whole line of a ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It contradicts the lines before it.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// It is not a line of a ledger. The text is not shown: it may hold keys.
    #[error("it is not a line of a ledger (byte {column})")]
    Syntax {
        /// The byte, from 1, where it stops to make sense; 0 if that is not known.
        column: usize,
    },
    /// It is longer than any line may be.
    #[error("it has more than {MAX_LINE_BYTES} bytes")]
    TooLong,
}

/// Why a call was not carried out: nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The ledger has [`MAX_CALLS`] calls.
    #[error("the ledger is full")]
    Full,
    /// The line could not be written: a full disk, a quota, a broken disk.
    #[error("the ledger could not be written")]
    NotWritten(#[from] io::Error),
    /// The operating system gave no randomness for an id.
    #[error("no randomness for an id")]
    NoRandomness,
}

impl Ledger {
    /// Opens a ledger, or creates an empty one, waiting at most `lock_wait` for another process
    /// to let go of it. It blocks the thread.
    ///
    /// Half a line at the end is what a crash in mid-write leaves, and nobody was told of it: it
    /// is cut off, with a warning. Anything else that cannot be read is an error, and the file
    /// stays as it is.
    ///
    /// # Errors
    /// [`OpenLedgerError`].
    pub fn open(path: &Path, lock_wait: Duration) -> Result<Self, OpenLedgerError> {
        let io = |source| OpenLedgerError::Io { path: path.into(), source };
        let mut file = LedgerFile::open(path, lock_wait).map_err(|error| match error {
            OpenError::InUse => OpenLedgerError::InUse { path: path.into(), waited: lock_wait },
            OpenError::Io(source) => io(source),
        })?;
        let read = read(path, file.reader())?;
        if read.torn_bytes > 0 {
            let bytes = read.torn_bytes;
            tracing::warn!(ledger = %path.display(), bytes, "cut off a torn last line");
        }
        file.keep(read.whole_bytes).map_err(io)?;
        if read.whole_bytes == 0 {
            file.append(&Line::HEADER.to_bytes(), Durability::Synchronised).map_err(io)?;
            synchronise_folder(path).map_err(io)?;
        }
        Ok(Self { file, book: read.book })
    }

    /// Counts a call that arrived, and returns its number.
    ///
    /// # Errors
    /// [`LedgerError`]: the call is not counted and must not be carried out.
    pub fn count_call(&mut self, key: &str, caller: &str) -> Result<u64, LedgerError> {
        let number = self.book.next_call();
        if number > MAX_CALLS {
            return Err(LedgerError::Full);
        }
        let at_ms = u64::try_from(now().as_millis()).unwrap_or(u64::MAX);
        let line = Line::Call { number, key: key.into(), caller: caller.into(), at_ms };
        self.write(line, Durability::Written)?;
        Ok(number)
    }

    /// Carries out a counted call. The first one under a key settles it: `decline` is asked then,
    /// and only then, whether to decline instead of charging.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing was charged or declined.
    pub fn carry_out(
        &mut self,
        call: u64,
        key: &str,
        request: &ChargeRequest,
        decline: impl FnOnce() -> bool,
    ) -> Result<Verdict, LedgerError> {
        if let Some(settled) = self.book.settled(key) {
            return Ok(self.verdict(settled, request));
        }
        let decline = decline();
        let settlement = Settlement {
            call,
            key: key.into(),
            id: id(if decline { "de_" } else { "ch_" })?,
            created: now().as_secs(),
            request: request.clone(),
        };
        let line = if decline { Line::Decline(settlement) } else { Line::Charge(settlement) };
        self.write(line, Durability::Synchronised)?;
        let settled = self.book.settled(key).expect("the line just written settles the key");
        Ok(self.verdict(settled, request))
    }

    /// Totals, and the charges after the first `after`, at most `limit`; for one caller or all.
    pub fn view(&self, caller: Option<&str>, after: usize, limit: usize) -> LedgerView {
        self.book.view(caller, after, limit)
    }

    /// Whether it can still be written, as far as is known.
    pub fn is_writable(&self) -> bool {
        !self.file.is_broken() && self.book.next_call() <= MAX_CALLS
    }

    pub(super) fn calls(&self) -> &[Call] {
        self.book.calls()
    }

    fn write(&mut self, line: Line, durability: Durability) -> Result<(), LedgerError> {
        self.file.append(&line.to_bytes(), durability)?;
        self.book.add(line).expect("the line was made from the book");
        Ok(())
    }

    fn verdict(&self, settled: &Settled, request: &ChargeRequest) -> Verdict {
        if settled.settlement().request != *request {
            return Verdict::Mismatch;
        }
        match settled {
            Settled::Charged(settlement) => Verdict::Charged(self.book.charge(settlement)),
            Settled::Declined(settlement) => Verdict::Declined(settlement.id.clone()),
        }
    }
}

struct ReadBack {
    book: Book,
    whole_bytes: u64,
    torn_bytes: u64,
}

fn read(path: &Path, mut reader: impl BufRead) -> Result<ReadBack, OpenLedgerError> {
    let mut back = ReadBack { book: Book::default(), whole_bytes: 0, torn_bytes: 0 };
    let mut bytes = Vec::new();
    for line in 1_u64.. {
        bytes.clear();
        reader
            .by_ref()
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| OpenLedgerError::Io { path: path.into(), source })?;
        let malformed = |source| OpenLedgerError::Malformed { path: path.into(), line, source };
        if line == 1 {
            check_header(path, &bytes)?;
        } else if bytes.len() > MAX_LINE_BYTES {
            return Err(malformed(LineFault::TooLong));
        }
        if !bytes.ends_with(b"\n") {
            back.torn_bytes = bytes.len() as u64;
            break;
        }
        if line > 1 {
            add(&mut back.book, &bytes).map_err(malformed)?;
        }
        back.whole_bytes += bytes.len() as u64;
    }
    Ok(back)
}

fn add(book: &mut Book, bytes: &[u8]) -> Result<(), LineFault> {
    let line =
        Line::from_bytes(bytes).map_err(|error| LineFault::Syntax { column: error.column() })?;
    Ok(book.add(line)?)
}

/// A first line is a header, or half of one: a file of anything else is never cut.
fn check_header(path: &Path, bytes: &[u8]) -> Result<(), OpenLedgerError> {
    if Line::HEADER.to_bytes().starts_with(bytes) {
        return Ok(());
    }
    match Line::from_bytes(bytes) {
        Ok(Line::Ledger { version }) if version > VERSION => {
            Err(OpenLedgerError::Newer { path: path.into(), version })
        }
        _ => Err(OpenLedgerError::NotALedger { path: path.into() }),
    }
}

fn id(prefix: &str) -> Result<String, LedgerError> {
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(|_| LedgerError::NoRandomness)?;
    Ok(random.iter().fold(prefix.to_owned(), |id, byte| format!("{id}{byte:02x}")))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
