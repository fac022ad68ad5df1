//! One write of a relay or an operator: a transaction under the lock that orders them.

use idem_core::error::{StoreError, Verb};
use mysql_async::{Row, Transaction, TxOpts, Value};

use crate::failure::{self, Fault, Stage};
use crate::session;
use crate::sql::CHUNKS;
use crate::store::Shared;
use crate::verbs::{MAX_RACES, pause};
use crate::via::{Via, too_many_races};

const VERB: Verb = Verb::Relay;

/// An open transaction of a relay.
pub(super) struct Work<'c>(Transaction<'c>);

impl Work<'_> {
    pub(super) async fn rows(
        &mut self,
        statement: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, Fault> {
        session::rows(&mut self.0, statement, values, VERB, Stage::Inside).await
    }

    pub(super) async fn run(&mut self, statement: &str, values: Vec<Value>) -> Result<u64, Fault> {
        Ok(session::run(&mut self.0, statement, values, VERB, Stage::Inside).await?.rows)
    }

    /// Reads one number.
    pub(super) async fn number(
        &mut self,
        statement: &str,
        values: Vec<Value>,
    ) -> Result<i64, Fault> {
        let row = self.rows(statement, values).await?.pop();
        let [number] = crate::row::numbers(row, VERB)?;
        Ok(number.unwrap_or_default())
    }

    /// Runs a statement on `items` in chunks, each after `before`, and sums up the rows.
    pub(super) async fn in_chunks(
        &mut self,
        statements: &[String],
        before: &[Value],
        items: &[Value],
    ) -> Result<u64, Fault> {
        let (mut rows, mut rest) = (0, items);
        for (statement, size) in statements.iter().zip(CHUNKS) {
            while let Some((chunk, after)) =
                rest.split_at_checked(size).filter(|_| !rest.is_empty())
            {
                rows += self.run(statement, [before, chunk].concat()).await?;
                rest = after;
            }
        }
        Ok(rows)
    }

    /// Reads with a statement on `items` in chunks.
    pub(super) async fn rows_in_chunks(
        &mut self,
        statements: &[String],
        items: &[Value],
    ) -> Result<Vec<Row>, Fault> {
        let (mut rows, mut rest) = (Vec::new(), items);
        for (statement, size) in statements.iter().zip(CHUNKS) {
            while let Some((chunk, after)) =
                rest.split_at_checked(size).filter(|_| !rest.is_empty())
            {
                rows.extend(self.rows(statement, chunk.to_vec()).await?);
                rest = after;
            }
        }
        Ok(rows)
    }
}

/// What is done in one transaction.
#[idem_core::async_trait]
pub(super) trait Job: Sync {
    type Outcome: Send;

    async fn work(&self, work: &mut Work<'_>) -> Result<Self::Outcome, Fault>;
}

/// Does a job after `lock`; again where another transaction was in the way.
pub(super) async fn run<J: Job>(
    shared: &Shared,
    lock: Option<&str>,
    job: &J,
) -> Result<J::Outcome, StoreError> {
    let via = &mut shared.own(VERB).await?;
    shared.within(VERB, true, again(via, lock, job)).await
}

async fn again<J: Job>(
    via: &mut Via<'_>,
    lock: Option<&str>,
    job: &J,
) -> Result<J::Outcome, StoreError> {
    for race in 1..=MAX_RACES {
        match once(via, lock, job).await {
            Err(Fault::Conflict(_) | Fault::Locked(_)) => pause(race).await,
            done => return done.map_err(Fault::into_error),
        }
    }
    Err(too_many_races(VERB))
}

async fn once<J: Job>(via: &mut Via<'_>, lock: Option<&str>, job: &J) -> Result<J::Outcome, Fault> {
    let Via::Own(connection) = via else { return Err(too_many_races(VERB).into()) };
    let failed = |stage| move |error| failure::fault(VERB, stage, error);
    let began = connection.start_transaction(TxOpts::default()).await;
    let mut work = Work(began.map_err(failed(Stage::Inside))?);
    if let Some(lock) = lock {
        work.rows(lock, Vec::new()).await?;
    }
    let outcome = job.work(&mut work).await?;
    work.0.commit().await.map_err(failed(Stage::Committing))?;
    Ok(outcome)
}
