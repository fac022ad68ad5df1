//! A small right store whose statements decide, on a file of SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use idem_core::async_trait;
use idem_core::claim::{Acquired, Claim, Claimed};
use idem_core::codec::Sealed;
use idem_core::cursor::LapsedPosition;
use idem_core::error::{ErrorKind, StoreError, Verb};
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, Observed, Record, Recovery, State};
use idem_core::store::{Cursor, Lease, Page, Renewed, Store, Swept, page_size};
use idem_core::time::{Clock, Timestamp};
use idem_core::transition::{self, Change, Decision};
use idem_testkit::fixture::SetupError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection, Row, SqlSafeStr};
use tokio::sync::Mutex;

use super::row::{self, Value};
use super::statements::Statements;

/// How long a call waits for somebody's write.
const BUSY: Duration = Duration::from_secs(10);

/// One connection. Clones share it.
#[derive(Clone)]
pub(crate) struct SqlStore {
    shared: Arc<Shared>,
}

struct Shared {
    connection: Mutex<SqliteConnection>,
    statements: Statements,
    clock: Arc<dyn Clock>,
}

type Rows = Result<Vec<SqliteRow>, StoreError>;

impl SqlStore {
    pub(crate) async fn open(
        path: &Path,
        statements: Statements,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY);
        // Nobody cuts the power of a test.
        let options = options.synchronous(SqliteSynchronous::Off).pragma("journal_mode", "WAL");
        let mut connection =
            SqliteConnection::connect_with(&options.create_if_missing(true)).await?;
        let table = statements.table.replacen("TABLE", "TABLE IF NOT EXISTS", 1);
        sqlx::query(AssertSqlSafe(table).into_sql_str()).execute(&mut connection).await?;
        let connection = Mutex::new(connection);
        Ok(Self { shared: Arc::new(Shared { connection, statements, clock }) })
    }

    /// One transaction, in a task of its own: a caller that goes away leaves nothing half done.
    async fn transact<T: Send + 'static>(
        &self,
        verb: Verb,
        body: impl for<'c> FnOnce(&'c mut Open<'_>) -> BoxFuture<'c, Result<T, StoreError>>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let mut connection = shared.connection.lock().await;
            let statements = &shared.statements;
            let mut open = Open { connection: &mut connection, verb, statements, now: None };
            open.run(&statements.begin, &[]).await?;
            open.now = Some(shared.clock.now());
            let outcome = body(&mut open).await;
            // What was refused has written nothing: every statement decides by itself.
            let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
            open.run(end, &[]).await?;
            outcome
        });
        task.await.expect("no statement panics")
    }

    /// A fenced write: the row that it made, or what the rules say about the one that stands.
    async fn fenced<T: Send + 'static>(
        &self,
        verb: Verb,
        fence: &Fence,
        write: fn(&Statements) -> &String,
        (lease, number, payload): (Duration, u32, &[u8]),
        explain: impl Fn(Option<&Record>, Timestamp) -> Decision<T> + Send + 'static,
    ) -> Result<Written<T>, StoreError> {
        let (fence, payload) = (fence.clone(), payload.to_vec());
        self.transact(verb, move |open| {
            Box::pin(async move {
                let now = open.now();
                let found = open.find(&fence.scope, &fence.key).await?;
                let values = row::of_fence(&fence, now, lease, number, &payload);
                if let Some(written) = open.one(write(open.statements), &values).await? {
                    return Ok(Written::Row(Box::new(written), now));
                }
                open.explain(explain(found.as_ref(), now)).map(Written::Nothing)
            })
        })
        .await
    }
}

/// What a fenced write came to.
enum Written<T> {
    /// It made the row this, at this time.
    Row(Box<Record>, Timestamp),
    /// It touched no row, and this is what that means.
    Nothing(T),
}

/// An open transaction.
struct Open<'s> {
    connection: &'s mut SqliteConnection,
    verb: Verb,
    statements: &'s Statements,
    now: Option<Timestamp>,
}

impl Open<'_> {
    /// The store's time, read once the write lock was held.
    fn now(&self) -> Timestamp {
        self.now.expect("it is read when a transaction begins")
    }

    async fn run(&mut self, statement: &str, values: &[Value]) -> Rows {
        let mut query = sqlx::query(AssertSqlSafe(statement.to_owned()).into_sql_str());
        for value in values {
            query = match value {
                Value::Bytes(bytes) => query.bind(bytes.clone()),
                Value::Number(number) => query.bind(*number),
                Value::Text(text) => query.bind(text.clone()),
            };
        }
        query.fetch_all(&mut *self.connection).await.map_err(|_| {
            StoreError::new(ErrorKind::NotApplied, self.verb, "the statement was not executed")
        })
    }

    async fn one(
        &mut self,
        statement: &str,
        values: &[Value],
    ) -> Result<Option<Record>, StoreError> {
        let rows = self.run(statement, values).await?;
        rows.first().map(|found| row::decode(found, self.verb)).transpose()
    }

    async fn find(&mut self, scope: &Scope, key: &Key) -> Result<Option<Record>, StoreError> {
        let values = [row::bytes(scope.as_bytes()), row::bytes(key.as_bytes())];
        let find = &self.statements.find;
        self.one(find, &values).await
    }

    /// The first statement that touches a row decides.
    async fn claim(&mut self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let (now, fresh) = (self.now(), Incarnation::random());
        let found = self.find(claim.scope, claim.key).await?;
        let values = row::of_claim(claim, now, fresh);
        let Statements { insert, own, replace, take, .. } = self.statements;
        for (statement, replaced) in [(insert, false), (own, false), (replace, true), (take, false)]
        {
            if let Some(record) = self.one(statement, &values).await? {
                return Ok(acquired(record, now, replaced));
            }
        }
        self.explain(transition::claim(found.as_ref(), claim, now, fresh))
    }

    /// What the rules say where no statement wrote anything.
    fn explain<T>(&self, decision: Decision<T>) -> Result<T, StoreError> {
        match decision.change {
            Change::None => decision.outcome.map_err(|refusal| refusal.at(self.verb)),
            _ => {
                let detail = "no statement did what the rules allow";
                Err(StoreError::new(ErrorKind::NotApplied, self.verb, detail))
            }
        }
    }
}

/// What the winner of a claim is told about the row that it made.
fn acquired(record: Record, now: Timestamp, replaced: bool) -> Claimed {
    let State::InProgress { locked_until, .. } = record.state else {
        unreachable!("a claim writes a record in progress")
    };
    let held = Acquired::held(record.fence(), locked_until.since(now), record.fingerprint)
        .with_age(now.since(record.created_at))
        .with_recovery(record.recovery().cloned())
        .with_input(record.input);
    Claimed::Acquired(held.replacing(replaced))
}

fn lease_of(record: &Record, now: Timestamp) -> Lease {
    match record.state {
        State::InProgress { locked_until, .. } => Lease { remaining: locked_until.since(now) },
        State::Completed { .. } => Lease { remaining: Duration::ZERO },
    }
}

#[async_trait]
impl Store for SqlStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let (scope, key, operation) =
            (claim.scope.clone(), claim.key.clone(), claim.operation.clone());
        let (prints, input, asked) = (claim.fingerprints.clone(), claim.input.cloned(), *claim);
        let (owner, lease, retention) = (asked.owner, asked.lease, asked.retention);
        let (takeover, marks_begun) = (asked.takeover, asked.marks_begun);
        self.transact(Verb::Claim, move |open| {
            Box::pin(async move {
                let claim = Claim::new(
                    &scope, &key, owner, &operation, &prints, lease, retention, takeover,
                );
                let claim = claim.with_input(input.as_ref()).marking_begun(marks_begun);
                open.claim(&claim).await
            })
        })
        .await
    }

    async fn renew(&self, fence: &Fence, lease: Duration) -> Result<Renewed, StoreError> {
        let gives_up = lease.is_zero();
        let write: fn(&Statements) -> &String =
            if gives_up { |sql| &sql.give_up } else { |sql| &sql.renew };
        let of = fence.clone();
        let explain = move |found: Option<&Record>, now| transition::renew(found, &of, lease, now);
        match self.fenced(Verb::Renew, fence, write, (lease, 0, &[]), explain).await? {
            Written::Row(..) if gives_up => Ok(Renewed::GivenUp),
            Written::Row(record, now) => Ok(Renewed::Held(lease_of(&record, now))),
            Written::Nothing(told) => Ok(told),
        }
    }

    async fn checkpoint(
        &self,
        fence: &Fence,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Lease, StoreError> {
        let (of, point) = (fence.clone(), recovery.clone());
        let explain = move |found: Option<&Record>, now| {
            transition::checkpoint(found, &of, &point, lease, now)
        };
        let values = (lease, recovery.number, recovery.payload.as_bytes());
        let written =
            self.fenced(Verb::Checkpoint, fence, |sql| &sql.checkpoint, values, explain).await?;
        Ok(match written {
            Written::Row(record, now) => lease_of(&record, now),
            Written::Nothing((_, told)) => told,
        })
    }

    async fn complete(&self, fence: &Fence, reply: &Sealed) -> Result<(), StoreError> {
        let (of, sent) = (fence.clone(), reply.clone());
        let explain =
            move |found: Option<&Record>, now| transition::complete(found, &of, &sent, now);
        let values = (Duration::ZERO, 0, reply.as_bytes());
        self.fenced(Verb::Complete, fence, |sql| &sql.complete, values, explain).await.map(drop)
    }

    async fn release(&self, fence: &Fence) -> Result<(), StoreError> {
        let of = fence.clone();
        let explain = move |found: Option<&Record>, now| transition::release(found, &of, now);
        let values = (Duration::ZERO, 0, [].as_slice());
        self.fenced(Verb::Release, fence, |sql| &sql.release, values, explain).await.map(drop)
    }

    async fn get(&self, scope: &Scope, key: &Key) -> Result<Option<Observed>, StoreError> {
        let (scope, key) = (scope.clone(), key.clone());
        self.transact(Verb::Get, move |open| {
            Box::pin(async move {
                let now = open.now();
                let found = [
                    row::bytes(scope.as_bytes()),
                    row::bytes(key.as_bytes()),
                    row::number(now.as_unix_micros()),
                ];
                let get = &open.statements.get;
                let found = open.one(get, &found).await?;
                Ok(found.map(|record| Observed { record, now }))
            })
        })
        .await
    }

    async fn lapsed(&self, after: Option<&Cursor>, limit: u32) -> Result<Page, StoreError> {
        let after = after.map(LapsedPosition::from_cursor).transpose()?;
        self.transact(Verb::Lapsed, move |open| {
            Box::pin(async move {
                let (now, limit) = (open.now(), page_size(limit));
                let mut values = vec![row::number(now.as_unix_micros()), row::number(limit + 1)];
                if let Some(after) = after {
                    values.push(row::number(after.locked_until.as_unix_micros()));
                    values.push(row::bytes(after.scope.as_bytes()));
                    values.push(row::bytes(after.key.as_bytes()));
                }
                let mut records = Vec::new();
                let lapsed = &open.statements.lapsed;
                for found in open.run(lapsed, &values).await? {
                    records.push(Observed { record: row::decode(&found, open.verb)?, now });
                }
                let more = records.len() > usize::try_from(limit).expect("a page is small");
                records.truncate(usize::try_from(limit).expect("a page is small"));
                let last = records.last().filter(|_| more).and_then(LapsedPosition::of);
                Ok(Page { records, next: last.map(|position| position.to_cursor()) })
            })
        })
        .await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.transact(Verb::Sweep, move |open| {
            Box::pin(async move {
                let now = row::number(open.now().as_unix_micros());
                let sweep = format!("{} RETURNING 1", open.statements.sweep);
                let deleted =
                    open.run(&sweep, &[now.clone(), row::number(page_size(limit))]).await?;
                let more = &open.statements.more;
                let more = open.run(more, &[now]).await?;
                let more = more.first().is_some_and(|row| row.get::<i64, _>(0) == 1);
                let deleted = u32::try_from(deleted.len()).expect("a batch is small");
                Ok(Swept { deleted, more })
            })
        })
        .await
    }
}
