//! What to look at before work is trusted to a server.

use idem_core::async_trait;
use idem_core::error::{StoreError, Verb};
use idem_core::preflight::{Finding, Preflight};
use sqlx::postgres::PgRow;
use sqlx::{Executor, Row};
use tokio::time::timeout;

use crate::failure::{self, Stage};
use crate::row::value;
use crate::schema;
use crate::session::Session;
use crate::store::{PostgresStore, Shared};

/// The oldest release that this crate's statements run on, as the server counts it.
const OLDEST_SERVER: i32 = 14_00_00;

/// Everything in one row. `pg_settings` would hide what a role may not see; this fails aloud.
const SETTINGS: &str = "SELECT current_setting('server_version'), \
     current_setting('server_version_num')::int4, \
     current_setting('synchronous_commit'), \
     current_setting('synchronous_standby_names'), \
     current_setting('fsync'), \
     current_setting('full_page_writes'), \
     pg_is_in_recovery(), \
     current_setting('default_transaction_read_only'), \
     current_setting('default_transaction_isolation'), \
     current_setting('max_connections')::int4 \
       - current_setting('superuser_reserved_connections')::int4, \
     coalesce((SELECT setting::int4 FROM pg_settings WHERE name = 'statement_timeout'), 0), \
     coalesce((SELECT setting::int4 FROM pg_settings WHERE name = 'transaction_timeout'), 0)";

#[async_trait]
impl Preflight for PostgresStore {
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        look(&self.shared).await
    }
}

/// Looks at the server of a store that may not be fit to work on.
pub(crate) async fn look(shared: &Shared) -> Result<Vec<Finding>, StoreError> {
    let verb = Verb::Preflight;
    let mut session = Session::acquire(&shared.pool, verb).await?;
    let asked = async {
        let row = session.connection().fetch_one(sqlx::raw_sql(SETTINGS)).await;
        let row = row.map_err(|error| failure::error(verb, Stage::Reading, error))?;
        let version = schema::version(&mut session, &shared.tables, verb).await?;
        Ok((row, version))
    };
    let (row, version) = timeout(shared.settings.call_limit, asked)
        .await
        .unwrap_or_else(|_| Err(schema::slow(verb)))?;
    session.end();
    let text = |index| value::<String>(&row, index, verb);
    Ok(vec![
        server_version(&text(0)?, number(&row, 1)?),
        schema_version(version),
        durability(&text(2)?, &text(3)?),
        files(&text(4)?, &text(5)?),
        writable(value(&row, 6, verb)?, &text(7)?),
        isolation(&text(8)?),
        connections(shared, number(&row, 9)?),
        limit(shared, "statement-timeout", "statement_timeout", number(&row, 10)?),
        limit(shared, "transaction-timeout", "transaction_timeout", number(&row, 11)?),
    ])
}

fn number(row: &PgRow, index: usize) -> Result<i32, StoreError> {
    let read = row.try_get(index);
    read.map_err(|error| failure::error(Verb::Preflight, Stage::Reading, error))
}

fn server_version(name: &str, number: i32) -> Finding {
    let check = "server-version";
    if number >= OLDEST_SERVER {
        return Finding::ok(check, name.to_owned());
    }
    let advice = "Move to Postgres 14 or newer: the statements use what older ones lack.";
    Finding::problem(check, name.to_owned(), advice)
}

fn schema_version(version: Option<i32>) -> Finding {
    let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    match schema::complaint(version) {
        None => Finding::ok("schema", found),
        Some(complaint) => Finding::problem("schema", found, complaint),
    }
}

fn durability(synchronous_commit: &str, standbys: &str) -> Finding {
    let check = "synchronous-commit";
    let found = match standbys {
        "" => format!("{synchronous_commit}, no synchronous standby"),
        _ => format!("{synchronous_commit}, synchronous standbys are named"),
    };
    match (synchronous_commit, standbys) {
        ("off", _) => {
            let advice = "Set synchronous_commit to on, for this role at least: a crash loses \
                          claims and replies that were acknowledged, and a retry runs again.";
            Finding::problem(check, found, advice)
        }
        ("local", names) if !names.is_empty() => {
            let advice = "Set synchronous_commit to on: a failover loses what no standby has.";
            Finding::warning(check, found, advice)
        }
        (_, "") => Finding::ok(check, found),
        ("remote_write", _) => {
            let advice = "Set synchronous_commit to on: a standby that has not written to its \
                          disk loses commits when it crashes too.";
            Finding::warning(check, found, advice)
        }
        _ => Finding::ok(check, found),
    }
}

fn files(fsync: &str, full_page_writes: &str) -> Finding {
    let check = "fsync";
    let found = format!("fsync {fsync}, full_page_writes {full_page_writes}");
    if (fsync, full_page_writes) == ("on", "on") {
        return Finding::ok(check, found);
    }
    let advice = "Turn both on: without them a power cut can lose or damage the whole database.";
    Finding::problem(check, found, advice)
}

fn writable(in_recovery: bool, read_only: &str) -> Finding {
    let check = "writable";
    if in_recovery {
        let advice = "Connect to the primary: a standby takes no claims. With several hosts, use \
                      a name or a proxy that follows the primary.";
        return Finding::problem(check, "the server is a standby", advice);
    }
    if read_only == "on" {
        let advice = "Set default_transaction_read_only to off for this role and database.";
        return Finding::problem(check, "transactions are read only", advice);
    }
    Finding::ok(check, "yes")
}

fn isolation(default: &str) -> Finding {
    let check = "default-isolation";
    if default == "read committed" {
        return Finding::ok(check, default.to_owned());
    }
    let advice = "It works: a verb that meets a concurrent one is sent again. READ COMMITTED for \
                  this role saves that; the isolation of handlers' transactions is a setting of \
                  the store's own.";
    Finding::warning(check, default.to_owned(), advice)
}

fn connections(shared: &Shared, server: i32) -> Finding {
    let check = "connections";
    let verbs = shared.pool.options().get_max_connections();
    let transactions = shared.transactions.options().get_max_connections();
    let server = u32::try_from(server).unwrap_or(0);
    let found = format!(
        "{verbs} for verbs, {transactions} for transactions; the server allows {server} in all"
    );
    if !shared.settings.pooled && verbs + transactions > server {
        let advice = "Lower max_connections and max_transactions, or raise the server's \
                      max_connections: all processes together must stay below it.";
        return Finding::problem(check, found, advice);
    }
    match shared.settings.concurrency {
        Some(executions) if executions > transactions || executions.div_ceil(4) > verbs => {
            let found = format!("{found}; {executions} executions are meant to run at once");
            let advice = "Raise max_transactions to the number of executions, and max_connections \
                          to at least a quarter of it; otherwise executions wait for each other.";
            Finding::warning(check, found, advice)
        }
        _ => Finding::ok(check, found),
    }
}

/// A limit that the server sets to whatever a session does; 0 is none.
fn limit(shared: &Shared, check: &'static str, setting: &str, milliseconds: i32) -> Finding {
    let lock_wait = i32::try_from(shared.settings.lock_wait.as_millis()).unwrap_or(i32::MAX);
    if milliseconds == 0 {
        return Finding::ok(check, "off");
    }
    let found = format!("{milliseconds} ms");
    if milliseconds > lock_wait {
        return Finding::ok(check, found);
    }
    let advice = format!(
        "Raise {setting} above the store's lock_wait: a claim that waits for another must end as \
         InProgress and not as an error."
    );
    Finding::warning(check, found, advice)
}

#[cfg(test)]
mod tests {
    use idem_core::preflight::Severity;

    use super::*;

    #[test]
    fn each_setting_that_can_lose_a_claim_is_a_problem() {
        assert_eq!(durability("off", "").severity, Severity::Problem);
        assert_eq!(durability("on", "").severity, Severity::Ok);
        assert_eq!(durability("local", "").severity, Severity::Ok);
        assert_eq!(durability("local", "a").severity, Severity::Warning);
        assert_eq!(durability("remote_write", "a").severity, Severity::Warning);
        assert_eq!(durability("remote_apply", "a").severity, Severity::Ok);
        assert_eq!(files("off", "on").severity, Severity::Problem);
        assert_eq!(files("on", "off").severity, Severity::Problem);
        assert_eq!(writable(true, "off").severity, Severity::Problem);
        assert_eq!(writable(false, "on").severity, Severity::Problem);
        assert_eq!(server_version("13.4", 13_00_04).severity, Severity::Problem);
        assert_eq!(isolation("serializable").severity, Severity::Warning);
    }

    #[test]
    fn what_is_not_ok_says_what_to_do() {
        for finding in [durability("off", ""), files("off", "on"), writable(true, "off")] {
            assert!(!finding.advice.is_empty(), "{finding:?}");
        }
    }
}
