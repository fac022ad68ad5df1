use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a shell script in the place of `idem`.
async fn start(script: &str, limit: Duration) -> Result<NetworkProcess, ChildError> {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    loop {
        let started =
            NetworkProcess::start_program(&program, Path::new("ledger file"), limit).await;
        match started {
            // Another test's child, between fork and exec, still has the script open for writing.
            Err(ChildError::Spawn { source, .. })
                if source.kind() == io::ErrorKind::ExecutableFileBusy =>
            {
                tokio::task::yield_now().await;
            }
            started => return started,
        }
    }
}

#[tokio::test]
async fn a_child_that_listens_is_told_where_its_ledger_is_and_ends_with_the_pipe() {
    let script = r#"
        test "$*" = "network --listen 127.0.0.1:0 --end-with-stdin --ledger ledger file" || exit 9
        echo "listening on http://127.0.0.1:4000"
        cat
        exit 7"#;
    let child = start(script, PATIENCE).await.unwrap();
    assert_eq!(child.url(), "http://127.0.0.1:4000");
    assert!(child.id().is_some());
    assert_eq!(child.stop(PATIENCE).await.unwrap().code(), Some(7));
}

#[tokio::test]
async fn a_child_that_does_not_stop_is_killed() {
    let script = "echo 'listening on http://127.0.0.1:4000'; exec sleep 1000 <&-";
    let child = start(script, PATIENCE).await.unwrap();
    let status = child.stop(Duration::from_millis(50)).await.unwrap();
    assert_eq!(status.code(), None, "{status}");
}

#[tokio::test]
async fn a_child_that_ends_is_quoted() {
    let error = start("echo 'the ledger is in use' >&2; exit 3", PATIENCE).await.unwrap_err();
    let ChildError::Ended { status, said } = error else { panic!("{error}") };
    assert_eq!((status.code(), said.as_str()), (Some(3), "the ledger is in use"));
}

#[tokio::test]
async fn only_the_end_of_a_long_story_is_kept() {
    let script = "seq 1 2000 >&2; echo last >&2; exit 3";
    let error = start(script, PATIENCE).await.unwrap_err();
    let ChildError::Ended { said, .. } = error else { panic!("{error}") };
    assert!(said.len() <= MAX_SAID_BYTES && said.ends_with("2000\nlast"), "{said}");
}

#[tokio::test]
async fn a_child_that_says_nothing_is_killed() {
    let error = start("echo waiting >&2; exec sleep 1000", Duration::from_millis(300)).await;
    let Err(ChildError::Silent { waited, .. }) = error else { panic!("{error:?}") };
    assert_eq!(waited, Duration::from_millis(300));
}

#[tokio::test]
async fn a_first_line_that_is_no_address_is_refused() {
    for line in
        ["echo hello", "echo listening on port 1", "yes | tr -d '\\n'", "printf listen; exec >&-"]
    {
        let error = start(&format!("{line}; exec sleep 1000"), PATIENCE).await.unwrap_err();
        assert!(matches!(error, ChildError::FirstLine { .. }), "{line}: {error}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let program = Path::new("/nonexistent/idem");
    let error = NetworkProcess::start_program(program, Path::new("l"), PATIENCE).await.unwrap_err();
    assert!(matches!(error, ChildError::Spawn { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/idem"));
}
