//! What to look at before work is trusted to a server.

use std::collections::HashMap;

use idem_core::async_trait;
use idem_core::error::{StoreError, Verb};
use idem_core::preflight::{Finding, Preflight};
use mysql_async::prelude::Queryable;
use tokio::time::timeout;

use crate::failure::{self, Stage};
use crate::schema;
use crate::store::{MysqlStore, Shared};

/// The oldest releases on which this crate's statements run, MariaDB's and MySQL's.
const OLDEST: [(u32, u32, u32); 2] = [(10, 6, 0), (8, 0, 16)];

/// The server's own settings; those of a session are the store's. What a server does not know is
/// not among the answers.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'sql_mode', \
     'character_set_server', 'collation_server', 'max_allowed_packet', \
     'innodb_lock_wait_timeout', 'innodb_rollback_on_timeout', 'transaction_isolation', \
     'tx_isolation', 'read_only', 'super_read_only', 'innodb_read_only', \
     'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_doublewrite', \
     'binlog_format', 'wsrep_on', 'max_connections')";

#[async_trait]
impl Preflight for MysqlStore {
    async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        look(&self.shared).await
    }
}

/// Looks at the server of a store that may not be fit to work on.
pub(crate) async fn look(shared: &Shared) -> Result<Vec<Finding>, StoreError> {
    let verb = Verb::Preflight;
    let mut connection = shared.verbs.lend(verb).await?;
    let asked = async {
        let rows: Vec<(String, String)> = connection
            .query(SETTINGS)
            .await
            .map_err(|error| failure::error(verb, Stage::Reading, error))?;
        let version = schema::version(&mut connection, &shared.tables, verb).await?;
        Ok((rows, version))
    };
    let (rows, version) = timeout(shared.settings.call_limit, asked)
        .await
        .unwrap_or_else(|_| Err(schema::slow(verb)))?;
    let settings = Settings(rows.into_iter().map(|(name, value)| (lower(name), value)).collect());
    Ok(vec![
        server_version(settings.text("version")),
        schema_version(version),
        durability(&settings),
        doublewrite(settings.text("innodb_doublewrite")),
        writable(&settings),
        binlog(&settings),
        isolation(&settings),
        sql_mode(settings.text("sql_mode")),
        character_set(&settings),
        packet(&settings, shared.settings.max_value_bytes),
        lock_wait(&settings),
        cluster(&settings),
        connections(shared, settings.number("max_connections")),
    ])
}

fn lower(name: String) -> String {
    name.to_ascii_lowercase()
}

/// The server's settings by name.
struct Settings(HashMap<String, String>);

impl Settings {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.text(name).to_ascii_uppercase().as_str(), "ON" | "1")
    }
}

fn server_version(version: &str) -> Finding {
    let check = "server-version";
    let is_mariadb = version.contains("MariaDB");
    // Some proxies put a number of MySQL's before MariaDB's own.
    let plain = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = plain.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let found = (next(), next(), next());
    let oldest = if is_mariadb { OLDEST[0] } else { OLDEST[1] };
    if found >= oldest {
        return Finding::ok(check, version.to_owned());
    }
    let advice = "Move to MariaDB 10.6, MySQL 8.0.16, or newer: the statements use what older \
                  ones lack.";
    Finding::problem(check, version.to_owned(), advice)
}

fn schema_version(version: Option<i32>) -> Finding {
    let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    match schema::complaint(version) {
        None => Finding::ok("schema", found),
        Some(complaint) => Finding::problem("schema", found, complaint),
    }
}

fn durability(settings: &Settings) -> Finding {
    let check = "flush";
    let flush = settings.text("innodb_flush_log_at_trx_commit");
    let logs = settings.is_on("log_bin");
    let sync = settings.number("sync_binlog");
    let found = match logs {
        true => format!("innodb_flush_log_at_trx_commit {flush}, sync_binlog {sync}"),
        false => format!("innodb_flush_log_at_trx_commit {flush}, no binary log"),
    };
    if flush != "1" {
        let advice = "Set innodb_flush_log_at_trx_commit to 1: a crash loses claims and replies \
                      that were acknowledged, and a retry runs again.";
        return Finding::problem(check, found, advice);
    }
    if logs && sync != 1 {
        let advice = "Set sync_binlog to 1: a crash can leave the replicas without commits that \
                      were acknowledged here, or the other way round.";
        return Finding::warning(check, found, advice);
    }
    Finding::ok(check, found)
}

fn doublewrite(value: &str) -> Finding {
    let check = "doublewrite";
    if value.eq_ignore_ascii_case("OFF") || value == "0" {
        let advice = "Turn innodb_doublewrite on, unless the disk writes whole pages: a power cut \
                      can damage the database.";
        return Finding::warning(check, value.to_owned(), advice);
    }
    Finding::ok(check, value.to_owned())
}

fn writable(settings: &Settings) -> Finding {
    let names = ["read_only", "super_read_only", "innodb_read_only"];
    match names.iter().find(|name| settings.is_on(name)) {
        Some(name) => {
            let advice = "Connect to the primary: a replica takes no claims. A user with a right \
                          to write to a replica must not be used here.";
            Finding::problem("writable", format!("{name} is on"), advice)
        }
        None => Finding::ok("writable", "yes"),
    }
}

fn binlog(settings: &Settings) -> Finding {
    let check = "binlog-format";
    if !settings.is_on("log_bin") {
        return Finding::ok(check, "no binary log");
    }
    let format = settings.text("binlog_format").to_owned();
    if format.eq_ignore_ascii_case("STATEMENT") {
        let advice = "Set binlog_format to ROW: the verbs run under READ COMMITTED, which the \
                      server does not log by statement, so every claim fails.";
        return Finding::problem(check, format, advice);
    }
    Finding::ok(check, format)
}

fn isolation(settings: &Settings) -> Finding {
    let check = "default-isolation";
    let newer = settings.text("transaction_isolation");
    let default = if newer.is_empty() { settings.text("tx_isolation") } else { newer }.to_owned();
    if default.eq_ignore_ascii_case("READ-UNCOMMITTED") {
        let advice = "Handlers' transactions see what others have not committed. Set another \
                      default, or the store's own setting for them.";
        return Finding::warning(check, default, advice);
    }
    Finding::ok(check, default)
}

fn sql_mode(mode: &str) -> Finding {
    let check = "sql-mode";
    if mode.contains("STRICT_TRANS_TABLES") || mode.contains("STRICT_ALL_TABLES") {
        return Finding::ok(check, mode.to_owned());
    }
    let advice = "The store's own statements are strict all the same. Those of handlers are not: \
                  what does not fit is cut without an error. Add STRICT_TRANS_TABLES.";
    Finding::warning(check, mode.to_owned(), advice)
}

fn character_set(settings: &Settings) -> Finding {
    let (set, collation) =
        (settings.text("character_set_server"), settings.text("collation_server"));
    // Keys are bytes in columns of bytes: whatever it is, it does not matter to the store.
    Finding::ok("character-set", format!("{set}, {collation}"))
}

fn packet(settings: &Settings, configured: usize) -> Finding {
    let check = "max-allowed-packet";
    let packet = settings.number("max_allowed_packet");
    let configured = u64::try_from(configured).unwrap_or(u64::MAX);
    let needed = configured.saturating_mul(2).saturating_add(64 * 1024);
    let found = format!("{packet} bytes; values of up to {configured} bytes are configured");
    if packet >= needed {
        return Finding::ok(check, found);
    }
    let advice = format!(
        "Raise max_allowed_packet to {needed} bytes, or lower max_value_bytes: longer replies are \
         refused before they are sent."
    );
    Finding::warning(check, found, advice)
}

fn lock_wait(settings: &Settings) -> Finding {
    let check = "lock-wait";
    let seconds = settings.number("innodb_lock_wait_timeout");
    let found = format!("{seconds} s by default; the store sets its own");
    if settings.is_on("innodb_rollback_on_timeout") {
        let advice = "Turn innodb_rollback_on_timeout off: with it a wait that ends takes back a \
                      handler's whole transaction, which then fails at its commit.";
        return Finding::warning(check, found, advice);
    }
    Finding::ok(check, found)
}

fn cluster(settings: &Settings) -> Finding {
    let check = "cluster";
    if settings.is_on("wsrep_on") {
        let advice = "Send all claims to one node: two nodes that take the same key at once find \
                      out only at the commit, and numbers of the outbox grow on each node apart.";
        return Finding::warning(check, "a Galera cluster", advice);
    }
    Finding::ok(check, "none")
}

fn connections(shared: &Shared, server: u64) -> Finding {
    let check = "connections";
    let settings = &shared.settings;
    if shared.verbs.set_up.is_some() {
        return Finding::ok(check, format!("a pool of the caller's; the server allows {server}"));
    }
    let (verbs, transactions) = (settings.max_connections, settings.max_transactions);
    let found = format!(
        "{verbs} for verbs, {transactions} for transactions; the server allows {server} in all"
    );
    if u64::try_from(verbs + transactions).unwrap_or(u64::MAX) > server {
        let advice = "Lower max_connections and max_transactions, or raise the server's \
                      max_connections: all processes together must stay below it.";
        return Finding::problem(check, found, advice);
    }
    let executions = settings.concurrency.map_or(0, |executions| executions as usize);
    if executions > transactions || executions.div_ceil(4) > verbs {
        let found = format!("{found}; {executions} executions are meant to run at once");
        let advice = "Raise max_transactions to the number of executions, and max_connections to \
                      at least a quarter of it; otherwise executions wait for each other.";
        return Finding::warning(check, found, advice);
    }
    Finding::ok(check, found)
}

#[cfg(test)]
mod tests {
    use idem_core::preflight::Severity;

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings(owned.collect())
    }

    #[test]
    fn each_setting_that_can_lose_a_claim_is_a_problem() {
        let flush = |flush, sync| {
            let flush = ("innodb_flush_log_at_trx_commit", flush);
            durability(&settings(&[flush, ("log_bin", "ON"), ("sync_binlog", sync)])).severity
        };
        assert_eq!(flush("1", "1"), Severity::Ok);
        assert_eq!(flush("1", "0"), Severity::Warning);
        assert_eq!(flush("2", "1"), Severity::Problem);
        assert_eq!(writable(&settings(&[("read_only", "ON")])).severity, Severity::Problem);
        assert_eq!(writable(&settings(&[("read_only", "OFF")])).severity, Severity::Ok);
        let statement = [("log_bin", "ON"), ("binlog_format", "STATEMENT")];
        assert_eq!(binlog(&settings(&statement)).severity, Severity::Problem);
        assert_eq!(
            packet(&settings(&[("max_allowed_packet", "1")]), 1).severity,
            Severity::Warning
        );
        assert_eq!(sql_mode("").severity, Severity::Warning);
        assert_eq!(cluster(&settings(&[("wsrep_on", "ON")])).severity, Severity::Warning);
    }

    #[test]
    fn releases_are_told_apart() {
        for good in ["10.11.19-MariaDB-0+deb12u1", "8.0.36", "8.4.2", "9.1.0", "11.4.2-MariaDB"] {
            assert_eq!(server_version(good).severity, Severity::Ok, "{good}");
        }
        for old in ["10.5.9-MariaDB", "5.5.5-10.3.1-MariaDB", "8.0.11", "5.7.44", ""] {
            assert_eq!(server_version(old).severity, Severity::Problem, "{old}");
        }
    }
}
