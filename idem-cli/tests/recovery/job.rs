//! The job: two calls to a card network, rows of a step between them, and rows with the reply.

use std::time::Duration;

use idem_cli::network::{CardNetwork, ChargeRequest, NetworkError};
use idem_core::engine::{Engine, Execution, Failure};
use idem_core::operation::Operation;
use idem_core::reply::Reply;

use crate::backend::Backend;
use crate::failing::Failing;
use crate::points::reach;

/// Short, so that what a dead process held is soon lapsed; heartbeats renew it.
const LEASE: Duration = Duration::from_millis(700);

/// What a job does at the card network, as amounts of its caller.
pub(crate) const EFFECTS: [u64; 2] = [700, 800];
/// What it writes into its own database.
pub(crate) const ROWS: [&str; 3] = ["order", "reserved", "reserved too"];

pub(crate) fn operation() -> Operation {
    Operation::builder("orders.place")
        .lease(LEASE)
        // A transaction holds its key for so long after a crash.
        .transaction_limit(Duration::from_secs(2))
        .attempts(1_000)
        .resumable()
        .build()
        .unwrap()
}

pub(crate) fn engine<B: Backend>(store: Failing<B::Store>, network: CardNetwork) -> Engine {
    let own = store.clone();
    Engine::builder(store)
        .namespace("recovery")
        .unwrap()
        .register(&operation(), move |execution| {
            place::<B>(execution, own.clone(), network.clone())
        })
        .build()
        .unwrap()
}

async fn place<B: Backend>(
    execution: Execution,
    store: Failing<B::Store>,
    network: CardNetwork,
) -> Result<Reply, Failure> {
    let paid = charge(&execution, &network, "pay", EFFECTS[0]).await?;
    let job = String::from_utf8_lossy(execution.key().as_bytes()).into_owned();
    if execution.done::<u8>("reserve").await?.is_none() {
        let mut transaction = execution.transaction(&store).await?;
        for row in &ROWS[1..] {
            reach("before a row");
            B::insert(transaction.connection(), &job, row).await?;
        }
        reach("after the rows");
        transaction.commit_step("reserve", &1_u8).await?;
    }
    let shipped = charge(&execution, &network, "ship", EFFECTS[1]).await?;
    let mut transaction = execution.transaction(&store).await?;
    B::insert(transaction.connection(), &job, ROWS[0]).await?;
    reach("after the last row");
    let committed = transaction.commit(format!("{paid} {shipped}")).await?;
    reach("after the job");
    Ok(committed.into())
}

/// One external effect, once for each downstream key; its id is the result on record.
async fn charge(
    execution: &Execution,
    network: &CardNetwork,
    step: &str,
    amount: u64,
) -> Result<String, Failure> {
    let request = ChargeRequest {
        caller: String::from_utf8_lossy(execution.key().as_bytes()).into_owned(),
        amount,
        currency: "eur".into(),
        description: None,
        reference: None,
    };
    execution
        .step(step, async |key| {
            reach("before the call");
            let charge = network.charge(&request, key.as_str()).await?;
            reach("after the call");
            Ok::<_, NetworkError>(charge.id)
        })
        .await
}
