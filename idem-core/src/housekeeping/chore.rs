//! Work that is done again and again while a service runs.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// What a [`Runtime`](crate::housekeeping::Runtime) does in passes: reconciling, sweeping,
/// relaying, or something of your own.
///
/// A chore is safe to run in any number of processes at once: it leaves it to the store to decide
/// who does what. A pass that panics counts as one that failed.
#[async_trait]
pub trait Chore: Send + Sync + 'static {
    /// What it is called in logs and health reports.
    fn name(&self) -> &'static str;

    /// How long to wait between two passes, at most; the runtime takes a random part of it.
    fn interval(&self) -> Duration;

    /// One pass. Once `stop` is requested it takes nothing new up, and ends soon.
    ///
    /// # Errors
    /// Why the pass failed. The text appears in logs and health reports: it holds no key, no
    /// reply and no password (R24). The next pass tries again.
    ///
    /// # Cancel safety
    /// A runtime that is out of patience drops it at any await: what it held must come free by
    /// itself.
    async fn pass(&self, stop: &Stop) -> Result<Pass, ChoreError>;

    /// How long ago the pass that runs last got on, for a chore whose pass may go on for as long as
    /// there is work: it is not late meanwhile. `None`, unless it is told, and before the first
    /// time.
    fn since_progress(&self) -> Option<Duration> {
        None
    }
}

/// Why a pass failed.
pub type ChoreError = Box<dyn Error + Send + Sync + 'static>;

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pass {
    pub(super) work: u64,
    pub(super) again_in: Option<Duration>,
    pub(super) counts: Vec<(&'static str, u64)>,
}

impl Pass {
    /// A pass that did so many things.
    pub fn of(work: u64) -> Self {
        Self { work, ..Self::default() }
    }

    /// There is more to do: the next pass comes in this time, and not after the interval.
    #[must_use]
    pub fn again_in(mut self, pause: Duration) -> Self {
        self.again_in = Some(pause);
        self
    }

    /// What the pass found, such as how many records wait for a person: shown in health reports
    /// until the next one.
    #[must_use]
    pub fn counting(mut self, name: &'static str, count: u64) -> Self {
        self.counts.push((name, count));
        self
    }
}

/// Whether a chore is asked to end. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// Nobody asks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. It is never taken back.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is asked for.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }
}

const _: Option<&dyn Chore> = None; // The trait stays usable as `dyn Chore`.
