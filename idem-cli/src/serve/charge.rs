//! The operation `charges.create`: one external effect, safe to retry and to resume.

use std::fmt;

use bytes::Bytes;
use idem_core::engine::{Execution, Failure};
use idem_core::input::Input;
use idem_core::operation::{Begun, Operation, OperationBuilder, OperationError};
use idem_core::reply::Reply;
use serde::{Deserialize, Serialize};

use super::failpoint::{Failpoints, Point};
use super::new_charge::NewCharge;
use super::problem::Problem;
use super::reply;
use crate::network::{CardNetwork, ChargeRequest, NetworkError};

/// Its name in the store, in the catalogue, and in the derivation of downstream keys.
pub const NAME: &str = "charges.create";

/// Makes the operation from the settings of the command line.
///
/// # Errors
/// [`OperationError`] for settings that do not go together.
pub(super) fn operation(settings: OperationBuilder) -> Result<Operation, OperationError> {
    // What the HTTP handler does before it begins is checking the request, so a rejection found
    // there frees the key.
    settings.resumable().begun(Begun::ByHandler).build()
}

/// What carries a charge out. Clones share it.
#[derive(Clone)]
pub(super) struct Charging {
    network: CardNetwork,
    failpoints: Failpoints,
}

/// What the card network made of a charge: stored as the recovery point of the step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Settled {
    Charged { id: String, created: u64 },
    Declined { id: String },
}

impl Charging {
    pub(super) fn new(network: CardNetwork, failpoints: Failpoints) -> Self {
        Self { network, failpoints }
    }

    /// Charges what the stored input asks for: called by the HTTP handler once it has checked the
    /// request, and by whoever resumes an execution without its client.
    ///
    /// A decline is a definite answer. Anything that leaves the outcome open, a network that
    /// cannot be reached included, is a [`Failure`]: the next attempt calls again under the same
    /// downstream key.
    pub(super) async fn run(self, execution: Execution) -> Result<Reply, Failure> {
        // It was accepted before it began. If this version of the program no longer accepts it, a
        // person has to look: it may have been charged.
        let request = check(&execution).map_err(|_| StoredInputFault)?;
        let settled: Settled = execution
            .step("charge", async |key| {
                self.failpoints.reach(Point::BeforeCall).await;
                let answer = self.call(&execution, &request, key.as_str()).await?;
                self.failpoints.reach(Point::AfterCall).await;
                Ok::<_, NetworkError>(answer)
            })
            .await?;
        let reply = match settled {
            Settled::Charged { id, created } => reply::charged(&id, created, &request)?,
            Settled::Declined { id } => reply::declined(&id),
        };
        // Here and not in the store: the engine waits only so long for a store, and a test may
        // take its time.
        self.failpoints.reach(Point::BeforeComplete).await;
        Ok(reply)
    }

    async fn call(
        &self,
        execution: &Execution,
        request: &NewCharge,
        key: &str,
    ) -> Result<Settled, NetworkError> {
        let request = ChargeRequest {
            caller: execution.scope().as_str().to_owned(),
            amount: request.amount,
            currency: request.currency.to_owned(),
            description: request.description.clone(),
            reference: None,
        };
        match self.network.charge(&request, key).await {
            Ok(charge) => Ok(Settled::Charged { id: charge.id, created: charge.created }),
            Err(NetworkError::Declined { id }) => Ok(Settled::Declined { id }),
            Err(error) => Err(error),
        }
    }
}

/// Checks the request of the first claim, which a takeover gets too, whatever its own client sent.
///
/// # Errors
/// The [`Problem`] to reject it with.
pub(super) fn check(execution: &Execution) -> Result<NewCharge, Problem> {
    let input = execution.input();
    let body = input.map(|input| &input.body()[..]).unwrap_or_default();
    NewCharge::read(input.and_then(content_type).as_deref(), body)
}

fn content_type(input: &Input) -> Option<Bytes> {
    let mut headers = input.headers().iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))?;
    Some(value.clone())
}

/// The stored input is not there, or not a charge any more.
#[derive(Debug, Clone, Copy)]
struct StoredInputFault;

impl fmt::Display for StoredInputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stored input is not a charge that this version accepts")
    }
}

impl std::error::Error for StoredInputFault {}
