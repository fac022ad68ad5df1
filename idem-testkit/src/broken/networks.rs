//! Stores that do not say what they do not know, and stores that lose what they acknowledged.

use std::sync::Arc;

use idem_core::async_trait;
use idem_core::time::{Clock, ManualClock};

use super::BrokenStore;
use super::rules::{Keeping, Right, Rules};
use super::wire::{Manners, Server};
use super::workshop::Workshop;
use crate::capability::{Capabilities, Capability};
use crate::conformance::Conformance;
use crate::faults::proxy::Proxy;
use crate::fixture::{Connected, Fixture, SetupError, SteppedClock};

pub(super) fn stores() -> Vec<BrokenStore> {
    let wired = |name, mistake, rules, caught_by, manners| {
        BrokenStore::planted(name, mistake, rules, caught_by, move || suite(name, manners))
    };
    let kept = |name, mistake, rules, caught_by, keeping| {
        BrokenStore::new(name, mistake, rules, caught_by, Keeps(keeping))
    };
    vec![
        wired(
            "lost-reply-is-not-applied",
            "a call whose reply was lost is told as not applied",
            "R5, R9",
            "network::lost_reply_of_a_claim",
            Manners::LostReplyIsNotApplied,
        ),
        wired(
            "lost-reply-of-a-completion-is-not-applied",
            "a completion whose reply was lost is told as not applied",
            "R5, R9",
            "network::lost_reply_of_a_completion",
            Manners::LostReplyIsNotApplied,
        ),
        wired(
            "sent-is-done",
            "a completion is told as stored once it was sent",
            "R9, R16",
            "network::lost_request_of_a_completion",
            Manners::SentIsDone,
        ),
        wired(
            "retries-as-another-owner",
            "a claim whose reply was lost is made again with a fresh owner, and meets itself",
            "R5",
            "network::lost_reply_of_a_claim",
            Manners::RetriesAsAnother,
        ),
        wired(
            "no-time-limit",
            "a server that has fallen silent is waited for",
            "R6, R9",
            "network::half_open",
            Manners::WaitsForEver,
        )
        .hanging(),
        wired(
            "never-reconnects",
            "a connection that broke is not opened again",
            "R9, R18",
            "network::cut_and_healed",
            Manners::NeverReconnects,
        )
        .hanging(),
        wired(
            "lost-connections-quote-the-key",
            "the error about a lost connection quotes the key",
            "R24",
            "secrets::lost_connections_tell_nothing",
            Manners::QuotesTheKey,
        ),
        wired(
            "dropped-call's-connection-is-used-again",
            "the next caller on it reads the answer of the call that was dropped",
            "R25",
            "drops::claim",
            Manners::ReusesDroppedConnections,
        ),
        kept(
            "damaged-record-is-absent",
            "a record that cannot be read is taken for none, and the work runs again",
            "R9",
            "damage::claim_fails_closed",
            Keeping::DamagedIsAbsent,
        ),
        kept(
            "damaged-record-reads-as-nothing",
            "a reader is told that there is no such record",
            "R9",
            "damage::read_is_never_absent",
            Keeping::DamagedIsAbsent,
        ),
        kept(
            "damaged-record-is-overwritten",
            "a completion writes over what it cannot read",
            "R9",
            "damage::fenced_writes_fail_closed",
            Keeping::DamagedIsRead,
        ),
        kept(
            "one-damaged-record-stops-all",
            "a sweep that meets a damaged record fails, for ever",
            "R9",
            "damage::others_are_served",
            Keeping::DamageStopsSweeps,
        ),
        kept(
            "last-write-lost-in-a-restart",
            "a write is acknowledged before it is on disk",
            "R8, R10",
            "restart::acknowledged_writes_survive",
            Keeping::RestartLosesTheLastWrite,
        ),
        kept(
            "old-connections-fail-for-good",
            "a connection from before a restart says that the call itself is wrong",
            "R9",
            "restart::old_connections_come_back",
            Keeping::RestartBreaksConnections,
        ),
    ]
}

struct Keeps(Keeping);

impl Rules for Keeps {
    fn keeping(&self) -> Keeping {
        self.0
    }
}

/// The suite on the workshop behind a connection.
pub(super) fn suite(name: &'static str, manners: Manners) -> Conformance {
    let declared = Capabilities::none()
        .with(Capability::Isolated)
        .with(Capability::SteppedClock)
        .with(Capability::NetworkFaults);
    Conformance::new(name, declared, move || Wired::start(manners))
}

struct Wired {
    server: Server,
    clock: Arc<ManualClock>,
    manners: Manners,
}

impl Wired {
    async fn start(manners: Manners) -> Result<Self, SetupError> {
        let clock = Arc::new(ManualClock::new());
        let store = Workshop::new(Arc::new(Right), clock.clone() as Arc<dyn Clock>);
        Ok(Self { server: Server::start(store).await?, clock, manners })
    }
}

#[async_trait]
impl Fixture for Wired {
    async fn connect(&self) -> Result<Connected, SetupError> {
        Ok(Connected::store(self.server.client(self.server.address, self.manners)))
    }

    fn clock(&self) -> Option<Arc<dyn SteppedClock>> {
        Some(self.clock.clone())
    }

    async fn connect_through_proxy(&self) -> Result<(Connected, Proxy), SetupError> {
        let proxy = Proxy::to(self.server.address).await?;
        let client = self.server.client(proxy.address(), self.manners);
        Ok((Connected::store(client), proxy))
    }
}
