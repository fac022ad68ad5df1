//! A server of a test's own, to be killed and started again.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Ends with this value, and its files go.
pub(crate) struct OwnServer {
    /// Names where its files are, for the start script.
    directory: TempDir,
    pub(crate) url: String,
}

impl OwnServer {
    /// Starts MariaDB as the start script does, with `options` for the server.
    pub(crate) fn start(options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().display();
        let port = script(&format!(
            "mysql_install; home=$(mysql_home {home}); mysql_launch $home/own {options}; \
             printf %s $port"
        ));
        let url = format!("mysql://idem:idem@127.0.0.1:{port}/idem");
        Self { directory, url }
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&self) {
        let pid = self.home().join("own/pid");
        let pid = pid.display();
        script(&format!(
            "pid=$(cat {pid}); kill -KILL $pid; \
             while kill -0 $pid 2>/dev/null && ! grep -q '^State:.Z' /proc/$pid/status 2>/dev/null; \
             do sleep 0.01; done"
        ));
    }

    /// Starts it again, on its files and its port.
    pub(crate) fn restart(&self, options: &str) {
        script(&format!("mysql_launch {}/own {options}", self.home().display()));
    }

    fn home(&self) -> PathBuf {
        let home = std::fs::read_to_string(self.directory.path().join("home")).unwrap();
        PathBuf::from(home.trim())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        script(&format!("mysql_stop {}", self.directory.path().display()));
    }
}

/// Runs commands of the start script, and gives what they print.
fn script(commands: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let sources = ". scripts/lib.sh; . scripts/servers.d/mysql.sh";
    let ended = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("{sources}; {commands}")])
        .current_dir(root)
        .output()
        .expect("bash runs");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{commands}: {error}");
    String::from_utf8(ended.stdout).unwrap()
}
