use std::fs;

use tempfile::TempDir;

use super::*;

const NO_WAIT: Duration = Duration::ZERO;

struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.jsonl")
    }

    fn open(&self) -> Result<Ledger, OpenLedgerError> {
        Ledger::open(&self.path(), NO_WAIT)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    /// Opens the file with other content; a refused file must be left as it is.
    fn refused(&self, content: &[u8]) -> OpenLedgerError {
        fs::write(self.path(), content).unwrap();
        let error = self.open().err().expect("it must be refused");
        assert_eq!(self.bytes(), content, "a refused file was changed");
        error
    }
}

fn request(amount: u64) -> ChargeRequest {
    ChargeRequest {
        caller: "shop".into(),
        amount,
        currency: "eur".into(),
        description: Some("zwölf Äpfel\n".into()),
        reference: None,
    }
}

fn call(ledger: &mut Ledger, key: &str, amount: u64, decline: bool) -> Verdict {
    let number = ledger.count_call(key, "shop").unwrap();
    ledger.carry_out(number, key, &request(amount), || decline).unwrap()
}

fn totals(ledger: &Ledger) -> (u64, u64, u64) {
    let view = ledger.view(None, 0, 100);
    (view.calls, view.effects, view.refused)
}

#[test]
fn a_key_is_settled_once_and_for_good() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    let Verdict::Charged(first) = call(&mut ledger, "a", 5, false) else { panic!() };
    let Verdict::Charged(second) = call(&mut ledger, "a", 5, true) else { panic!() };
    assert_eq!((first.id.len(), first.calls, second.calls), (27, 1, 2));
    assert_eq!(first.id, second.id);
    assert_eq!(call(&mut ledger, "a", 6, false), Verdict::Mismatch);

    let Verdict::Declined(declined) = call(&mut ledger, "b", 5, true) else { panic!() };
    assert_eq!(call(&mut ledger, "b", 5, false), Verdict::Declined(declined));
    assert_eq!(call(&mut ledger, "b", 6, false), Verdict::Mismatch);
    assert_eq!(totals(&ledger), (6, 1, 1));
}

#[test]
fn what_was_written_is_read_back() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    let charged = call(&mut ledger, "a", 5, false);
    let declined = call(&mut ledger, "b", 5, true);
    let unfinished = ledger.count_call("c", "shop").unwrap();
    assert_eq!(unfinished, 3);
    drop(ledger);

    let mut ledger = folder.open().unwrap();
    assert_eq!(totals(&ledger), (3, 1, 1));
    let Verdict::Charged(again) = call(&mut ledger, "a", 5, false) else { panic!() };
    let Verdict::Charged(charged) = charged else { panic!() };
    assert_eq!((again.id, again.created, again.calls), (charged.id, charged.created, 2));
    assert_eq!(call(&mut ledger, "b", 5, false), declined);
    assert!(matches!(call(&mut ledger, "c", 5, false), Verdict::Charged(_)));
}

/// A crash can cut the file anywhere: whatever is left opens, holds the whole lines, and goes on.
#[test]
fn a_file_cut_at_any_byte_opens_with_its_whole_lines() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    call(&mut ledger, "a", 5, false);
    call(&mut ledger, "b", 5, true);
    call(&mut ledger, "c", 5, false);
    drop(ledger);
    let whole = folder.bytes();
    for length in 0..=whole.len() {
        fs::write(folder.path(), &whole[..length]).unwrap();
        let mut ledger = folder.open().unwrap();
        let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        // Lines: header, call, charge, call, decline, call, charge.
        let expected = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0), (2, 1, 1)];
        let expected = expected.get(lines).copied().unwrap_or((3, u64::from(lines == 7) + 1, 1));
        assert_eq!(totals(&ledger), expected, "cut at byte {length}");
        call(&mut ledger, "d", 5, false);
        drop(ledger);
        let ledger = folder.open().unwrap();
        assert_eq!(totals(&ledger), (expected.0 + 1, expected.1 + 1, expected.2));
    }
}

#[test]
fn a_malformed_line_is_named_and_the_file_left_alone() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    call(&mut ledger, "a", 5, false);
    drop(ledger);
    let whole = String::from_utf8(folder.bytes()).unwrap();
    let lines: Vec<_> = whole.lines().collect();

    let garbage = format!("{}\n{}\nnonsense\n{}\n", lines[0], lines[1], lines[2]);
    let OpenLedgerError::Malformed { line, source, .. } = folder.refused(garbage.as_bytes()) else {
        panic!()
    };
    assert!(matches!((line, source), (3, LineFault::Syntax { .. })));

    let twice = format!("{whole}{}\n", lines[2]);
    let error = folder.refused(twice.as_bytes());
    assert!(matches!(
        error,
        OpenLedgerError::Malformed {
            line: 4,
            source: LineFault::Contradiction(Contradiction::SecondEffect),
            ..
        }
    ));

    let long = format!("{whole}{}\n", "x".repeat(MAX_LINE_BYTES));
    let error = folder.refused(long.as_bytes());
    let OpenLedgerError::Malformed { line, source, .. } = error else { panic!("{error}") };
    assert!(matches!((line, source), (4, LineFault::TooLong)));
}

#[test]
fn other_files_are_not_ledgers_and_stay_as_they_are() {
    let folder = Folder::new();
    for content in [&b"SQLite format 3\0"[..], b"hello", b"\n", b"{}\n", b"{\"ledger\":{}}\n"] {
        let error = folder.refused(content);
        assert!(matches!(error, OpenLedgerError::NotALedger { .. }), "{error}");
    }
    let error = folder.refused(b"{\"ledger\":{\"version\":2}}\n{\"refund\":{}}\n");
    assert!(matches!(error, OpenLedgerError::Newer { version: 2, .. }), "{error}");
}

#[test]
fn errors_do_not_show_what_the_file_holds() {
    let folder = Folder::new();
    let header = String::from_utf8(Line::HEADER.to_bytes()).unwrap();
    for line in ["secret-key", r#"{"call":{"number":1,"key":7,"secret-key":1}}"#] {
        let error = folder.refused(format!("{header}{line}\n").as_bytes());
        let shown = crate::exit::Failure::new(crate::exit::Exit::Setup, error).message();
        assert!(shown.contains("line 2") && !shown.contains("secret"), "{shown}");
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let folder = Folder::new();
    let missing = folder.folder.path().join("missing").join("ledger");
    for path in [folder.folder.path(), &missing] {
        let error = Ledger::open(path, NO_WAIT).err().unwrap();
        assert!(matches!(error, OpenLedgerError::Io { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}

#[test]
fn one_ledger_has_one_holder_and_the_next_one_waits_for_it() {
    let folder = Folder::new();
    let mut first = folder.open().unwrap();
    assert!(matches!(folder.open(), Err(OpenLedgerError::InUse { .. })));
    call(&mut first, "a", 5, false);
    std::thread::scope(|scope| {
        let next = scope.spawn(|| Ledger::open(&folder.path(), Duration::from_secs(60)));
        call(&mut first, "b", 5, false);
        drop(first);
        let next = next.join().unwrap().unwrap();
        assert_eq!(totals(&next), (2, 2, 0));
    });
}
