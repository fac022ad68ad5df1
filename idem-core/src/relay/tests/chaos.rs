//! Relays that are killed, a store that is slow and loses answers, leases shorter than deliveries,
//! and a sink that does everything that a sink may do.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::faulty::{Called, Fate, Faulty};
use super::outbox_of;
use crate::housekeeping::Stop;
use crate::outbox::{MemoryOutbox, MessageId, MessageState, Outbox, OutboxMessage};
use crate::relay::{Relay, Sink, SinkError};

const MESSAGES: u64 = 120;
const KEYS: u64 = 6;

/// Numbers that follow from a seed (SplitMix64).
struct Dice(Mutex<u64>);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn millis(&self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// What arrived, and whatever should not have happened.
struct Wild {
    dice: Arc<Dice>,
    arrived: Mutex<HashMap<u64, HashSet<MessageId>>>,
    wrong: Mutex<Vec<String>>,
    is_mended: AtomicBool,
}

/// Of the messages `0`, `1` and so on those of one key have the same remainder.
fn number(message: &OutboxMessage) -> u64 {
    message.topic().parse().unwrap()
}

fn is_poison(number: u64) -> bool {
    number % 17 == 5
}

#[async_trait]
impl Sink for Wild {
    async fn deliver(&self, message: &OutboxMessage, _attempt: u32) -> Result<(), SinkError> {
        let number = number(message);
        if number >= KEYS {
            let arrived = self.arrived.lock().unwrap();
            if !arrived.contains_key(&(number - KEYS)) {
                self.wrong.lock().unwrap().push(format!("{number} overtook {}", number - KEYS));
            }
        }
        sleep(self.dice.millis(4_000)).await;
        if is_poison(number) && !self.is_mended.load(Ordering::SeqCst) {
            return Err(SinkError::poison("422"));
        }
        match self.dice.below(10) {
            0 | 1 => Err(SinkError::retryable("503")),
            2 => std::future::pending().await,
            lost => {
                self.arrived.lock().unwrap().entry(number).or_default().insert(message.id());
                // The message is there, and its relay is not told.
                if lost == 3 { Err(SinkError::retryable("cut off")) } else { Ok(()) }
            }
        }
    }
}

impl Wild {
    fn relay(self: &Arc<Self>, outbox: &Arc<MemoryOutbox>) -> Relay {
        let dice = self.dice.clone();
        let faulty = Faulty::with(outbox, move |called, _| {
            let fate = match (dice.below(12), called) {
                (0, _) => Fate::NotApplied,
                (1, _) => Fate::Unknown,
                // Leases run out in the middle of deliveries.
                (2..5, Called::Renew) => Fate::NotApplied,
                _ => Fate::Works,
            };
            (dice.millis(200), fate)
        });
        Relay::new(faulty, self.clone())
            .lease(Duration::from_secs(3))
            .delivery_limit(Duration::from_secs(6))
            .batch(10)
            .concurrency(4)
            .interval(Duration::from_millis(200))
            .waits(Duration::from_millis(100), Duration::from_secs(2))
            .max_attempts(1_000)
    }

    /// Lets three relays run, of which now and then one is killed or stopped, until only dead
    /// letters and what stands behind them are left.
    async fn run(self: &Arc<Self>, outbox: &Arc<MemoryOutbox>, waiting: u64) {
        let began = Instant::now();
        let mut relays = Vec::new();
        while outbox.backlog().await.unwrap().waiting > waiting {
            assert!(began.elapsed() < Duration::from_secs(8 * 3_600), "it does not end");
            while relays.len() < 3 {
                let (relay, stop) = (self.relay(outbox), Stop::new());
                let stopped = stop.clone();
                relays.push((tokio::spawn(async move { relay.run(&stopped).await }), stop));
            }
            sleep(self.dice.millis(20_000)).await;
            let unlucky = usize::try_from(self.dice.below(3)).unwrap();
            let (task, stop) = relays.swap_remove(unlucky);
            if self.dice.below(2) == 0 { task.abort() } else { stop.request() }
        }
        for (task, stop) in relays {
            stop.request();
            task.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_and_no_message_overtakes_another_of_its_key() {
    for seed in 1..=8 {
        println!("seed {seed}");
        let messages: Vec<(String, String)> =
            (0..MESSAGES).map(|one| (one.to_string(), format!("key {}", one % KEYS))).collect();
        let messages: Vec<_> =
            messages.iter().map(|(topic, key)| (topic.as_str(), key.as_str())).collect();
        let outbox = outbox_of(&messages);
        let wild = Arc::new(Wild {
            dice: Arc::new(Dice(Mutex::new(seed))),
            arrived: Mutex::default(),
            wrong: Mutex::default(),
            is_mended: AtomicBool::new(false),
        });
        // The first poison of each key holds back all behind it.
        let first = |key| (0..MESSAGES).find(|one| one % KEYS == key && is_poison(*one));
        let dead: Vec<u64> = (0..KEYS).filter_map(first).collect();
        let behind = dead.iter().map(|dead| (MESSAGES - 1 - dead) / KEYS).sum();
        wild.run(&outbox, behind).await;
        let letters = outbox.list(MessageState::Dead, None, 1_000).await.unwrap().entries;
        let mut found: Vec<u64> = letters.iter().map(|entry| number(&entry.message)).collect();
        found.sort_unstable();
        let mut expected = dead.clone();
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");

        wild.is_mended.store(true, Ordering::SeqCst);
        let ids: Vec<MessageId> = letters.iter().map(|entry| entry.message.id()).collect();
        assert_eq!(outbox.requeue(&ids).await.unwrap(), dead.len() as u64);
        wild.run(&outbox, 0).await;
        let backlog = outbox.backlog().await.unwrap();
        assert_eq!((backlog.waiting, backlog.dead, backlog.leased), (0, 0, 0), "seed {seed}");
        let wrong = wild.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        let arrived = wild.arrived.lock().unwrap();
        assert_eq!(arrived.len() as u64, MESSAGES, "seed {seed}");
        assert!(arrived.values().all(|ids| ids.len() == 1), "seed {seed}: one id each");
    }
}
