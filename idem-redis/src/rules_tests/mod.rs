//! The scripts against the pure rules of idem-core, on random records. A record is planted, a
//! verb runs, and the server's own time from its answer goes into the pure function: what was
//! answered, what then stands, and what the indexes say must all agree.

mod damage;
mod draw;
mod expiry;
mod listings;
mod plant;
mod verbs;

use idem_core::record::Owner;
use idem_core::time::Timestamp;
use redis::Value;

use crate::config::RedisStoreBuilder;
use crate::store::RedisStore;

/// The servers that the environment names, each under a namespace of its own.
pub(crate) async fn stores() -> Vec<(&'static str, RedisStore)> {
    stores_with(|config| config).await
}

#[cfg(feature = "test-clock")]
pub(crate) async fn stores_judged_by(
    clock: impl idem_core::time::Clock + Clone,
) -> Vec<(&'static str, RedisStore)> {
    stores_with(|config| config.clock(clock.clone())).await
}

async fn stores_with(
    set: impl Fn(RedisStoreBuilder) -> RedisStoreBuilder,
) -> Vec<(&'static str, RedisStore)> {
    let mut stores = Vec::new();
    for variable in
        ["IDEM_REDIS_URL", "IDEM_REDIS8_URL", "IDEM_VALKEY_URL", "IDEM_REDIS_CLUSTER_URL"]
    {
        let url = std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: start the servers of this crate"));
        let id = Owner::random();
        let namespace = format!("rules-{:032x}", u128::from_be_bytes(*id.as_bytes()));
        let config = set(RedisStore::builder().namespace(namespace));
        stores.push((variable, config.connect(&url).await.unwrap()));
    }
    stores
}

impl RedisStore {
    /// Whether the server expires replies by itself, as it does unless a test's clock judges.
    fn expires_natively(&self) -> bool {
        #[cfg(feature = "test-clock")]
        return self.shared.settings.clock.is_none();
        #[cfg(not(feature = "test-clock"))]
        true
    }
}

/// The server's time as an answer tells it.
fn told(value: &Value) -> Timestamp {
    let Value::BulkString(digits) = value else { panic!("no time in the answer") };
    Timestamp::from_unix_micros(std::str::from_utf8(digits).unwrap().parse().unwrap())
}
