//! The arguments that `serve` and `fixture` share: where to listen, which store, and how requests
//! are protected.

use std::net::SocketAddr;
use std::time::Duration;

use idem_core::log_hash::KeyHasher;
use idem_core::operation::{Operation, OperationBuilder};
use idem_core::record::Retention;

use crate::exit::{Exit, Failure};
use crate::hash_secret::HashSecretArgs;
use crate::{duration, size};

/// The shortest lease that makes sense: heartbeats come three times as often.
pub const MIN_LEASE: Duration = Duration::from_millis(100);
/// The longest lease: for so long a crash blocks its key.
pub const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest retention.
pub const MIN_RETENTION: Duration = Duration::from_millis(100);
/// The most bytes of a body that can be asked for: bodies are held in memory.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How long heartbeats go on, unless the retention is too short for that.
const MAX_RUN_TIME: Duration = Duration::from_secs(15 * 60);
/// How long a reply is kept after completion at least, unless the retention is shorter.
const KEPT_AFTER_COMPLETION: Duration = Duration::from_secs(60 * 60);

/// What a server command is told about its store and its protection.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// The store: memory:, sqlite:PATH, postgres://..., mysql://..., redis://... or
    /// redis-cluster://...
    #[arg(long, value_name = "URL", env = "IDEM_STORE", hide_env_values = true)]
    pub store: String,

    /// The address to serve on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// How long a crash blocks its key; a running request renews it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub lease: Duration,

    /// How long a reply is kept, counted from the first request.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration::parse)]
    pub retention: Duration,

    /// The largest body of a request.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size::parse)]
    pub max_body: u64,

    /// The largest body of a reply that is kept; a larger one is answered once.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size::parse)]
    pub max_reply: u64,

    /// Let a duplicate wait this long for the first request to finish, instead of a 409 at once.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub wait: Option<Duration>,

    /// Where the secret of the hashes in the logs is; without it they are of this process only.
    #[command(flatten)]
    pub hash_secret: HashSecretArgs,

    /// End when standard input ends, and so with the process at its other end.
    #[arg(long, hide = true)]
    pub end_with_stdin: bool,
}

/// A setting that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The lease.
    #[error("--lease must be from {MIN_LEASE:?} to {} hours", MAX_LEASE.as_secs() / 3600)]
    Lease,
    /// The retention.
    #[error("--retention must be at least {MIN_RETENTION:?}")]
    Retention,
    /// The retention, compared with the lease.
    #[error("--retention must not be shorter than --lease")]
    RetentionBelowLease,
    /// No body at all.
    #[error("--max-body must be at least one byte")]
    NoBody,
    /// The size of a body.
    #[error("--max-body and --max-reply must be at most {} MiB", MAX_BYTES >> 20)]
    Size,
}

impl ServerArgs {
    /// Checks every setting against its range.
    ///
    /// # Errors
    /// [`Failure`] with [`Exit::Usage`] names the first that is out of range.
    pub fn check(&self) -> Result<(), Failure> {
        self.in_range().map_err(|error| Failure::new(Exit::Usage, error))
    }

    /// An operation with these settings.
    pub fn operation(&self, name: &str) -> OperationBuilder {
        let kept = self.retention.min(KEPT_AFTER_COMPLETION);
        let operation = Operation::builder(name)
            .lease(self.lease)
            .retention(Retention::at_least(self.retention, kept))
            // The published lifetime of a key is shorter than the retention by this.
            .max_run_time(MAX_RUN_TIME.min(self.retention / 2))
            .max_reply_bytes(self.max_reply_bytes());
        match self.wait {
            Some(wait) => operation.wait(wait),
            None => operation,
        }
    }

    /// What turns keys into the hashes of the logs: with the secret that was named, or one of this
    /// process's own.
    ///
    /// # Errors
    /// Those of [`HashSecretArgs::hasher`].
    pub fn key_hasher(&self) -> Result<KeyHasher, Failure> {
        Ok(self.hash_secret.hasher()?.unwrap_or_else(KeyHasher::random))
    }

    /// The largest body of a request, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        usize::try_from(self.max_body).unwrap_or(usize::MAX)
    }

    fn max_reply_bytes(&self) -> usize {
        usize::try_from(self.max_reply).unwrap_or(usize::MAX)
    }

    fn in_range(&self) -> Result<(), SettingError> {
        if !(MIN_LEASE..=MAX_LEASE).contains(&self.lease) {
            Err(SettingError::Lease)
        } else if self.retention < MIN_RETENTION {
            Err(SettingError::Retention)
        } else if self.retention < self.lease {
            Err(SettingError::RetentionBelowLease)
        } else if self.max_body == 0 {
            Err(SettingError::NoBody)
        } else if self.max_body.max(self.max_reply) > MAX_BYTES {
            Err(SettingError::Size)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn parse(more: &[&str]) -> ServerArgs {
        let args = ["idem", "--store", "memory:"].iter().chain(more);
        Command::try_parse_from(args).unwrap().server
    }

    #[test]
    fn the_defaults_are_in_range_and_go_together() {
        let args = parse(&[]);
        assert_eq!(args.in_range(), Ok(()));
        let operation = args.operation("op").resumable().build().unwrap();
        assert_eq!(operation.lease(), Duration::from_secs(30));
        assert_eq!(operation.published_lifetime(), Some(Duration::from_secs(24 * 3600 - 900)));
        assert_eq!(operation.wait(), None);
    }

    #[test]
    fn a_short_retention_still_publishes_a_lifetime() {
        let args = parse(&["--retention", "2s", "--wait", "500ms", "--max-reply", "1KiB"]);
        let operation = args.operation("op").resumable().build().unwrap();
        assert_eq!(operation.published_lifetime(), Some(Duration::from_secs(1)));
        assert_eq!(operation.wait(), Some(Duration::from_millis(500)));
        assert_eq!(operation.max_reply_bytes(), 1_024);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (args, error) in [
            (["--lease", "99ms"], SettingError::Lease),
            (["--lease", "25h"], SettingError::Lease),
            (["--retention", "0s"], SettingError::Retention),
            (["--retention", "29s"], SettingError::RetentionBelowLease),
            (["--max-body", "0"], SettingError::NoBody),
            (["--max-body", "1GiB"], SettingError::Size),
            (["--max-reply", "65MiB"], SettingError::Size),
        ] {
            let failure = parse(&args).check().unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage);
            assert_eq!(failure.message(), error.to_string());
        }
    }
}
