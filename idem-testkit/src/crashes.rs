//! A server that is killed, and connections that are cut, under load: for store authors whose store
//! lends its transactions.
//!
//! Clients place orders through the engine, in both local forms, and ask again until they are
//! answered, as clients do. Meanwhile the server is killed and started again, and connections are
//! cut at random by a [`MessageProxy`], until there was enough of both. In the end each key has
//! exactly one effect, one message, one completed record, and one answer for all who asked.
//!
//! A test says with [`Shop`] what an order is in its database, and calls [`Crashes::run`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_core::admin::Admin;
use idem_core::async_trait;
use idem_core::engine::{Call, Engine, Execution, Failure};
use idem_core::fingerprint::{Fingerprint, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::operation::{LocalForm, Operation};
use idem_core::outbox::{Outbox, OutboxMessage};
use idem_core::reply::Reply;
use idem_core::transactional::TransactionalStore;
use tokio::task::JoinSet;

use crate::failure::chain;
use crate::faults::messages::{Cut, MessageProxy};
use crate::fixture::SetupError;
use crate::random::Random;

/// How long one key may take to be answered, kills and cuts and all.
const PATIENCE: Duration = Duration::from_secs(120);

/// One message in so many is cut, and one commit in a quarter of it.
const CUT_ONE_IN: u64 = 30;

/// How long the load runs between two kills.
const BETWEEN_KILLS: Duration = Duration::from_millis(700);

/// What an order is in a database of yours, and how its server dies.
#[async_trait]
pub trait Shop<S: TransactionalStore>: Send + Sync + 'static {
    /// Inserts one order for `key` inside the transaction, and says its number, which no other
    /// order has. The table must allow two orders for one key: whether there are any is the test.
    ///
    /// # Errors
    /// Those of the database.
    async fn order(&self, connection: &mut S::Connection, key: &str) -> Result<String, Failure>;

    /// Every committed order, as its key and its number, past the store and the proxy.
    ///
    /// # Errors
    /// Those of the database.
    async fn orders(&self) -> Result<Vec<(String, String)>, SetupError>;

    /// Kills the server so that it cannot react, and starts it again on what it had written.
    ///
    /// # Errors
    /// When it cannot be started.
    async fn kill_and_restart(&self) -> Result<(), SetupError>;
}

/// The test, as it is set up.
#[derive(Debug, Clone)]
pub struct Crashes {
    /// How often the server is killed.
    pub kills: usize,
    /// How many connections are cut at the least.
    pub cuts: usize,
    /// How many clients place orders.
    pub clients: usize,
}

impl Default for Crashes {
    /// 20 kills and 500 cuts, under 10 clients.
    fn default() -> Self {
        Self { kills: 20, cuts: 500, clients: 10 }
    }
}

impl Crashes {
    /// Kills and cuts under load, checks what is left, and says how many keys there were.
    ///
    /// `store` is connected through `proxy`, and allows a transaction for each client. `outbox` is
    /// where its transactions push to; both are fresh. The seed of the cuts is printed, and set by
    /// [`SEED_VARIABLE`](crate::random::SEED_VARIABLE).
    ///
    /// # Panics
    /// When any promise was broken, or a key was not answered in good time.
    pub async fn run<S: Admin + TransactionalStore + Clone>(
        &self,
        store: S,
        outbox: Arc<dyn Outbox>,
        proxy: &MessageProxy,
        shop: Arc<impl Shop<S>>,
    ) -> usize {
        let load = Arc::new(Load::new(store, shop));
        let mut clients = JoinSet::new();
        for _ in 0..self.clients {
            let load = load.clone();
            clients.spawn(async move { load.client().await });
        }
        proxy.arm(Cut::OneIn(CUT_ONE_IN, Random::announced("crashes")));
        let kills = self.torment(&load, proxy).await;
        load.enough.store(true, Ordering::SeqCst);
        let mut answers = HashMap::new();
        while let Some(client) = clients.join_next().await {
            answers.extend(client.expect("no client lost its patience"));
        }
        proxy.arm(Cut::Nothing);
        let (cuts, keys) = (proxy.cuts(), answers.len());
        println!("{kills} kills, {cuts:?}, {keys} keys");
        let each = cuts.requests > 0 && cuts.replies > 0 && cuts.commits > 0;
        assert!(each || self.cuts == 0, "a sort of cut never came about: {cuts:?}");
        load.check(&answers, &*outbox).await;
        load.engine.drain(Duration::from_secs(10)).await;
        keys
    }

    /// Kills the server whenever the load has gone on, until there was enough of everything.
    async fn torment<S, Sh>(&self, load: &Load<S, Sh>, proxy: &MessageProxy) -> usize
    where
        S: TransactionalStore,
        Sh: Shop<S>,
    {
        let mut kills = 0;
        while kills < self.kills || proxy.cuts().total() < self.cuts {
            let before = load.next_key.load(Ordering::SeqCst);
            tokio::time::sleep(BETWEEN_KILLS).await;
            if kills < self.kills && load.next_key.load(Ordering::SeqCst) > before {
                load.shop.kill_and_restart().await.expect("the server starts again");
                kills += 1;
            }
        }
        kills
    }
}

struct Load<S, Sh> {
    store: S,
    shop: Arc<Sh>,
    engine: Engine,
    operations: [Operation; 2],
    next_key: AtomicUsize,
    enough: AtomicBool,
}

impl<S: Admin + TransactionalStore + Clone, Sh: Shop<S>> Load<S, Sh> {
    fn new(store: S, shop: Arc<Sh>) -> Self {
        let engine = Engine::builder(store.clone()).one_commit_on(store.clone());
        Self {
            store,
            shop,
            engine: engine.namespace("shop").expect("it is a name").build().expect("it is set up"),
            operations: [operation(LocalForm::ClaimFirst), operation(LocalForm::OneCommit)],
            next_key: AtomicUsize::new(0),
            enough: AtomicBool::new(false),
        }
    }

    /// Takes keys and asks for each until it is answered; then once more.
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
            let (store, shop, owned) = (self.store.clone(), self.shop.clone(), key.to_owned());
            let handler = move |run| take_order(store, shop, owned, run);
            match self.engine.run(&self.operations[number % 2], call(key), handler).await {
                Ok(outcome) => {
                    let body = outcome.reply.body().expect("the reply is whole");
                    return String::from_utf8(body.to_vec()).expect("a number is text");
                }
                Err(error) if began.elapsed() > PATIENCE => {
                    panic!("{key}: at last {}", chain(&error))
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn check(&self, answers: &HashMap<String, String>, outbox: &dyn Outbox) {
        let orders = self.shop.orders().await.expect("the orders are read");
        let effects: HashMap<String, String> = orders.iter().cloned().collect();
        assert_eq!(orders.len(), effects.len(), "a key has two effects");
        assert_eq!(&effects, answers, "each key's answer is that of its effect");
        let keys = answers.len() as u64;
        let backlog = outbox.backlog().await.expect("the messages are counted");
        assert_eq!((backlog.waiting, backlog.dead), (keys, 0), "one message for each key");
        let stats = self.store.stats().await.expect("the records are counted");
        let left = (stats.live, stats.lapsed_begun, stats.lapsed_not_begun);
        assert_eq!((stats.completed, left), (keys, (0, 0, 0)), "{stats:?}");
        let lapsed = self.store.lapsed(None, 10).await.expect("the records are listed");
        assert!(lapsed.records.is_empty(), "{lapsed:?}");
    }
}

async fn take_order<S: TransactionalStore + Clone, Sh: Shop<S>>(
    store: S,
    shop: Arc<Sh>,
    key: String,
    run: Execution,
) -> Result<Reply, Failure> {
    let mut tx = run.transaction(&store).await?;
    let number = shop.order(tx.connection(), &key).await?;
    tx.push(&OutboxMessage::new("order.created", key)?).await?;
    Ok(tx.commit(Reply::from(number)).await?.into())
}

fn call(key: &str) -> Call {
    let scope = Scope::new("crashes").expect("it is short");
    let key = Key::new(key).expect("it is short");
    Call::new(scope, key, Fingerprint::from_parts(Scheme::V1, [1; 32]))
}

fn operation(form: LocalForm) -> Operation {
    let builder = Operation::builder(format!("orders.{form:?}")).local_form(form);
    let builder = builder.lease(Duration::from_secs(2)).attempts(u32::MAX);
    builder.build().expect("it is set up")
}
