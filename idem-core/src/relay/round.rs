//! One pass: leases, delivers, renews and settles until nothing is due.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::error::StoreError;
use crate::housekeeping::{Stop, spread};
use crate::outbox::{LeaseMessages, Leased, Outbox, SettleAs, Settlement};
use crate::relay::deliver::Deliveries;
use crate::relay::hand::{Group, Hand};
use crate::relay::progress::Progress;
use crate::relay::settings::Settings;
use crate::relay::{Relay, Relayed};
use crate::store::MAX_PAGE;

/// How long to wait before a settlement that failed is sent again.
const SETTLE_AGAIN: Duration = Duration::from_millis(100);

/// How long slow messages of few keys may leave no room for others.
const RELIEVE_AFTER: Duration = Duration::from_secs(1);

/// For how long nothing new is taken up when a round tries to end. Deliveries that take longer go
/// on in the same round, since others should not have to wait for them.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Round<'r> {
    outbox: &'r Arc<dyn Outbox>,
    settings: &'r Settings,
    progress: &'r Progress,
    stop: &'r Stop,
    /// After so long it tries to end, though more is due.
    length: Option<Duration>,
    /// When it tries next, for [`PAUSE`].
    tries_to_end_at: Option<Instant>,
    deliveries: Arc<Deliveries>,
    hand: Hand,
    /// Aborted when this is dropped.
    running: JoinSet<()>,
    tell: mpsc::Sender<Settlement>,
    told: mpsc::Receiver<Settlement>,
    /// In the order in which they were told, which within a key is that of the messages.
    unsettled: Vec<Settlement>,
    done: Relayed,
    /// Nothing is leased before.
    leases_at: Instant,
    /// The last lease got nothing.
    is_dry: bool,
    /// When there is to be room for other keys, if there is none.
    relieves_at: Option<Instant>,
    renews_at: Instant,
    settles_at: Instant,
    /// Until when settling is tried; `None` while it works.
    gives_up_at: Option<Instant>,
}

impl<'r> Round<'r> {
    pub(super) fn new(relay: &'r Relay, stop: &'r Stop, length: Option<Duration>) -> Self {
        let Relay { outbox, sink, settings, progress, .. } = relay;
        let deliveries = Deliveries {
            sink: Arc::clone(sink),
            settings: settings.clone(),
            permits: Semaphore::new(settings.concurrency),
            stop: stop.clone(),
        };
        let (tell, told) = mpsc::channel(settings.batch as usize);
        let now = Instant::now();
        Self {
            outbox,
            settings,
            progress,
            stop,
            length,
            tries_to_end_at: length.map(|length| now + length),
            deliveries: Arc::new(deliveries),
            hand: Hand::default(),
            running: JoinSet::new(),
            tell,
            told,
            unsettled: Vec::new(),
            done: Relayed::default(),
            leases_at: now,
            is_dry: false,
            relieves_at: None,
            renews_at: now + settings.lease / 3,
            settles_at: now,
            gives_up_at: None,
        }
    }

    /// What was done, and whether more was due when the time was over.
    pub(super) async fn run(mut self) -> Result<(Relayed, bool), StoreError> {
        loop {
            while let Some(ended) = self.running.try_join_next() {
                // Its messages were told of all the same. What it says may hold a payload (R24).
                if ended.is_err() {
                    tracing::error!("the deliveries of an ordering key ended with a panic");
                }
            }
            self.settle().await?;
            if self.stop.is_requested() {
                let suspect = self.hand.drop_suspect();
                self.give_back(suspect);
            }
            self.goes_on();
            self.relieve();
            if self.may_lease() && self.leases_at <= Instant::now() {
                self.lease().await?;
            }
            if let Some(suspect) = self.hand.suspect() {
                self.begin(suspect);
            }
            let nothing_comes = self.is_dry || self.takes_nothing_new();
            if nothing_comes && self.hand.is_empty() && self.unsettled.is_empty() {
                return Ok((self.done, !self.is_dry));
            }
            self.wait().await?;
        }
    }

    fn may_lease(&self) -> bool {
        let room = self.hand.len() <= self.settings.batch as usize / 2;
        room && !self.takes_nothing_new() && self.hand.takes_more()
    }

    /// It is to stop, or tries to end. Suspects whose turn it is are taken before.
    fn takes_nothing_new(&self) -> bool {
        let is_ending = self.tries_to_end_at.is_some_and(|at| at <= Instant::now());
        (is_ending && !self.hand.is_suspects_turn()) || self.stop.is_requested()
    }

    /// What runs takes too long to wait for.
    fn goes_on(&mut self) {
        let now = Instant::now();
        if self.tries_to_end_at.is_some_and(|at| at + PAUSE <= now) {
            self.tries_to_end_at = self.length.map(|length| now + length);
        }
    }

    async fn wait(&mut self) -> Result<(), StoreError> {
        let (may_lease, stopping) = (self.may_lease(), self.stop.is_requested());
        let relieves_at = self.relieves_at.unwrap_or(self.renews_at);
        let goes_on_at = self.tries_to_end_at.unwrap_or(self.renews_at) + PAUSE;
        tokio::select! {
            Some(settlement) = self.told.recv() => {
                self.unsettled.push(settlement);
                while let Ok(settlement) = self.told.try_recv() {
                    self.unsettled.push(settlement);
                }
            }
            () = sleep_until(self.renews_at) => self.renew().await?,
            () = sleep_until(self.leases_at), if may_lease => {}
            () = sleep_until(relieves_at), if self.relieves_at.is_some() => {}
            () = sleep_until(goes_on_at), if self.tries_to_end_at.is_some() => {}
            () = sleep_until(self.settles_at), if !self.unsettled.is_empty() => {}
            () = self.stop.requested(), if !stopping => {}
        }
        Ok(())
    }

    async fn lease(&mut self) -> Result<(), StoreError> {
        let room = self.settings.batch - u32::try_from(self.hand.len()).unwrap_or(u32::MAX);
        let call = LeaseMessages::new(self.settings.lease, room.max(1));
        let asked_at = Instant::now();
        let leased = self.outbox.lease(&call.past_dead(self.settings.past_dead)).await;
        let batch = match leased {
            Ok(batch) => batch,
            // What is in hand is delivered and settled first.
            Err(error) if error.kind().is_transient() && !self.hand.is_empty() => {
                tracing::warn!(error = %error, "messages could not be leased");
                self.leases_at = Instant::now() + spread(self.settings.interval);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.progress.note();
        self.is_dry = batch.messages.is_empty();
        if self.is_dry {
            self.leases_at = Instant::now() + spread(self.settings.interval);
        }
        if self.hand.is_empty() {
            self.renews_at = asked_at + self.settings.lease / 3;
        }
        let taken = self.hand.take(batch, asked_at);
        self.give_back(taken.back);
        for group in taken.groups {
            self.begin(group);
        }
        Ok(())
    }

    fn begin(&mut self, group: Group) {
        let deliveries = Arc::clone(&self.deliveries);
        self.running.spawn(deliveries.group(group.begin(), self.tell.clone()));
    }

    /// What stands behind slow messages of few keys is given back after a while, where it leaves no
    /// room for others though more deliveries may run, or keeps suspects from their turn.
    fn relieve(&mut self) {
        let most = match self.hand.is_suspects_turn() {
            true => 0,
            false => self.settings.batch as usize / 2,
        };
        let others_wait = self.hand.is_suspects_turn()
            || (self.hand.takes_more() && self.deliveries.permits.available_permits() > 0);
        let is_due = others_wait && self.hand.len() > most && !self.takes_nothing_new();
        let now = Instant::now();
        self.relieves_at = self.relieves_at.filter(|_| is_due);
        if is_due && *self.relieves_at.get_or_insert(now + RELIEVE_AFTER) <= now {
            self.relieves_at = None;
            let back = self.hand.trim(most);
            self.give_back(back);
        }
    }

    fn give_back(&mut self, messages: Vec<Leased>) {
        let back = messages.iter().map(|leased| Settlement::given_back(leased.lease));
        self.unsettled.extend(back);
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        self.renews_at = Instant::now() + self.settings.lease / 3;
        if self.hand.is_empty() {
            return Ok(());
        }
        let asked_at = Instant::now();
        match self.outbox.renew(&self.hand.leases(), self.settings.lease).await {
            Ok(lost) => {
                self.hand.lost(&lost.ids);
                self.hand.renewed(asked_at, self.settings.lease);
                Ok(())
            }
            // No delivery begins once the leases are over.
            Err(error) if error.kind().is_transient() => {
                tracing::warn!(error = %error, "leases could not be renewed");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Settles what was told so far. What cannot be settled for the length of a lease is left to
    /// whoever takes the messages over.
    async fn settle(&mut self) -> Result<(), StoreError> {
        if self.unsettled.is_empty() || self.settles_at > Instant::now() {
            return Ok(());
        }
        // Each message once, since what is lost is told by their ids.
        let mut ids = HashSet::new();
        let page = self.unsettled.iter().take(MAX_PAGE as usize);
        let count = page.take_while(|settlement| ids.insert(settlement.lease.id)).count();
        match self.outbox.settle(&self.unsettled[..count]).await {
            Ok(lost) => {
                self.progress.note();
                for settlement in self.unsettled.drain(..count) {
                    let id = settlement.lease.id;
                    let is_lost = lost.ids.contains(&id);
                    self.hand.settled(&settlement.lease, is_lost);
                    if is_lost {
                        self.done.lost += 1;
                        tracing::warn!(idem.message_id = %id, "another relay took a message over");
                    } else {
                        self.done.count(&settlement.outcome);
                    }
                }
                self.gives_up_at = None;
                Ok(())
            }
            Err(error) if error.kind().is_transient() && self.goes_on_settling() => {
                tracing::warn!(error = %error, "messages could not be settled");
                self.settles_at = Instant::now() + spread(SETTLE_AGAIN);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Counted from the first of the failures that stand in a row.
    fn goes_on_settling(&mut self) -> bool {
        let now = Instant::now();
        now < *self.gives_up_at.get_or_insert(now + self.settings.lease)
    }
}

impl Relayed {
    fn count(&mut self, outcome: &SettleAs) {
        match outcome {
            SettleAs::Sent => self.sent += 1,
            SettleAs::Failed { .. } => self.failed += 1,
            SettleAs::Dead { .. } => self.dead += 1,
            SettleAs::GivenBack => self.given_back += 1,
        }
    }
}
