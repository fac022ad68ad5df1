//! The relay on the outbox in memory, in the runtime's paused time.

mod chaos;
mod faulty;
mod health;
mod leases;
mod logs;
mod panics;
mod settings;
mod slow_keys;
mod waits;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::housekeeping::Stop;
use crate::outbox::{LeaseMessages, MemoryOutbox, MessageId, MessageState, Outbox, OutboxMessage};
use crate::relay::{Relay, Sink, SinkError};
use crate::time::RuntimeClock;

const LEASE: Duration = Duration::from_secs(30);

/// What a test's sink does with a message on an attempt.
type Rule = Box<dyn Fn(&OutboxMessage, u32) -> Result<Duration, SinkError> + Send + Sync>;

/// Notes each delivery that succeeded, and how many ran at once.
struct Book {
    rule: Rule,
    took: Mutex<Vec<(String, MessageId)>>,
    attempts: Mutex<HashMap<String, Vec<Instant>>>,
    running: AtomicUsize,
    /// The most that ran beside a message of the topic `alone`.
    beside: AtomicUsize,
    began: Notify,
}

impl Book {
    fn new(
        rule: impl Fn(&OutboxMessage, u32) -> Result<Duration, SinkError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            rule: Box::new(rule),
            took: Mutex::default(),
            attempts: Mutex::default(),
            running: AtomicUsize::new(0),
            beside: AtomicUsize::new(0),
            began: Notify::new(),
        })
    }

    fn topics(&self) -> Vec<String> {
        self.took.lock().unwrap().iter().map(|(topic, _)| topic.clone()).collect()
    }

    fn attempts(&self, topic: &str) -> Vec<Instant> {
        self.attempts.lock().unwrap().get(topic).cloned().unwrap_or_default()
    }
}

#[async_trait]
impl Sink for Book {
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError> {
        let topic = message.topic().to_owned();
        self.attempts.lock().unwrap().entry(topic.clone()).or_default().push(Instant::now());
        self.began.notify_one();
        let beside = self.running.fetch_add(1, Ordering::SeqCst);
        if topic.starts_with("alone") {
            self.beside.fetch_max(beside, Ordering::SeqCst);
        }
        let outcome = match (self.rule)(message, attempt) {
            Ok(takes) => {
                sleep(takes).await;
                self.took.lock().unwrap().push((topic, message.id()));
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

fn outbox_of(messages: &[(&str, &str)]) -> Arc<MemoryOutbox> {
    let outbox = Arc::new(MemoryOutbox::with_clock(RuntimeClock::new()));
    for (topic, key) in messages {
        let message = OutboxMessage::new(*topic, "").unwrap();
        let message = if key.is_empty() { message } else { message.ordered_by(*key).unwrap() };
        outbox.push(message).unwrap();
    }
    outbox
}

fn relay(outbox: &Arc<MemoryOutbox>, book: &Arc<Book>) -> Relay {
    Relay::new(outbox.clone(), book.clone()).lease(LEASE)
}

async fn states(outbox: &MemoryOutbox, state: MessageState) -> Vec<String> {
    let page = outbox.list(state, None, 1_000).await.unwrap();
    page.entries.iter().map(|entry| entry.message.topic().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_delivered_in_order_though_some_messages_fail_at_first() {
    let outbox = outbox_of(&[("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("free", "")]);
    // Those behind them would be taken at once.
    let book = Book::new(|message, attempt| match (message.topic(), attempt) {
        ("a1" | "a3" | "free", 1 | 2) => Err(SinkError::retryable("not yet")),
        _ => Ok(Duration::ZERO),
    });
    let relay = relay(&outbox, &book);
    for _ in 0..100 {
        relay.once().await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    let topics = book.topics();
    let of_a: Vec<&String> = topics.iter().filter(|topic| topic.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3"]);
    assert_eq!(topics.len(), 5, "{topics:?}");
    assert_eq!(book.attempts("a3").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn poison_goes_to_the_dead_letters_and_holds_back_its_own_key_alone() {
    let outbox = outbox_of(&[("bad", "a"), ("behind", "a"), ("good", "b"), ("free", "")]);
    let book = Book::new(|message, _| match message.topic() {
        "bad" => Err(SinkError::poison("422")),
        _ => Ok(Duration::ZERO),
    });
    let done = relay(&outbox, &book).once().await.unwrap();
    assert_eq!((done.sent, done.dead, done.given_back), (2, 1, 1));
    assert_eq!(states(&outbox, MessageState::Dead).await, ["bad"]);
    assert_eq!(states(&outbox, MessageState::Waiting).await, ["behind"]);
    assert_eq!(book.attempts("bad").len(), 1, "poison is not tried again");
    let dead = &outbox.list(MessageState::Dead, None, 1).await.unwrap().entries[0];
    assert_eq!(dead.reason.as_deref(), Some("422"));

    let mended = Book::new(|_, _| Ok(Duration::ZERO));
    outbox.requeue(&[dead.message.id()]).await.unwrap();
    relay(&outbox, &mended).once().await.unwrap();
    assert_eq!(mended.topics(), ["bad", "behind"]);
}

#[tokio::test(start_paused = true)]
async fn later_messages_pass_a_dead_one_where_that_is_chosen() {
    let outbox = outbox_of(&[("bad", "a"), ("behind", "a")]);
    let book = Book::new(|message, _| match message.topic() {
        "bad" => Err(SinkError::poison("422")),
        _ => Ok(Duration::ZERO),
    });
    relay(&outbox, &book).past_dead(true).once().await.unwrap();
    assert_eq!(book.topics(), ["behind"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_ends_among_the_dead_letters_after_growing_waits() {
    let outbox = outbox_of(&[("bad", "")]);
    let book =
        Book::new(|_, _| Err(SinkError::retryable("503").retry_after(Duration::from_secs(2))));
    let relay = relay(&outbox, &book).max_attempts(6).interval(Duration::from_millis(20));
    let relay = relay.waits(Duration::from_secs(1), Duration::from_secs(10));
    let stop = Stop::new();
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = sleep(Duration::from_secs(600)) => {}
    }
    let attempts = book.attempts("bad");
    assert_eq!(attempts.len(), 6);
    assert_eq!(states(&outbox, MessageState::Dead).await, ["bad"]);
    for pair in attempts.windows(2) {
        let wait = pair[1] - pair[0];
        let bounds = Duration::from_secs(2)..Duration::from_millis(12_100);
        assert!(bounds.contains(&wait), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_relays_deliver_each_message_once_and_in_order() {
    let messages: Vec<(String, String)> =
        (0..400).map(|number| (format!("{number}"), format!("key {}", number % 7))).collect();
    let messages: Vec<(&str, &str)> =
        messages.iter().map(|(topic, key)| (topic.as_str(), key.as_str())).collect();
    let outbox = outbox_of(&messages);
    let book = Book::new(|message, _| {
        let number: u64 = message.topic().parse().unwrap();
        Ok(Duration::from_millis(number * 37 % 11))
    });
    let relays: Vec<Relay> = (0..3).map(|_| relay(&outbox, &book).batch(20)).collect();
    let each = |relay: &'static Relay| async { relay.run(&Stop::new()).await };
    let relays: &'static [Relay] = Vec::leak(relays);
    tokio::select! {
        () = each(&relays[0]) => {}
        () = each(&relays[1]) => {}
        () = each(&relays[2]) => {}
        () = sleep(Duration::from_secs(60)) => {}
    }
    let mut last: HashMap<u64, u64> = HashMap::new();
    let topics = book.topics();
    assert_eq!(topics.len(), 400);
    for topic in topics {
        let number: u64 = topic.parse().unwrap();
        let before = last.insert(number % 7, number);
        assert!(before < Some(number), "{before:?} before {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_runs_and_gives_back_the_rest() {
    let outbox = outbox_of(&[("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(5)));
    let relay = relay(&outbox, &book).concurrency(2);
    let stop = Stop::new();
    let asks = async {
        book.began.notified().await;
        sleep(Duration::from_secs(1)).await;
        stop.request();
    };
    let began = Instant::now();
    let looks = async {
        stop.requested().await;
        sleep(Duration::from_secs(1)).await;
        // Of `a` the first one is on its way.
        assert_eq!(free(&outbox).await, ["c1"], "it is free at once");
    };
    tokio::join!(relay.run(&stop), asks, looks);
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(book.topics(), ["a1", "b1"]);
    assert_eq!(free(&outbox).await, ["a2"]);
}

/// What another relay can take.
async fn free(outbox: &MemoryOutbox) -> Vec<String> {
    let batch = outbox.lease(&LeaseMessages::new(LEASE, 10)).await.unwrap();
    batch.messages.iter().map(|leased| leased.message.topic().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_dropped_loses_nothing_and_repeats_under_the_same_id() {
    let outbox = outbox_of(&[("a1", "a"), ("a2", "a"), ("free", "")]);
    let slow = Book::new(|message, _| match message.topic() {
        "free" => Ok(Duration::ZERO),
        _ => Ok(Duration::from_secs(10)),
    });
    tokio::select! {
        _ = async { relay(&outbox, &slow).once().await } => unreachable!("it takes 20 s"),
        () = sleep(Duration::from_secs(15)) => {}
    }
    assert_eq!(slow.topics(), ["free", "a1"]);
    let next = Book::new(|_, _| Ok(Duration::ZERO));
    relay(&outbox, &next).once().await.unwrap();
    assert_eq!(next.topics(), [""; 0], "they are still leased");
    sleep(LEASE).await;
    relay(&outbox, &next).once().await.unwrap();
    // `a1` was settled before the relay was dropped.
    assert_eq!(next.topics(), ["a2"]);
    assert_eq!(slow.attempts("a2").len(), 1, "it was on its way");
    assert_eq!(outbox.backlog().await.unwrap().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_longer_than_the_lease_is_renewed() {
    let outbox = outbox_of(&[("long", "a"), ("behind", "a")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(100)));
    let first = relay(&outbox, &book).delivery_limit(Duration::from_secs(200));
    let other = relay(&outbox, &book);
    let stop = Stop::new();
    tokio::select! {
        biased;
        done = first.once() => assert_eq!(done.unwrap().sent, 2),
        () = other.run(&stop) => {}
    }
    assert_eq!(book.topics(), ["long", "behind"]);
    assert_eq!(book.attempts("long").len() + book.attempts("behind").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_delivery_that_hangs_are_failures() {
    let outbox = outbox_of(&[("panics", ""), ("hangs", ""), ("fine", "")]);
    let book = Book::new(|message, attempt| match (message.topic(), attempt) {
        ("panics", 1) => panic!("as the test wants it"),
        ("hangs", 1) => Ok(Duration::from_secs(3_600)),
        _ => Ok(Duration::ZERO),
    });
    let relay = relay(&outbox, &book);
    let done = relay.once().await.unwrap();
    assert_eq!((done.sent, done.failed), (2, 2), "while the one hangs, the other is tried again");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(relay.once().await.unwrap().sent, 1);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_ended_its_relay_is_delivered_alone_and_given_up_in_the_end() {
    let outbox = outbox_of(&[("alone 1", "a"), ("alone 2", "a"), ("alone 3", "")]);
    let lapse = async |times: u32| {
        for _ in 0..times {
            outbox.lease(&LeaseMessages::new(LEASE, 100)).await.unwrap();
            sleep(LEASE).await;
        }
    };
    lapse(5).await; // The sixth lease takes over for the fifth time.
    for number in 0..50 {
        outbox.push(OutboxMessage::new(format!("{number}"), "").unwrap()).unwrap();
    }
    let book = Book::new(|_, _| Ok(Duration::from_millis(10)));
    relay(&outbox, &book).batch(20).once().await.unwrap();
    let topics = book.topics();
    assert_eq!(topics.len(), 53);
    assert_eq!(book.beside.load(Ordering::SeqCst), 0);
    let place = |topic: &str| topics.iter().position(|seen| seen == topic).unwrap();
    assert!(place("alone 1") < place("alone 2"), "{topics:?}");
    assert!(place("0") < place("alone 1") && place("alone 1") < place("49"), "{topics:?}");

    let deadly = outbox_of(&[("deadly", "")]);
    for _ in 0..10 {
        deadly.lease(&LeaseMessages::new(LEASE, 100)).await.unwrap();
        sleep(LEASE).await;
    }
    relay(&deadly, &book).max_attempts(5).once().await.unwrap();
    assert_eq!(states(&deadly, MessageState::Dead).await, ["deadly"]);
    assert_eq!(book.attempts("deadly").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn sent_messages_are_deleted_when_they_are_old_enough() {
    let outbox = outbox_of(&[("a", ""), ("b", "")]);
    let book = Book::new(|_, _| Ok(Duration::ZERO));
    let relay = relay(&outbox, &book).sent_retention(Some(Duration::from_secs(300)));
    assert_eq!(relay.once().await.unwrap().deleted, 0);
    sleep(Duration::from_secs(299)).await;
    assert_eq!(relay.once().await.unwrap().deleted, 0);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(relay.once().await.unwrap().deleted, 2);
}
