//! A store that is not there.

use crate::support::payments::Bench;

#[test]
fn a_file_that_is_not_there_is_said_and_not_made() {
    let bench = Bench::new();
    for command in ["stats", "list", "stuck", "sweep", "preflight"] {
        let said = bench.operate(command, &[]);
        assert_eq!(said.code, 3, "{command}");
        assert!(said.err.contains("there is no file"), "{command}: {}", said.err);
        assert!(said.err.contains("idem migrate"), "{command}: {}", said.err);
    }
    assert!(!bench.path("idem.db").exists());

    let made = bench.operate("migrate", &[]);
    assert_eq!((made.code, made.out.contains("made")), (0, true), "{}", made.out);
    let again = bench.operate("migrate", &[]);
    assert_eq!((again.code, again.out.contains("made")), (0, false), "{}", again.out);
    assert_eq!(bench.operate("stats", &[]).code, 0);
    assert_eq!(bench.operate("preflight", &[]).code, 0);
    assert_eq!(bench.operate("list", &[]).out, "no records\n");
    assert_eq!(bench.operate("stuck", &[]).out, "nothing is stuck\n");
    let messages = crate::command::idem(&["outbox", "list", "--store", &bench.store()], b"");
    assert_eq!((messages.code, messages.out.as_str()), (0, "no messages\n"));
}
