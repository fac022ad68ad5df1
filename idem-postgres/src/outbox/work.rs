//! One statement in a transaction of its own that begins with a lock.

use idem_core::error::{ErrorKind, StoreError, Verb};
use sqlx::SqlStr;
use sqlx::postgres::PgRow;
use tokio::time::timeout;

use crate::arguments::Arguments;
use crate::failure::{self, Fault, Stage};
use crate::session::Session;
use crate::store::Shared;
use crate::verbs::{MAX_RACES, pause, too_many_races};

/// How often a call queues for the lock, each time for the store's bound on waits.
const MAX_QUEUES: u32 = 4;

/// How a statement is run.
pub(super) struct Work<'w> {
    pub(super) shared: &'w Shared,
    /// Begins the transaction, bounds its waits, and takes the lock. It is READ COMMITTED: the
    /// statement sees what was committed before the lock was there.
    pub(super) begin: &'w SqlStr,
}

impl Work<'_> {
    /// Runs the statement; what a concurrent transaction was in the way of is sent again.
    pub(super) async fn run(
        &self,
        statement: &SqlStr,
        arguments: impl Fn() -> Arguments,
    ) -> Result<Vec<PgRow>, StoreError> {
        let verb = Verb::Relay;
        for race in 1..MAX_RACES {
            let sent = timeout(self.shared.settings.call_limit, self.once(statement, arguments()));
            match sent.await {
                Ok(Err(Fault::Conflict(_))) => pause(race).await,
                // Nobody holds the relays' lock for long, but many may queue for it.
                Ok(Err(Fault::Locked(_))) if race < MAX_QUEUES => {}
                Ok(sent) => return sent.map_err(Fault::into_error),
                Err(_) => {
                    let detail = "the server did not answer in time";
                    return Err(StoreError::new(ErrorKind::OutcomeUnknown, verb, detail));
                }
            }
        }
        Err(too_many_races(verb))
    }

    async fn once(&self, statement: &SqlStr, arguments: Arguments) -> Result<Vec<PgRow>, Fault> {
        let verb = Verb::Relay;
        let arguments = arguments.finish()?;
        let persistent = !self.shared.settings.pooled;
        let mut session = Session::acquire(&self.shared.pool, verb).await?;
        session.begin(self.begin, verb).await?;
        match session.fetch(statement, arguments, persistent).await {
            Ok(rows) => session.commit(verb).await.map(|()| rows),
            Err(error) => {
                let answered = matches!(error, sqlx::Error::Database(_));
                let fault = failure::fault(verb, Stage::Inside, error);
                if answered {
                    session.roll_back(verb).await?;
                }
                Err(fault)
            }
        }
    }
}
