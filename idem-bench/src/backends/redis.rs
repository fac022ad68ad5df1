//! Redis or Valkey: a namespace of its own on the server of `IDEM_REDIS_URL`.

use idem_core::admin::Admin as _;
use idem_core::key::Scope;
use idem_redis::RedisStore;
use idem_redis::redis::{Client, SetExpiry, SetOptions, cmd};

use crate::backends;
use crate::measure::{BoxError, Effort, Row, Subject, measure};
use crate::once::{SCOPE, protected, replayed};

/// Measures it, against one SET with an expiry: what people do without idem, and what loses the
/// answer.
pub(crate) async fn run(effort: Effort) -> Result<Vec<Row>, BoxError> {
    let url = backends::url("IDEM_REDIS_URL")?;
    let place = backends::place();
    let store = RedisStore::builder().namespace(&place).connect(&url).await?;
    let connection = Client::open(url)?.get_connection_manager().await?;
    let alone = Subject::new("SET NX alone", move |number| {
        let mut connection = connection.clone();
        let key = format!("{place}:alone:{number}");
        let options = SetOptions::default().with_expiration(SetExpiry::EX(60));
        async move {
            let mut set = cmd("SET");
            set.arg(key).arg("1").arg(options).arg("NX");
            let set: Option<String> = set.query_async(&mut connection).await?;
            set.map(|_| ()).ok_or_else(|| "it was set before".into())
        }
    });
    let subjects = [alone, protected(store.clone())?, replayed(store.clone()).await?];
    let rows = measure("redis", &subjects, effort).await;
    let scope = Scope::new(SCOPE)?;
    while store.forget(&scope, 1_000).await?.more {}
    rows
}
