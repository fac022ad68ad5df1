//! Relays of an outbox, in processes that are killed again and again: for store authors whose
//! store has an [`Outbox`].
//!
//! A test binary runs itself again as a relay: its test `relay` calls [`Worker::run`], which does
//! nothing unless the environment says that this process is one. The other test calls
//! [`RelayKills::run`].

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_core::async_trait;
use idem_core::housekeeping::Stop;
use idem_core::outbox::{Backlog, MessageState, Outbox, OutboxMessage};
use idem_core::relay::{Relay, Sink, SinkError};
use idem_core::transactional::TransactionalStore;
use tokio::task::JoinSet;

use crate::random::{Random, fresh_seed};

/// How long nothing may be delivered before the test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
const LEDGER: &str = "IDEM_RELAY_LEDGER";
const POISON: &str = "poison";
/// The number of the poison message, and the key that it stands in front of.
const POISON_NUMBER: usize = 0;
const BLOCKED_KEY: usize = 0;

/// The test, as it is set up.
#[derive(Debug, Clone)]
pub struct RelayKills {
    /// How many messages are pushed, a tenth of them without an ordering key.
    pub messages: usize,
    /// How many ordering keys there are.
    pub keys: usize,
    /// How many relays run at once.
    pub relays: usize,
    /// How often one of them is killed.
    pub every: Duration,
}

impl Default for RelayKills {
    /// 10,000 messages under 100 keys, three relays, one of them killed every 200 ms.
    fn default() -> Self {
        Self { messages: 10_000, keys: 100, relays: 3, every: Duration::from_millis(200) }
    }
}

/// A relay process.
pub struct Worker;

impl Worker {
    /// Whether this process is to be a relay.
    pub fn is_wanted() -> bool {
        std::env::var_os(LEDGER).is_some()
    }

    /// Relays until the process is killed. What is delivered is a line in the ledger.
    ///
    /// # Panics
    /// When the process was not started by [`RelayKills::run`].
    pub async fn run(outbox: Arc<dyn Outbox>) {
        // Ends this process when the one that started it is gone.
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(3);
        });
        let path = std::env::var_os(LEDGER).expect("this process was started as a relay");
        let sink = Ledger { path: path.into() };
        let relay = Relay::new(outbox, sink)
            .lease(Duration::from_secs(2))
            .batch(40)
            .concurrency(8)
            .interval(Duration::from_millis(50))
            .waits(Duration::from_millis(50), Duration::from_millis(200));
        relay.run(&Stop::new()).await;
    }
}

/// A file that every relay appends to, one line for each delivery, in one write. What a killed
/// process had written stays written.
struct Ledger {
    path: PathBuf,
}

#[async_trait]
impl Sink for Ledger {
    async fn deliver(&self, message: &OutboxMessage, attempt: u32) -> Result<(), SinkError> {
        if message.topic() == POISON {
            return Err(SinkError::poison("the receiver refuses it"));
        }
        // Some of the first attempts fail, always the same ones.
        if attempt == 1 && message.id().as_bytes()[0] < 8 {
            return Err(SinkError::retryable("the receiver is busy"));
        }
        let text = str::from_utf8(message.payload()).unwrap_or_default();
        let line = format!("{text} {} {}\n", message.id(), std::process::id());
        let file = OpenOptions::new().append(true).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| SinkError::retryable("the ledger failed").with_source(error))
    }
}

impl RelayKills {
    /// Pushes the messages, while relays are killed and started, and checks the ledger: every
    /// message is there, repeats have one id, each key is in order, and the one poison message
    /// holds back its own key alone until it is discarded.
    ///
    /// `start` gives the command of a relay process, to which the ledger's place is added.
    ///
    /// # Panics
    /// When any of this does not hold.
    pub async fn run<S: TransactionalStore + Clone>(
        &self,
        store: S,
        outbox: Arc<dyn Outbox>,
        directory: &Path,
        start: impl Fn() -> Command,
    ) {
        let seed = fresh_seed();
        println!("seed {seed}, {self:?}");
        let ledger = directory.join("ledger");
        std::fs::write(&ledger, "").expect("the ledger is made");
        let mut killer = Killer {
            start: &start,
            ledger: &ledger,
            random: Random::from_seed(seed),
            relays: Vec::new(),
            kills: 0,
        };
        for _ in 0..self.relays {
            killer.start();
        }
        let mut pushers = self.pushers(&store);
        let expected = self.messages;
        let behind = self.behind_the_poison();
        // Everything but what stands behind the poison message.
        self.until(&mut killer, &ledger, expected - behind - 1).await;
        while let Some(pushed) = pushers.join_next().await {
            pushed.expect("the messages are pushed");
        }
        self.until_backlog(&mut killer, &outbox, |backlog| backlog.dead > 0).await;
        let dead = outbox.list(MessageState::Dead, None, 10).await.expect("the dead are listed");
        let dead: Vec<_> = dead.entries.iter().map(|entry| &entry.message).collect();
        assert_eq!(dead.len(), 1, "the dead letters: {dead:?}");
        assert_eq!(dead[0].topic(), POISON);
        assert_eq!(read(&ledger).delivered(BLOCKED_KEY), 0, "they wait behind the poison");
        assert_eq!(outbox.discard(&[dead[0].id()]).await.expect("it is discarded"), 1);
        self.until(&mut killer, &ledger, expected - 1).await;
        // The relays that are left settle everything.
        self.until_backlog(&mut killer, &outbox, |backlog| backlog.waiting == 0).await;
        let backlog = outbox.backlog().await.expect("the backlog is counted");
        assert_eq!(backlog.dead, 0, "{backlog:?}");
        let kills = killer.kills;
        drop(killer);
        read(&ledger).check(self, kills);
    }

    fn key_of(&self, number: usize) -> Option<usize> {
        (number % 10 != 9).then_some(number % self.keys)
    }

    /// The poison message is the first of its key.
    fn behind_the_poison(&self) -> usize {
        (0..self.messages).filter(|number| self.key_of(*number) == Some(BLOCKED_KEY)).count() - 1
    }

    /// Each key is pushed by one task, so that the order of its commits is known.
    fn pushers<S: TransactionalStore + Clone>(&self, store: &S) -> JoinSet<()> {
        const PUSHERS: usize = 4;
        const IN_ONE_TRANSACTION: usize = 25;
        let mut pushers = JoinSet::new();
        for pusher in 0..PUSHERS {
            let (store, test) = (store.clone(), self.clone());
            pushers.spawn(async move {
                let own =
                    (0..test.messages).filter(|number| number % test.keys % PUSHERS == pusher);
                let own: Vec<usize> = own.collect();
                for numbers in own.chunks(IN_ONE_TRANSACTION) {
                    let messages: Vec<_> =
                        numbers.iter().map(|number| test.message(*number)).collect();
                    let began = Instant::now();
                    while let Err(error) = push(&store, &messages).await {
                        assert!(error.kind().is_known_not_applied(), "{error}");
                        assert!(began.elapsed() < PATIENCE, "{error}");
                    }
                }
            });
        }
        pushers
    }

    fn message(&self, number: usize) -> OutboxMessage {
        let key = self.key_of(number);
        let topic = if number == POISON_NUMBER { POISON } else { "number" };
        let shown = key.map_or("-".to_owned(), |key| key.to_string());
        let message = OutboxMessage::new(topic, format!("{number} {shown}")).expect("it is short");
        match key {
            Some(key) => message.ordered_by(format!("key {key}")).expect("it is short"),
            None => message,
        }
    }

    /// Kills, until so many messages are in the ledger.
    async fn until(&self, killer: &mut Killer<'_>, ledger: &Path, wanted: usize) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let seen = read(ledger).times.len();
            if seen >= wanted {
                return;
            }
            if seen > before {
                (before, since) = (seen, Instant::now());
            }
            assert!(since.elapsed() < PATIENCE, "{seen} of {wanted}, and no more");
            tokio::time::sleep(self.every).await;
            killer.kill_one();
        }
    }

    /// Waits, and kills nobody.
    async fn until_backlog(
        &self,
        killer: &mut Killer<'_>,
        outbox: &Arc<dyn Outbox>,
        holds: impl Fn(&Backlog) -> bool,
    ) {
        let began = Instant::now();
        loop {
            let backlog = outbox.backlog().await.expect("the backlog is counted");
            if holds(&backlog) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{backlog:?}");
            killer.check();
            tokio::time::sleep(self.every).await;
        }
    }
}

async fn push<S: TransactionalStore>(
    store: &S,
    messages: &[OutboxMessage],
) -> Result<(), idem_core::error::StoreError> {
    let mut tx = store.begin().await?;
    for message in messages {
        store.push_in(&mut tx, message).await?;
    }
    store.commit(tx).await
}

struct Killer<'k> {
    start: &'k dyn Fn() -> Command,
    ledger: &'k Path,
    random: Random,
    relays: Vec<Child>,
    kills: u64,
}

impl Killer<'_> {
    fn start(&mut self) {
        let mut command = (self.start)();
        command.env(LEDGER, self.ledger).stdin(Stdio::piped()).stdout(Stdio::null());
        self.relays.push(command.spawn().expect("the test binary runs again"));
    }

    /// SIGKILL.
    fn kill_one(&mut self) {
        let place = self.random.index(self.relays.len());
        let mut relay = self.relays.swap_remove(place);
        relay.kill().expect("it can be killed");
        let status = relay.wait().expect("it ends");
        assert_eq!(status.code(), None, "a relay ended by itself");
        self.kills += 1;
        self.start();
    }

    fn check(&mut self) {
        for relay in &mut self.relays {
            let ended = relay.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "a relay ended by itself: {ended:?}");
        }
    }
}

impl Drop for Killer<'_> {
    fn drop(&mut self) {
        for relay in &mut self.relays {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

/// The ledger: by number, the ids; by key, the numbers in the order of their first delivery.
struct Deliveries {
    lines: usize,
    times: HashMap<usize, usize>,
    ids: HashMap<usize, Vec<String>>,
    firsts: HashMap<usize, Vec<usize>>,
}

fn read(ledger: &Path) -> Deliveries {
    let text = std::fs::read_to_string(ledger).expect("the ledger is there");
    let mut seen =
        Deliveries { lines: 0, times: HashMap::new(), ids: HashMap::new(), firsts: HashMap::new() };
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [number, key, id, _relay] = parts[..] else { panic!("a torn line: {line:?}") };
        let number: usize = number.parse().expect("a number");
        seen.lines += 1;
        let times = seen.times.entry(number).or_default();
        *times += 1;
        let ids = seen.ids.entry(number).or_default();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
        if let (Ok(key), 1) = (key.parse(), *times) {
            seen.firsts.entry(key).or_default().push(number);
        }
    }
    seen
}

impl Deliveries {
    fn delivered(&self, key: usize) -> usize {
        self.firsts.get(&key).map_or(0, Vec::len)
    }

    fn check(&self, test: &RelayKills, kills: u64) {
        let repeats = self.lines - self.times.len();
        println!(
            "{kills} kills, {} deliveries of {} messages, {repeats} of them repeats",
            self.lines,
            self.times.len()
        );
        let lost: Vec<usize> =
            (1..test.messages).filter(|number| !self.times.contains_key(number)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        for (number, ids) in &self.ids {
            assert_eq!(ids.len(), 1, "message {number} was delivered under several ids");
        }
        for (key, firsts) in &self.firsts {
            assert!(firsts.is_sorted(), "key {key} was not delivered in order: {firsts:?}");
        }
        assert!(!self.times.contains_key(&POISON_NUMBER), "the poison message was delivered");
        assert!(kills > 0, "nothing was killed");
    }
}
