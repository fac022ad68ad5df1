//! A transaction that is begun anew after a deadlock is isolated as the first one was.

use mysql_async::prelude::Queryable;

use idem_core::error::Verb;
use idem_core::record::Owner;
use idem_core::transactional::TransactionalStore;

use crate::{Isolation, MysqlStore};

#[tokio::test]
async fn a_transaction_that_is_begun_anew_keeps_its_isolation() {
    let url = std::env::var("IDEM_MYSQL_URL")
        .expect("set IDEM_MYSQL_URL to a server for tests; scripts/test starts one");
    let [a, b, c, d, ..] = *Owner::random().as_bytes();
    let prefix = format!("idem_anew_{:08x}", u32::from_be_bytes([a, b, c, d]));
    let builder = MysqlStore::builder().table_prefix(&prefix).isolation(Isolation::Serializable);
    let store = builder.connect(&url).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.begin_anew(Verb::Claim).await.unwrap();
    let mut levels: Vec<String> = Vec::new();
    // The server's list of transactions is renewed now and then, not at each read.
    while levels.is_empty() {
        let mine = tx.connection();
        mine.query_drop(format!("SELECT COUNT(*) FROM {prefix}_records FOR UPDATE")).await.unwrap();
        let level = "SELECT trx_isolation_level FROM information_schema.INNODB_TRX \
                     WHERE trx_mysql_thread_id = CONNECTION_ID()";
        levels = mine.query(level).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    store.rollback(tx).await.unwrap();
    assert_eq!(levels, ["SERIALIZABLE"]);
    let mut plain = store.pool().get_conn().await.unwrap();
    for table in ["outbox_keys", "outbox", "records", "schema"] {
        plain.query_drop(format!("DROP TABLE {prefix}_{table}")).await.unwrap();
    }
}
