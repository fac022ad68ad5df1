//! Which record a command is about.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use idem_core::admin::Admin;
use idem_core::key::{Key, MAX_NAME_BYTES, Scope};
use idem_core::record::Observed;

use super::find;
use super::text::unescape;
use crate::backends::store_failure;
use crate::exit::{Exit, Failure};

/// One record, by its scope and key.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    key: KeyArgs,
}

/// A scope. A group, so that whoever gives neither is told of both.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ScopeArgs {
    /// Whose key, as `list` and `stuck` show it.
    #[arg(long)]
    scope: Option<String>,

    /// The beginning of a scope, in place of the whole: the one scope that begins so and has this
    /// key. All records may have to be looked through for it.
    #[arg(long, value_name = "TEXT")]
    scope_prefix: Option<String>,
}

/// A key.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct KeyArgs {
    /// Which key, as `list` and `stuck` show it: `\xNN` for a byte that is not printable, `\\` for
    /// a backslash.
    #[arg(long)]
    key: Option<String>,

    /// Read the key from this file, byte for byte but for a line end, so that it does not stand in
    /// the shell's history; `-` is standard input.
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
}

impl RecordArgs {
    /// Whether the key comes from standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.key.key_file.as_deref().is_some_and(is_stdin)
    }

    /// Reads the record.
    pub(super) async fn read(&self, store: &dyn Admin) -> Result<Observed, Failure> {
        let key = self.key.read()?;
        let scope = match (&self.scope.scope, &self.scope.scope_prefix) {
            (None, Some(prefix)) => {
                let prefix = unescape(prefix).map_err(|why| Failure::new(Exit::Usage, why))?;
                find::scope(store, &prefix, &key).await?
            }
            (scope, _) => whole_scope(scope.as_deref().unwrap_or_default())?,
        };
        let found = store.get(&scope, &key).await.map_err(store_failure)?;
        found.ok_or_else(|| Failure::new(Exit::CheckFailed, "there is no such record"))
    }
}

impl KeyArgs {
    /// The key as it was given.
    pub(super) fn read(&self) -> Result<Key, Failure> {
        let key = match (&self.key, &self.key_file) {
            (_, Some(file)) => key_in(file)?,
            (Some(key), None) => unescape(key).map_err(|error| Failure::new(Exit::Usage, error))?,
            (None, None) => Vec::new(),
        };
        Key::opaque(key).map_err(|error| Failure::new(Exit::Usage, error))
    }
}

/// A scope as `list` shows it.
pub(super) fn whole_scope(text: &str) -> Result<Scope, Failure> {
    let scope = unescape(text).map_err(|error| Failure::new(Exit::Usage, error))?;
    Scope::from_bytes(scope).map_err(|error| Failure::new(Exit::Usage, error))
}

/// The attempt that a person looked at.
#[derive(Debug, clap::Args)]
pub(super) struct AttemptArgs {
    /// Do nothing unless the record still stands at this attempt, as `inspect` showed it.
    #[arg(long = "at-attempt", value_name = "N")]
    at_attempt: Option<u32>,
}

impl AttemptArgs {
    pub(super) fn check(&self, seen: &Observed) -> Result<(), Failure> {
        let stands = seen.record.attempt;
        match self.at_attempt {
            Some(asked) if asked != stands => {
                let why = format!("it stands at attempt {stands} by now; nothing was done");
                Err(Failure::new(Exit::CheckFailed, why))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a path stands for standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// At most `limit` bytes of a file or of standard input; more is an error.
pub(super) fn read_limited(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = limit as u64 + 1;
    let read = match is_stdin(path) {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    match read {
        Ok(_) if bytes.len() > limit => {
            let why = format!("{}: more than {limit} bytes", path.display());
            Err(Failure::new(Exit::Usage, why))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::new(Exit::Usage, format!("{}: {error}", path.display()))),
    }
}

fn key_in(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut key = read_limited(file, MAX_NAME_BYTES + 2)?;
    if key.ends_with(b"\n") {
        key.pop();
        if key.ends_with(b"\r") {
            key.pop();
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_taken_byte_for_byte_but_for_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        for (content, key) in
            [("a\\b", &b"a\\b"[..]), ("k\n", b"k"), ("k\r\n", b"k"), ("k \n\n", b"k \n")]
        {
            std::fs::write(&file, content).unwrap();
            assert_eq!(key_in(&file).unwrap(), key);
        }
        std::fs::write(&file, "k".repeat(400)).unwrap();
        assert_eq!(key_in(&file).unwrap_err().exit(), Exit::Usage);
    }
}
