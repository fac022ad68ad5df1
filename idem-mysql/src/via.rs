//! What a verb runs on: a connection of its own, or a handler's transaction.

use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::Fence;
use mysql_async::{Conn, Row, Value};

use crate::failure::{Fault, Stage};
use crate::row::{self, Found};
use crate::session::{self, Done};
use crate::sql::Find;
use crate::store::Shared;
use crate::tx::MysqlTransaction;
use crate::write::Identity;

/// What a verb runs on.
pub(crate) enum Via<'t> {
    /// A connection of its own: each statement commits by itself.
    Own(Box<Conn>),
    /// A handler's transaction: what is read is locked.
    Transaction(&'t mut MysqlTransaction),
}

/// Which of a record's long columns a verb reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    All,
    None,
    Recovery,
    Reply,
}

impl Via<'_> {
    pub(crate) async fn rows(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
        verb: Verb,
    ) -> Result<Vec<Row>, Fault> {
        match self {
            Self::Own(connection) => {
                session::rows(&mut **connection, statement, parameters, verb, Stage::Reading).await
            }
            Self::Transaction(transaction) => transaction.rows(statement, parameters, verb).await,
        }
    }

    /// Runs a statement that writes.
    pub(crate) async fn run(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
        verb: Verb,
    ) -> Result<Done, Fault> {
        match self {
            Self::Own(connection) => {
                let stage = Stage::Committing;
                session::run(&mut **connection, statement, parameters, verb, stage).await
            }
            Self::Transaction(transaction) => transaction.run(statement, parameters, verb).await,
        }
    }

    /// Runs a statement that changes the one record that was read, and says whether it still
    /// stood so. Each of them changes `revision`, so the count means the same with
    /// `CLIENT_FOUND_ROWS` and without it.
    pub(crate) async fn change(
        &mut self,
        statement: &str,
        mut values: Vec<Value>,
        found: &Identity,
        verb: Verb,
    ) -> Result<bool, Fault> {
        values.extend(found.values());
        Ok(self.run(statement, values, verb).await?.rows == 1)
    }

    /// Reads one record, expired or not. In a transaction it is locked from then on.
    pub(crate) async fn find(
        &mut self,
        shared: &Shared,
        (scope, key): (&Scope, &Key),
        payloads: Payloads,
        verb: Verb,
    ) -> Result<Option<Found>, Fault> {
        let statements = &shared.statements;
        let Find { all, short, with_recovery, with_reply } = match self {
            Self::Own(_) => &statements.find,
            Self::Transaction(_) => &statements.lock,
        };
        let statement = match payloads {
            Payloads::All => all,
            Payloads::None => short,
            Payloads::Recovery => with_recovery,
            Payloads::Reply => with_reply,
        };
        let parameters = vec![scope.as_bytes().into(), key.as_bytes().into()];
        let mut rows = self.rows(statement, parameters, verb).await?;
        Ok(rows.pop().map(|row| row::found(row, verb)).transpose()?)
    }

    /// Makes ready to run again after a conflict, if that can be done: a transaction in which
    /// something was done before is its owner's to run again.
    pub(crate) async fn may_repeat(&mut self, verb: Verb) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Transaction(transaction) => transaction.begin_anew(verb).await.is_ok(),
        }
    }

    /// Keeps the revision that a claim wrote in a handler's transaction.
    pub(crate) fn note_revision(&mut self, revision: i64) {
        if let Self::Transaction(transaction) = self {
            transaction.note_revision(revision);
        }
    }

    /// Fails where a handler's transaction held or claimed the record, and what was found shows
    /// that the server has taken that back.
    pub(crate) fn expect_standing(
        &mut self,
        fence: &Fence,
        found: Option<&Found>,
        verb: Verb,
    ) -> Result<(), StoreError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Transaction(transaction) => transaction.expect_standing(fence, found, verb),
        }
    }

    /// Whether what is written stands at once.
    pub(crate) fn commits(&self) -> bool {
        matches!(self, Self::Own(_))
    }
}

/// The record kept changing under this call's hands.
pub(crate) fn too_many_races(verb: Verb) -> StoreError {
    let detail = "the record kept changing; nothing was written";
    StoreError::new(ErrorKind::NotApplied, verb, detail)
}
