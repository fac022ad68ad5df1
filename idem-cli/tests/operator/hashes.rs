//! From a key to its lines in the log, and back: by the hash that stands for it there.

use crate::command::{Said, idem, scope};
use crate::support::payments::{Bench, answer, charge};

const SECRET: &str = "the secret of all processes of this service";

fn secret_file(bench: &Bench) -> String {
    let file = bench.path("hash-secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The hash in the line of the log that says that a record waits.
fn logged_hash(bench: &Bench, secret: &str) -> String {
    let often = ["--attempts", "1", "--reconcile-every", "50ms", "--hash-secret", secret];
    let mut server = bench.serve(&often);
    server.process.wait_for_stderr("a record waits for a person");
    server.process.kill();
    let log = server.process.stderr();
    let line = log.lines().find(|line| line.contains("waits for a person")).unwrap();
    assert!(!line.contains("order-7"), "{line}");
    let (_, rest) = line.split_once("idem.key_hash=").unwrap_or_else(|| panic!("{line}"));
    rest.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_key_and_its_log_lines_are_found_from_each_other() {
    let bench = Bench::new();
    bench.strand("order-7", "after-call");
    let secret = secret_file(&bench);
    let hash = logged_hash(&bench, &secret);
    assert_eq!(hash.len(), 16);
    let with = ["--hash-secret", &secret];

    // From the key to the log, also where the record is gone.
    let alone = idem(&["hash", "--scope", &scope(), "--key", "order-7", with[0], with[1]], b"");
    assert_eq!((alone.code, alone.out.trim_end()), (0, &hash[..]));
    let seen = bench.on_record("inspect", "order-7", &[&with[..], &["--json"]].concat());
    assert_eq!(seen.json()["key_hash"], hash);

    // From the log to the record.
    let server = bench.serve(&[]);
    for key in ["a", "b", "z"] {
        assert_eq!(answer(server.address, &charge(key, 1999)).status, 201);
    }
    for limit in ["1", "100"] {
        let args = [&with[..], &["--key-hash", &hash, "--limit", limit, "--json"]].concat();
        let found = bench.operate("list", &args).json();
        let records = found["records"].as_array().unwrap();
        assert_eq!((records.len(), &records[0]["key"]), (1, &"order-7".into()));
    }
    let stuck = bench.operate("stuck", &with).out;
    let mut lines = stuck.lines();
    assert!(lines.next().unwrap().contains("HASH"), "{stuck}");
    assert!(lines.next().unwrap().contains(&hash), "{stuck}");
    let none = [&with[..], &["--key-hash", "0000000000000000"]].concat();
    assert_eq!(bench.operate("list", &none).out, "no records\n");
}

#[test]
fn without_the_secret_no_hash_is_shown_and_one_that_is_needed_is_asked_for() {
    let bench = Bench::new();
    bench.strand("order-7", "after-call");
    let plain = bench.on_record("inspect", "order-7", &[]);
    assert!(!plain.out.contains("key_hash"), "{}", plain.out);
    assert!(!bench.operate("stuck", &[]).out.contains("HASH"));
    let asks = |said: Said| {
        assert_eq!(said.code, 2);
        assert!(said.err.contains("IDEM_HASH_SECRET_FILE"), "{}", said.err);
    };
    asks(idem(&["hash", "--scope", "a", "--key", "k"], b""));
    asks(bench.operate("list", &["--key-hash", "0000000000000000"]));

    let short = bench.path("short");
    std::fs::write(&short, "hunter2").unwrap();
    let file = short.to_str().unwrap();
    let refused = bench.on_record("inspect", "order-7", &["--hash-secret", file]);
    assert_eq!(refused.code, 2);
    assert!(!refused.err.contains("hunter2"), "{}", refused.err);
    let mut server = bench.spawn(&["--hash-secret", file]);
    assert_eq!(server.wait().code(), Some(2));
}
