//! The testkit's crash test itself, on a store that has no server to kill: a shop that is right
//! passes, and one whose orders do not go with the record is found out.

mod support;

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::engine::Failure;
use idem_sqlite::SqliteStore;
use idem_sqlite::sqlx::{self, SqliteConnection};
use idem_testkit::crashes::{Crashes, Shop};
use idem_testkit::faults::messages::{Framing, MessageProxy, Sort};
use idem_testkit::fixture::SetupError;
use support::Place;

/// How often an order is inserted, and what its answer says.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Right,
    Twice,
    NumberedAnew,
}

struct Orders {
    place: Place,
    manner: Manner,
}

#[async_trait]
impl Shop<SqliteStore> for Orders {
    async fn order(&self, connection: &mut SqliteConnection, key: &str) -> Result<String, Failure> {
        let insert = "INSERT INTO orders (key) VALUES (?) RETURNING number";
        let number: i64 = sqlx::query_scalar(insert).bind(key).fetch_one(&mut *connection).await?;
        if self.manner == Manner::Twice {
            sqlx::query(insert).bind(key).execute(connection).await?;
        }
        let number = if self.manner == Manner::NumberedAnew { number + 1 } else { number };
        Ok(number.to_string())
    }

    async fn orders(&self) -> Result<Vec<(String, String)>, SetupError> {
        let orders = sqlx::query_as("SELECT key, CAST(number AS TEXT) FROM orders");
        Ok(orders.fetch_all(&mut self.place.sql().await).await?)
    }

    async fn kill_and_restart(&self) -> Result<(), SetupError> {
        Ok(())
    }
}

/// Nothing goes through it.
struct Nothing;

impl Framing for Nothing {
    fn head_bytes(&self) -> usize {
        1
    }
    fn body_bytes(&self, _: &[u8]) -> Option<usize> {
        None
    }
    fn sort(&mut self, _: &[u8]) -> Sort {
        Sort::Passing
    }
}

async fn run(manner: Manner) -> usize {
    let place = Place::new();
    let store = place.open().await;
    let table = "CREATE TABLE orders (number INTEGER PRIMARY KEY, key TEXT NOT NULL)";
    sqlx::query(table).execute(&mut place.sql().await).await.unwrap();
    let proxy = MessageProxy::to(([127, 0, 0, 1], 1).into(), || Nothing).await.unwrap();
    let crashes = Crashes { kills: 1, cuts: 0, clients: 2 };
    let outbox = store.outbox();
    crashes.run(store, outbox, &proxy, Arc::new(Orders { place, manner })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_shop_passes() {
    assert!(run(Manner::Right).await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "a key has two effects")]
async fn two_effects_of_one_key_are_found() {
    run(Manner::Twice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "each key's answer is that of its effect")]
async fn an_answer_of_another_effect_is_found() {
    run(Manner::NumberedAnew).await;
}
