//! The secret of the hashes that stand for keys in logs (R24): servers write them, and an operator
//! who has it computes the same ones.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use idem_core::log_hash::KeyHasher;

use crate::exit::{Exit, Failure};

/// The most bytes of a secret.
const MAX_SECRET_BYTES: u64 = 4_096;

/// Where the secret of the hashes is.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HashSecretArgs {
    /// The file with the secret that keys the hashes in the logs: 16 bytes or more, a line end at
    /// its end not counted. Servers and commands with the same secret show the same hash for a key.
    #[arg(long = "hash-secret", value_name = "PATH", env = "IDEM_HASH_SECRET_FILE")]
    file: Option<PathBuf>,
}

impl HashSecretArgs {
    /// The hasher with this secret; `None` where no file was named.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a secret that is too short or too long, [`Exit::Setup`] for a file that
    /// cannot be read.
    pub fn hasher(&self) -> Result<Option<KeyHasher>, Failure> {
        self.file.as_deref().map(read).transpose()
    }

    /// As [`hasher`](Self::hasher), where there must be one.
    ///
    /// # Errors
    /// [`Exit::Usage`] where no file was named, and those of [`hasher`](Self::hasher).
    pub fn needed(&self) -> Result<KeyHasher, Failure> {
        self.hasher()?.ok_or_else(Self::missing)
    }

    /// The refusal of what needs a secret.
    pub fn missing() -> Failure {
        let why = "a hash needs the service's secret: name its file with --hash-secret or \
                   IDEM_HASH_SECRET_FILE";
        Failure::new(Exit::Usage, why)
    }
}

fn read(path: &Path) -> Result<KeyHasher, Failure> {
    let failure = |exit, why: &dyn std::fmt::Display| {
        Failure::new(exit, format!("the hash secret in {}: {why}", path.display()))
    };
    let mut secret = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut secret))
        .map_err(|error| failure(Exit::Setup, &error))?;
    if secret.len() as u64 > MAX_SECRET_BYTES {
        return Err(failure(Exit::Usage, &format_args!("more than {MAX_SECRET_BYTES} bytes")));
    }
    let line = secret.strip_suffix(b"\r\n").or_else(|| secret.strip_suffix(b"\n"));
    let secret = line.unwrap_or(&secret);
    KeyHasher::new(secret).map_err(|error| failure(Exit::Usage, &error))
}

#[cfg(test)]
mod tests {
    use idem_core::key::{Key, Scope};

    use super::*;

    fn hash(content: &[u8]) -> Result<String, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, content).unwrap();
        let hasher = HashSecretArgs { file: Some(file) }.needed()?;
        let (scope, key) = (Scope::new("acct_1").unwrap(), Key::new("order-7").unwrap());
        Ok(hasher.hash(&scope, &key).to_string())
    }

    #[test]
    fn the_hash_is_that_of_the_core_whatever_ends_the_line() {
        // As in the documentation of `KeyHasher`.
        for end in ["", "\n", "\r\n"] {
            let content = format!("read from the service's settings{end}");
            assert_eq!(hash(content.as_bytes()).unwrap(), "2ff92493d03c0dbb", "{end:?}");
        }
        // By itself it is a byte of the secret, as any other.
        let ends_so = hash(b"read from the service's settings\r").unwrap();
        assert_ne!(ends_so, "2ff92493d03c0dbb");
    }

    #[test]
    fn a_secret_that_is_none_is_refused_without_showing_it() {
        for (content, exit) in [(&b"hunter2"[..], Exit::Usage), (&[b'x'; 5_000], Exit::Usage)] {
            let failure = hash(content).unwrap_err();
            assert_eq!(failure.exit(), exit);
            assert!(!failure.message().contains("hunter2"), "{}", failure.message());
        }
        let nowhere = HashSecretArgs { file: Some("/nowhere/at/all".into()) };
        assert_eq!(nowhere.needed().unwrap_err().exit(), Exit::Setup);
        assert_eq!(HashSecretArgs::default().needed().unwrap_err().exit(), Exit::Usage);
        assert!(HashSecretArgs::default().hasher().unwrap().is_none());
    }
}
