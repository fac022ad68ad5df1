//! What happens to a call: counted, delayed, carried out. It outlives its caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::charge::ChargeRequest;
use super::control::Control;
use super::ledger::{Ledger, LedgerError, Verdict};

/// The most calls that are carried out at once; more wait before they are counted.
const MAX_IN_FLIGHT: u32 = 1024;

/// A running card network.
#[derive(Clone)]
pub(super) struct Network {
    ledger: Arc<Mutex<Ledger>>,
    pub(super) control: Arc<Control>,
    in_flight: Arc<Semaphore>,
}

/// What a call came to, and whether its caller is to hear of it.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) drop_answer: bool,
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// Told to fail.
    #[error("the network failed, as told")]
    Failed,
    /// The ledger could not take it.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The program is ending.
    #[error("the network is ending")]
    Ending,
}

impl Network {
    pub(super) fn new(ledger: Ledger, control: Control) -> Self {
        Self {
            ledger: Arc::new(Mutex::new(ledger)),
            control: Arc::new(control),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT as usize)),
        }
    }

    /// Counts a call and carries it out.
    ///
    /// # Cancel safety
    /// Once it was counted, a call is carried out whether or not this future is still there: a
    /// real network does not take back a charge because the merchant's server died.
    pub(super) async fn call(
        &self,
        key: String,
        request: ChargeRequest,
    ) -> Result<Outcome, CallError> {
        let in_flight = self.in_flight.clone().acquire_owned().await.expect("it is never closed");
        let call = tokio::spawn(self.clone().carry_out(key, request, in_flight));
        call.await.unwrap_or_else(|error| Err(ended(error)))
    }

    /// Uses the ledger on a thread that may block.
    pub(super) async fn with_ledger<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Ledger) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let mut ledger = self.ledger.clone().lock_owned().await;
        tokio::task::spawn_blocking(move || work(&mut ledger)).await.map_err(ended)
    }

    /// Waits until no call is being carried out, for at most `limit`. Says whether that is so.
    pub(super) async fn drain(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.in_flight.acquire_many(MAX_IN_FLIGHT)).await.is_ok()
    }

    async fn carry_out(
        self,
        key: String,
        request: ChargeRequest,
        _in_flight: OwnedSemaphorePermit,
    ) -> Result<Outcome, CallError> {
        let (counted_key, caller) = (key.clone(), request.caller.clone());
        let number =
            self.with_ledger(move |ledger| ledger.count_call(&counted_key, &caller)).await??;
        self.control.delay().await;
        if self.control.take_failure() {
            return Err(CallError::Failed);
        }
        let control = self.control.clone();
        let verdict = self
            .with_ledger(move |ledger| {
                ledger.carry_out(number, &key, &request, || control.take_refusal())
            })
            .await??;
        Ok(Outcome { verdict, drop_answer: self.control.take_drop() })
    }
}

/// A task ends early by its own panic, which goes on, or because the runtime is ending.
fn ended(error: JoinError) -> CallError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => CallError::Ending,
    }
}
