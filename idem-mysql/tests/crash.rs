//! The server is killed under load, and connections are cut, until there were enough of both:
//! each key has exactly one effect, and one answer for all who asked.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_core::admin::Admin;
use idem_core::engine::{Call, Engine, Execution, Failure};
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::OutboxMessage;
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_mysql::MysqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use support::own_server::OwnServer;
use support::place::plain;
use support::wire::{Cut, Wire};
use support::{Random, Request, number, run};
use tokio::task::JoinSet;

const KILLS: usize = 20;
const CUTS: usize = 500;
const CLIENTS: usize = 10;
/// How long one key may take to be answered, kills and cuts and all.
const PATIENCE: Duration = Duration::from_secs(120);

async fn take_order(store: MysqlStore, key: String, run: Execution) -> Result<Reply, Failure> {
    let mut tx = run.transaction(&store).await?;
    tx.connection().exec_drop("INSERT INTO orders (name) VALUES (?)", (&key,)).await?;
    let number = tx.connection().last_insert_id().expect("the order has a number");
    tx.push(&OutboxMessage::new("order.created", key)?).await?;
    Ok(tx.commit(Reply::from(number.to_string())).await?.into())
}

fn operation(form: LocalForm) -> Operation {
    let builder = Operation::builder(format!("orders.{form:?}")).local_form(form);
    builder.lease(Duration::from_secs(2)).attempts(u32::MAX).build().unwrap()
}

struct Load {
    store: MysqlStore,
    engine: Engine,
    operations: [Operation; 2],
    next_key: AtomicUsize,
    enough: AtomicBool,
}

impl Load {
    /// Takes keys and asks for each, as clients do, until it is answered; then once more.
    async fn client(&self) -> Vec<(String, String)> {
        let mut answers = Vec::new();
        while !self.enough.load(Ordering::SeqCst) {
            let number = self.next_key.fetch_add(1, Ordering::SeqCst);
            let key = format!("order-{number}");
            let answer = self.until_answered(number, &key).await;
            let again = self.until_answered(number, &key).await;
            assert_eq!(answer, again, "{key}: two answers");
            answers.push((key, answer));
        }
        answers
    }

    async fn until_answered(&self, number: usize, key: &str) -> String {
        let began = Instant::now();
        loop {
            let request = Request::new(key);
            let (scope, name) = (request.scope.clone(), request.key.clone());
            let (store, owned) = (self.store.clone(), key.to_owned());
            let call = Call::new(scope, name, request.fingerprints.primary());
            let handler = move |run| take_order(store, owned, run);
            match self.engine.run(&self.operations[number % 2], call, handler).await {
                Ok(outcome) => {
                    let body = outcome.reply.body().expect("the reply is whole");
                    return String::from_utf8(body.to_vec()).unwrap();
                }
                Err(error) if began.elapsed() > PATIENCE => panic!("{key}: at last {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kills_and_cuts_under_load_lose_nothing_and_double_nothing() {
    let server = Arc::new(tokio::task::spawn_blocking(|| OwnServer::start("")).await.unwrap());
    let table = "CREATE TABLE orders (number BIGINT AUTO_INCREMENT PRIMARY KEY, \
         name VARCHAR(255) NOT NULL)";
    run(&mut plain(&server.url).await, table).await;
    let target = server.url.split(['@', '/']).nth(3).unwrap().parse().unwrap();
    let wire = Wire::to(target).await;
    let url = server.url.replace(&target.to_string(), &wire.address.to_string());
    let builder = MysqlStore::builder().max_connections(8).max_transactions(CLIENTS);
    let store = builder.acquire_limit(Duration::from_secs(2)).connect(&url).await.unwrap();
    let engine = Engine::builder(store.clone()).one_commit_on(store.clone());
    let load = Arc::new(Load {
        engine: engine.namespace("shop").unwrap().build().unwrap(),
        store,
        operations: [operation(LocalForm::ClaimFirst), operation(LocalForm::OneCommit)],
        next_key: AtomicUsize::new(0),
        enough: AtomicBool::new(false),
    });
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let load = load.clone();
        clients.spawn(async move { load.client().await });
    }
    wire.arm(Cut::OneIn(30, Random::new("crash")));
    let mut kills = 0;
    loop {
        let (requests, replies, _) = wire.cuts();
        if kills >= KILLS && requests + replies >= CUTS {
            break;
        }
        let before = load.next_key.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(700)).await;
        if kills < KILLS && load.next_key.load(Ordering::SeqCst) > before {
            let server = server.clone();
            let killed = tokio::task::spawn_blocking(move || {
                server.kill();
                server.restart("");
            });
            killed.await.unwrap();
            kills += 1;
        }
    }
    load.enough.store(true, Ordering::SeqCst);
    let mut answers = HashMap::new();
    while let Some(client) = clients.join_next().await {
        answers.extend(client.expect("no client lost its patience"));
    }
    wire.arm(Cut::Nothing);
    let (requests, replies, commits) = wire.cuts();
    println!(
        "{kills} kills, {requests} requests and {replies} replies cut, {commits} of them at a \
         COMMIT, {} keys",
        answers.len()
    );
    assert!(replies > 0 && requests > 0 && commits > 0);
    check(&load, &server.url, &answers).await;
    load.engine.drain(Duration::from_secs(10)).await;
    load.store.close().await;
}

async fn check(load: &Load, url: &str, answers: &HashMap<String, String>) {
    let mut plain = plain(url).await;
    let rows: Vec<(String, String)> =
        plain.query("SELECT name, CAST(number AS CHAR) FROM orders").await.unwrap();
    let effects: HashMap<String, String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), effects.len(), "a key has two effects");
    assert_eq!(&effects, answers, "each key's answer is that of its effect");
    let messages = number(&mut plain, "SELECT count(*) FROM idem_outbox").await;
    assert_eq!(usize::try_from(messages).unwrap(), answers.len(), "one message for each key");
    let stats = load.store.stats().await.unwrap();
    assert_eq!(usize::try_from(stats.completed).unwrap(), answers.len(), "{stats:?}");
    assert_eq!((stats.live, stats.lapsed_begun, stats.lapsed_not_begun), (0, 0, 0), "{stats:?}");
    assert!(load.store.lapsed(None, 10).await.unwrap().records.is_empty());
}
