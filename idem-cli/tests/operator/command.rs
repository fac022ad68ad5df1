//! Runs one command of the operator and keeps what it said.

use std::io::Write as _;
use std::process::{Command, Stdio};

use idem_cli::serve::Caller;
use serde_json::Value;

use crate::support::payments::{Bench, TOKEN, charge, send, wait_until};
use crate::support::process::{IDEM, Server};

/// What a command said, and how it ended.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

/// Runs `idem` with these arguments and this standard input.
pub(crate) fn idem(args: &[&str], input: &[u8]) -> Said {
    let mut child = Command::new(IDEM)
        .args(args)
        .env_remove("IDEM_STORE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Bench {
    /// Runs a command on this store.
    pub(crate) fn operate(&self, command: &str, more: &[&str]) -> Said {
        let store = self.store();
        let args: Vec<&str> = [command, "--store", &store].iter().chain(more).copied().collect();
        idem(&args, b"")
    }

    /// Runs a command on one record of the one caller.
    pub(crate) fn on_record(&self, command: &str, key: &str, more: &[&str]) -> Said {
        let scope = scope();
        let args: Vec<&str> =
            ["--scope", &scope, "--key", key].iter().chain(more).copied().collect();
        self.operate(command, &args)
    }

    /// A charge whose server died at `point`, its lease over.
    pub(crate) fn strand(&self, key: &str, point: &str) {
        let failpoint = format!("{point}=kill");
        let mut doomed = self.serve(&["--lease", "200ms", "--failpoint", &failpoint]);
        assert!(send(doomed.address, &charge(key, 1999)).is_err(), "it was answered");
        doomed.process.wait();
        wait_until("its lease is over", || {
            self.on_record("inspect", key, &["--json"]).json()["state"] != "live"
        });
    }

    /// A server that has used up its attempts at whatever was tried before.
    pub(crate) fn serve_holding(&self) -> Server {
        self.serve(&["--attempts", "1"])
    }
}

/// The one caller's scope, as `list` shows it.
pub(crate) fn scope() -> String {
    Caller::with_token(TOKEN.as_bytes()).unwrap().name().to_owned()
}
