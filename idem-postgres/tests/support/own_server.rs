//! A server of a test's own, to be killed and started again.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Ends with this value, and its files go.
pub(crate) struct OwnServer {
    /// Names where its files are, for the start script.
    directory: TempDir,
    pub(crate) url: String,
}

impl OwnServer {
    /// Starts one as the start script does, with `options` for the server.
    pub(crate) fn start(options: &str) -> Self {
        Self::launch("", options)
    }

    /// Starts one that has a disk of `size` mounted at [`small_disk`](Self::small_disk), which no
    /// other process sees. `None` where that is not allowed.
    pub(crate) fn start_with_small_disk(size: &str) -> Option<Self> {
        let mut probe = Command::new("unshare");
        probe.args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null());
        let allowed = probe.status();
        allowed.is_ok_and(|status| status.success()).then(|| {
            let mount = "mount -t tmpfs -o size=$1,uid=$(id -u postgres),mode=700 tmpfs $2";
            let around = format!(
                "postgres_as_user mkdir $home/small; \
                 postgres_around=(unshare -m sh -c '{mount} && shift 2 && exec \"$@\"' sh \
                 {size} $home/small)"
            );
            Self::launch(&around, "")
        })
    }

    pub(crate) fn small_disk(&self) -> String {
        format!("{}/small", self.home())
    }

    /// Starts a standby of this one.
    pub(crate) fn start_standby(&self) -> Self {
        let copy = format!(
            "postgres_as_user mkdir $home/own; \
             postgres_as_user $IDEM_POSTGRES_BIN/pg_basebackup -D $home/own/data -R -c fast -d {}; \
             postgres_free_port >$home/own/port",
            self.url
        );
        Self::launch(&copy, "")
    }

    fn launch(first: &str, options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display().to_string();
        let port = script(&format!(
            "postgres_install; home=$(postgres_home {path}); {first}\n\
             postgres_launch $home/own $IDEM_POSTGRES_BIN {options}; printf %s $port"
        ));
        Self { directory, url: format!("postgres://postgres@127.0.0.1:{port}/postgres") }
    }

    /// Lets in only who has a password.
    pub(crate) fn ask_for_passwords(&self) {
        let rule = "host all all 127.0.0.1/32 scram-sha-256";
        script(&format!("printf '%s\\n' '{rule}' >{}/own/data/pg_hba.conf", self.home()));
        self.reload();
    }

    fn reload(&self) {
        script(&format!("kill -HUP $(cat {})", self.pid_file().display()));
    }

    /// Kills every process of it with SIGKILL, the first one first, so that it cannot react. It is
    /// stopped before that, so that no child of its is born meanwhile and left behind. Where
    /// nobody buries the dead, as in a container, a server takes them for alive: so its lock file
    /// goes too.
    pub(crate) fn kill(&self) {
        let pid = self.pid_file();
        let pid = pid.display();
        script(&format!(
            "pid=$(cat {pid}); kill -STOP $pid; \
             while ! grep -q '^State:.[TZ]' /proc/$pid/status; do sleep 0.01; done; \
             children=$(ps -o pid= --ppid $pid); \
             kill -KILL $pid $children 2>/dev/null || true; \
             for one in $pid $children; do \
               while kill -0 $one 2>/dev/null && ! grep -q '^State:.Z' /proc/$one/status 2>/dev/null; \
               do sleep 0.01; done; \
             done; \
             rm -f $(dirname {pid})/data/postmaster.pid"
        ));
    }

    /// Starts it again, on its files and its port.
    pub(crate) fn restart(&self, options: &str) {
        let home = self.home();
        script(&format!("postgres_launch {home}/own $IDEM_POSTGRES_BIN {options}"));
    }

    fn home(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("home")).unwrap().trim().to_owned()
    }

    fn pid_file(&self) -> PathBuf {
        PathBuf::from(self.home()).join("own/pid")
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        script(&format!("postgres_stop {}", self.directory.path().display()));
    }
}

/// Runs commands of the start script, and gives what they print.
fn script(commands: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let sources = ". scripts/lib.sh; . scripts/servers.d/postgres.sh";
    let ended = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("{sources}; {commands}")])
        .env("IDEM_PGBOUNCER_URL", "unused")
        .current_dir(root)
        .output()
        .expect("bash runs");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{commands}: {error}");
    String::from_utf8(ended.stdout).unwrap()
}
