//! The engine without HTTP: how a webhook consumer and a job use it. Read it as documentation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{Call, Engine, Execution, Failure, How, RunError};
use idem_core::fingerprint::{Fingerprint, Fingerprints};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::Operation;
use idem_core::record::Observed;
use idem_core::store::Store;
use idem_core::time::ManualClock;

/// A downstream that collapses calls by their key, and counts calls and effects apart.
#[derive(Clone, Default)]
struct Downstream(Arc<Mutex<Vec<String>>>);

impl Downstream {
    async fn act(&self, key: impl ToString) -> Result<String, std::io::Error> {
        let mut calls = self.0.lock().unwrap();
        calls.push(key.to_string());
        let first = calls.iter().position(|call| *call == key.to_string()).unwrap();
        Ok(format!("effect {first}"))
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn effects(&self) -> usize {
        let calls = self.0.lock().unwrap();
        calls.iter().collect::<std::collections::BTreeSet<_>>().len()
    }
}

const LEASE: Duration = Duration::from_secs(30);

fn world() -> (Arc<ManualClock>, MemoryStore, Engine) {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let engine = Engine::builder(store.clone()).namespace("shop/test").unwrap().build().unwrap();
    (clock, store, engine)
}

async fn record(store: &MemoryStore, scope: &str, key: &str) -> Option<Observed> {
    store.get(&Scope::new(scope).unwrap(), &Key::new(key).unwrap()).await.unwrap()
}

/// A provider delivers each event at least once, and may change it between deliveries: the event
/// id is the key, and the bodies are not compared.
#[tokio::test(start_paused = true)]
async fn a_webhook_consumer_keyed_by_event_id() {
    let (_, store, engine) = world();
    let mailer = Downstream::default();
    let paid = Operation::builder("webhooks.paid").without_comparison().build().unwrap();
    let consume = async |event: &str, body: &'static str| {
        let call = Call::new(
            Scope::new("payment-provider").unwrap(),
            Key::new(event).unwrap(),
            Fingerprints::not_compared(),
        )
        .with_input(Input::new(body));
        let mailer = mailer.clone();
        engine
            .run(&paid, call, move |execution: Execution| async move {
                let receipt: String =
                    execution.step("receipt", |key| async move { mailer.act(key).await }).await?;
                Ok::<_, Failure>(receipt)
            })
            .await
    };

    let first = consume("evt_1", r#"{"attempt":1}"#).await.unwrap();
    let redelivered = consume("evt_1", r#"{"attempt":2}"#).await.unwrap();
    assert_eq!((first.how, redelivered.how), (How::Executed, How::Replayed));
    assert_eq!(first.reply, redelivered.reply);
    consume("evt_2", r#"{"attempt":1}"#).await.unwrap();
    assert_eq!((mailer.calls(), mailer.effects()), (2, 2));
    assert!(record(&store, "payment-provider", "evt_1").await.is_some());
    assert!(record(&store, "another-provider", "evt_1").await.is_none());
}

/// A hundred deliveries of ten events at once: effects are counted, not only answers.
#[tokio::test(start_paused = true)]
async fn redeliveries_at_once_have_one_effect_each() {
    let (_, _, engine) = world();
    let mailer = Downstream::default();
    let wait = Duration::from_secs(60);
    let paid = Operation::builder("paid").without_comparison().wait(wait).build().unwrap();
    let mut deliveries = tokio::task::JoinSet::new();
    for delivery in 0..100 {
        let (engine, mailer, paid) = (engine.clone(), mailer.clone(), paid.clone());
        deliveries.spawn(async move {
            let key = Key::new(format!("evt_{}", delivery % 10)).unwrap();
            let scope = Scope::new("provider").unwrap();
            let call = Call::new(scope, key.clone(), Fingerprints::not_compared());
            let outcome = engine.run(&paid, call, |execution| async move {
                execution
                    .step("mail", |key| async move {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        mailer.act(key).await
                    })
                    .await
            });
            (key.as_bytes().to_vec(), outcome.await.unwrap().reply)
        });
    }
    let mut replies: BTreeMap<Vec<u8>, Vec<_>> = BTreeMap::new();
    while let Some(delivered) = deliveries.join_next().await {
        let (key, reply) = delivered.unwrap();
        replies.entry(key).or_default().push(reply);
    }
    assert_eq!((mailer.calls(), mailer.effects(), replies.len()), (10, 10, 10));
    for replies in replies.values() {
        assert_eq!(replies.len(), 10);
        assert!(replies.iter().all(|reply| *reply == replies[0]));
    }
}

/// A nightly job works through orders in steps. The natural key is the order and the step; a
/// worker that dies is followed by another, which goes on where it stopped.
#[tokio::test(start_paused = true)]
async fn a_job_keyed_by_order_id_and_step() {
    let (clock, store, engine) = world();
    let bank = Downstream::default();
    let settle = Operation::builder("orders.settle").lease(LEASE).build().unwrap();
    let call = |order: u32| {
        let key = Key::new(format!("order-{order}/settle")).unwrap();
        Call::new(Scope::new("nightly").unwrap(), key, Fingerprint::of_bytes(order.to_string()))
    };
    let run = async |order: u32, dies_before_fee: bool| {
        let bank = bank.clone();
        let work = move |execution: Execution| async move {
            let other = bank.clone();
            let capture: String =
                execution.step("capture", |key| async move { bank.act(key).await }).await?;
            if dies_before_fee {
                return Err(Failure::unknown("the worker was killed"));
            }
            let fee: String =
                execution.step("fee", |key| async move { other.act(key).await }).await?;
            Ok(format!("{capture}, {fee}"))
        };
        engine.run(&settle, call(order), work).await
    };

    let died = run(7, true).await.unwrap_err();
    assert!(matches!(died, RunError::Unknown), "{died}");
    assert_eq!(bank.calls(), 1);

    // Until the lease is over the next worker is told to come back.
    let early = run(7, false).await.unwrap_err();
    assert!(matches!(early, RunError::InProgress { retry_after } if retry_after <= LEASE));

    clock.advance(LEASE);
    let resumed = run(7, false).await.unwrap();
    assert_eq!((resumed.how, resumed.attempt), (How::Executed, 2));
    assert_eq!((bank.calls(), bank.effects()), (2, 2), "the captured step is not called again");

    let night_after = run(7, false).await.unwrap();
    assert_eq!((night_after.how, &night_after.reply), (How::Replayed, &resumed.reply));
    assert_eq!(bank.calls(), 2);
    assert!(record(&store, "nightly", "order-7/settle").await.is_some());
}

/// Two jobs that happen to use one key never replay each other (R4).
#[tokio::test(start_paused = true)]
async fn two_jobs_with_one_key_are_told_apart() {
    let (_, _, engine) = world();
    let call = || {
        let (scope, key) = (Scope::new("jobs").unwrap(), Key::new("order-7").unwrap());
        Call::new(scope, key, Fingerprint::of_bytes("7"))
    };
    let (ship, bill) =
        (Operation::builder("ship").build().unwrap(), Operation::builder("bill").build().unwrap());
    engine.run(&ship, call(), async |_| Ok::<_, Failure>("shipped".to_owned())).await.unwrap();
    let other = engine
        .run(&bill, call(), async |_| Ok::<_, Failure>("billed".to_owned()))
        .await
        .unwrap_err();
    assert!(matches!(other, RunError::Mismatch { completed: true }), "{other}");
}
