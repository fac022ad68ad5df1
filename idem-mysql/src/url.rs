//! The pools of a store that is opened by a URL.

use std::time::Duration;

use idem_core::error::StoreError;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

use crate::config::{MysqlStoreBuilder, invalid};
use crate::session::{transaction_settings, verb_settings};
use crate::store::MysqlStore;

/// Statements that a connection keeps prepared: more than there are.
const STATEMENTS: usize = 64;

/// How old a connection gets: after a failover that moved the server's name, one that is open leads
/// to what was the primary.
const REPLACED_AFTER: Duration = Duration::from_secs(10 * 60);

impl MysqlStoreBuilder {
    /// A store that has not asked its server for anything yet.
    pub(crate) fn lazily(self, url: &str) -> Result<MysqlStore, StoreError> {
        if !url.starts_with("mysql://") {
            return Err(invalid("the URL does not begin with mysql://"));
        }
        self.check()?;
        // The driver's own error may show the URL, and with it the password (R24).
        let asked = Opts::from_url(url).map_err(|_| invalid("the URL is not one of MySQL"))?;
        let asked_for_socket = url.contains("prefer_socket=true");
        let pool = |connections: usize, resets: bool, setup: Vec<String>| {
            let kept = PoolConstraints::new(connections, connections).unwrap_or_default();
            let options = PoolOpts::new().with_constraints(kept).with_reset_connection(resets);
            let options = options.with_abs_conn_ttl(Some(REPLACED_AFTER));
            let mut all = asked.setup().to_vec();
            // The driver runs them from the last to the first: what is set here is set last.
            all.splice(0..0, setup);
            Pool::new(
                OptsBuilder::from_opts(asked.clone())
                    .prefer_socket(asked_for_socket)
                    .stmt_cache_size(STATEMENTS)
                    .pool_opts(options)
                    .setup(all),
            )
        };
        let verbs = pool(self.max_connections, false, vec![verb_settings(self.lock_wait)]);
        let settings = transaction_settings(self.lock_wait, self.idle_transaction_limit);
        let transactions = pool(self.max_transactions, true, vec![settings]);
        let (verbs, transactions) = (self.lender(verbs, None), self.lender(transactions, None));
        self.assemble(verbs, transactions)
    }
}

#[cfg(test)]
mod tests {
    use idem_core::error::ErrorKind;

    use super::*;

    #[test]
    fn a_url_that_is_refused_is_not_repeated() {
        for url in ["postgres://a:hunter2@b/c", "mysql://a:hunter2@b/c?no=such", ""] {
            let error = MysqlStore::builder().lazily(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }
}
