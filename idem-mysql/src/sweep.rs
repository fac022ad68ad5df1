//! Deleting many records: those that expired, and those of a scope.
//!
//! What may go is looked for without a lock. Then, in short transactions, what still stands as it
//! was read is locked and deleted; what another has locked is passed over.

use idem_core::error::{StoreError, Verb};
use idem_core::store::Swept;
use mysql_async::{Conn, TxOpts, Value};

use crate::failure::{Fault, Stage};
use crate::row;
use crate::session;
use crate::sql::CHUNKS;
use crate::store::Shared;
use crate::verbs::{MAX_RACES, pause};
use crate::via::Via;
use crate::write::Identity;

pub(crate) async fn sweep(shared: &Shared, limit: u32) -> Result<Swept, StoreError> {
    let verb = Verb::Sweep;
    let via = &mut shared.own(verb).await?;
    shared
        .within(verb, true, async {
            let parameters = vec![(u64::from(limit) + 1).into()];
            let (deleted, more) =
                clear(shared, via, &shared.statements.sweepable, parameters, limit, verb).await?;
            Ok(Swept { deleted, more })
        })
        .await
}

/// Deletes up to `limit` of the records that `statement` looks for, and says how many went and
/// whether more wait.
pub(crate) async fn clear(
    shared: &Shared,
    via: &mut Via<'_>,
    statement: &str,
    parameters: Vec<Value>,
    limit: u32,
    verb: Verb,
) -> Result<(u32, bool), StoreError> {
    let rows = via.rows(statement, parameters, verb).await.map_err(Fault::into_error)?;
    let mut due = Vec::with_capacity(rows.len());
    for row in rows {
        due.push(row::identity(row, verb)?);
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = due.len() > limit;
    due.truncate(limit);
    let mut deleted = 0;
    let mut rest = due.as_slice();
    for (index, size) in CHUNKS.into_iter().enumerate() {
        while let Some((chunk, after)) = rest.split_at_checked(size).filter(|_| !rest.is_empty()) {
            match delete_again(shared, via, index, chunk, verb).await {
                Ok(gone) => deleted += gone,
                // What went before is gone, and said so; the rest waits for the next call.
                Err(_) if deleted > 0 => return Ok((deleted, true)),
                Err(fault) => return Err(fault.into_error()),
            }
            rest = after;
        }
    }
    Ok((deleted, more))
}

async fn delete_again(
    shared: &Shared,
    via: &mut Via<'_>,
    index: usize,
    chunk: &[Identity],
    verb: Verb,
) -> Result<u32, Fault> {
    let Via::Own(connection) = via else { return Ok(0) };
    for race in 1..MAX_RACES {
        match delete(shared, connection, index, chunk, verb).await {
            Err(Fault::Conflict(_) | Fault::Locked(_)) => pause(race).await,
            done => return done,
        }
    }
    delete(shared, connection, index, chunk, verb).await
}

async fn delete(
    shared: &Shared,
    connection: &mut Conn,
    index: usize,
    chunk: &[Identity],
    verb: Verb,
) -> Result<u32, Fault> {
    let statements = &shared.statements;
    let failed = |stage| move |error| crate::failure::fault(verb, stage, error);
    let began = connection.start_transaction(TxOpts::default()).await;
    let mut transaction = began.map_err(failed(Stage::Inside))?;
    let lock = &statements.lock_chunk[index];
    let rows = session::rows(&mut transaction, lock, values(chunk), verb, Stage::Inside).await?;
    let mut locked = Vec::with_capacity(rows.len());
    for row in rows {
        locked.push(row::identity(row, verb)?);
    }
    let mut gone = 0;
    let mut rest = locked.as_slice();
    for (index, size) in CHUNKS.into_iter().enumerate() {
        while let Some((part, after)) = rest.split_at_checked(size).filter(|_| !rest.is_empty()) {
            let delete = &statements.delete_chunk[index];
            let done =
                session::run(&mut transaction, delete, values(part), verb, Stage::Inside).await?;
            gone += u32::try_from(done.rows).unwrap_or(u32::MAX);
            rest = after;
        }
    }
    transaction.commit().await.map_err(failed(Stage::Committing))?;
    Ok(gone)
}

fn values(chunk: &[Identity]) -> Vec<Value> {
    chunk.iter().flat_map(Identity::values).collect()
}
