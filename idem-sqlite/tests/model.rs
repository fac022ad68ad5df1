//! Random sequences of verbs on SQLite and on the memory store, under one clock: every answer and
//! every record agrees, incarnations aside, since each store makes its own.

mod support;

use std::sync::Arc;
use std::time::Duration;

use idem_core::admin::{Admin, Filter, StateFilter};
use idem_core::claim::{Claimed, Takeover};
use idem_core::codec::Sealed;
use idem_core::error::{ErrorKind, StoreError};
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::Scope;
use idem_core::memory::MemoryStore;
use idem_core::record::{Fence, Incarnation, OperationName, Owner, Recovery, Retention};
use idem_core::store::{Page, Store};
use idem_core::time::ManualClock;
use idem_sqlite::SqliteStore;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{Place, Request, print};

#[derive(Debug, Clone)]
enum Action {
    Claim(ClaimAction),
    Renew(Index, u64),
    Checkpoint(Index, u32, u8, u64),
    Complete(Index, u8),
    Release(Index),
    Remove(Index),
    Get(u8),
    Lapsed(u32),
    List(Option<StateFilter>, u32),
    Stats,
    Sweep,
    Forget(u8),
    Advance(u64),
    StepBack(u64),
}

#[derive(Debug, Clone)]
struct ClaimAction {
    key: u8,
    owner: u8,
    operation: u8,
    print: u8,
    input: Option<u8>,
    marks_begun: bool,
    lease: u64,
    retention: Option<(u64, u64)>,
    takeover: TakeoverAction,
}

#[derive(Debug, Clone)]
enum TakeoverAction {
    Never,
    Below(u32, u64),
    Only(Index, u32, Option<u64>),
}

fn claim() -> impl Strategy<Value = Action> {
    let takeover = prop_oneof![
        Just(TakeoverAction::Never),
        (0..4_u32, 1..12_u64).prop_map(|(attempts, age)| TakeoverAction::Below(attempts, age)),
        (any::<Index>(), 1..4_u32, proptest::option::of(1..12_u64))
            .prop_map(|(index, attempt, age)| TakeoverAction::Only(index, attempt, age)),
    ];
    let retention = proptest::option::weighted(0.9, (0..8_u64, 0..4_u64));
    let request = (0..4_u8, 0..3_u8, 0..2_u8, 0..5_u8, proptest::option::of(any::<u8>()));
    (request, any::<bool>(), 0..5_u64, retention, takeover).prop_map(
        |((key, owner, operation, print, input), marks_begun, lease, retention, takeover)| {
            Action::Claim(ClaimAction {
                key,
                owner,
                operation,
                print,
                input,
                marks_begun,
                lease,
                retention,
                takeover,
            })
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let fence = any::<Index>;
    let states = prop_oneof![
        Just(None),
        Just(Some(StateFilter::Live)),
        Just(Some(StateFilter::Lapsed)),
        Just(Some(StateFilter::Completed)),
    ];
    prop_oneof![
        6 => claim(),
        2 => (fence(), 0..6_u64).prop_map(|(at, lease)| Action::Renew(at, lease)),
        3 => (fence(), 0..4_u32, 0..2_u8, 0..6_u64)
            .prop_map(|(at, number, byte, lease)| Action::Checkpoint(at, number, byte, lease)),
        3 => (fence(), 0..2_u8).prop_map(|(at, byte)| Action::Complete(at, byte)),
        2 => fence().prop_map(Action::Release),
        1 => fence().prop_map(Action::Remove),
        1 => (0..4_u8).prop_map(Action::Get),
        1 => (1..4_u32).prop_map(Action::Lapsed),
        1 => (states, 1..4_u32).prop_map(|(state, limit)| Action::List(state, limit)),
        1 => Just(Action::Stats),
        1 => Just(Action::Sweep),
        1 => (0..2_u8).prop_map(Action::Forget),
        4 => (0..4_u64).prop_map(Action::Advance),
        1 => (0..2_u64).prop_map(Action::StepBack),
    ]
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scope(number: u8) -> &'static str {
    ["one", "two"][usize::from(number % 2)]
}

/// The two stores, and the fences that were ever won, as each of them knows them.
struct Pair {
    clock: Arc<ManualClock>,
    memory: MemoryStore,
    sqlite: SqliteStore,
    fences: Vec<(Fence, Fence)>,
}

impl Pair {
    fn fence(&self, index: &Index) -> Option<(Fence, Fence)> {
        (!self.fences.is_empty()).then(|| index.get(&self.fences).clone())
    }

    fn request(&self, action: &ClaimAction) -> (Request, Request) {
        let mut request = Request::opaque(scope(action.key), &[action.key]);
        request.owner = Owner::from_bytes([action.owner; 16]);
        request.operation =
            OperationName::new(["charge", "refund"][usize::from(action.operation)]).unwrap();
        request.fingerprints = match action.print {
            0 => Fingerprints::not_compared(),
            1 => Fingerprint::from_parts(Scheme::from_byte(7), [1; 32]).into(),
            2 => Fingerprints::new(print(2))
                .also(Fingerprint::from_parts(Scheme::from_byte(7), [1; 32])),
            other => print(other).into(),
        };
        request.input = action.input.map(|byte| Sealed::from_bytes(vec![byte; 3]));
        request.marks_begun = action.marks_begun;
        request.lease = seconds(action.lease);
        request.retention = match action.retention {
            Some((total, least)) => Retention::at_least(seconds(total), seconds(least)),
            None => Retention::Forever,
        };
        let mut other = request.clone();
        (request.takeover, other.takeover) = match &action.takeover {
            TakeoverAction::Never => (Takeover::Never, Takeover::Never),
            TakeoverAction::Below(attempts, age) => {
                let younger_than = seconds(*age);
                let below = Takeover::Below { attempts: *attempts, younger_than };
                (below, below)
            }
            TakeoverAction::Only(index, attempt, age) => {
                let none = Incarnation::from_bytes([0; 16]);
                let (memory, sqlite) =
                    self.fence(index).map_or((none, none), |(memory, sqlite)| {
                        (memory.incarnation, sqlite.incarnation)
                    });
                let (attempt, younger_than) = (*attempt, age.map(seconds));
                (
                    Takeover::Only { incarnation: memory, attempt, younger_than },
                    Takeover::Only { incarnation: sqlite, attempt, younger_than },
                )
            }
        };
        (request, other)
    }

    async fn claim(&mut self, action: &ClaimAction) {
        let (memory, sqlite) = self.request(action);
        let memory = self.memory.claim(&memory.claim()).await;
        let sqlite = self.sqlite.claim(&sqlite.claim()).await;
        if let (Ok(Claimed::Acquired(memory)), Ok(Claimed::Acquired(sqlite))) = (&memory, &sqlite) {
            self.fences.push((memory.fence.clone(), sqlite.fence.clone()));
        }
        same(memory.map(without_life), sqlite.map(without_life));
    }

    async fn act(&mut self, action: &Action) {
        let (memory, sqlite) = (self.memory.clone(), self.sqlite.clone());
        let fences = match action {
            Action::Renew(at, _)
            | Action::Checkpoint(at, ..)
            | Action::Complete(at, _)
            | Action::Release(at)
            | Action::Remove(at) => match self.fence(at) {
                Some(fences) => Some(fences),
                None => return,
            },
            _ => None,
        };
        let (of_memory, of_sqlite) = match &fences {
            Some((memory, sqlite)) => (Some(memory), Some(sqlite)),
            None => (None, None),
        };
        macro_rules! both {
            ($method:ident($($argument:expr),*)) => {
                same(memory.$method($($argument),*).await, sqlite.$method($($argument),*).await)
            };
        }
        macro_rules! fenced {
            ($method:ident($($argument:expr),*)) => {
                same(
                    memory.$method(of_memory.unwrap(), $($argument),*).await,
                    sqlite.$method(of_sqlite.unwrap(), $($argument),*).await,
                )
            };
        }
        match action {
            Action::Claim(action) => self.claim(action).await,
            Action::Renew(_, lease) => fenced!(renew(seconds(*lease))),
            Action::Checkpoint(_, number, byte, lease) => {
                let payload = Sealed::from_bytes(vec![*byte; 2]);
                let recovery = Recovery { number: *number, payload };
                fenced!(checkpoint(&recovery, seconds(*lease)));
            }
            Action::Complete(_, byte) => {
                let reply = Sealed::from_bytes(vec![*byte; 4]);
                fenced!(complete(&reply));
            }
            Action::Release(_) => fenced!(release()),
            Action::Remove(_) => fenced!(remove()),
            Action::Get(key) => {
                let request = Request::opaque(scope(*key), &[*key]);
                let memory = memory.get(&request.scope, &request.key).await;
                let sqlite = sqlite.get(&request.scope, &request.key).await;
                let page =
                    |seen: Option<_>| Page { records: seen.into_iter().collect(), next: None };
                same(memory.map(page).map(without_lives), sqlite.map(page).map(without_lives));
            }
            Action::Lapsed(limit) => {
                let memory = memory.lapsed(None, *limit).await;
                same(
                    memory.map(without_lives),
                    sqlite.lapsed(None, *limit).await.map(without_lives),
                );
            }
            Action::List(state, limit) => {
                let mut filter = Filter::all();
                filter.state = *state;
                let memory = memory.list(&filter, None, *limit).await.map(without_lives);
                same(memory, sqlite.list(&filter, None, *limit).await.map(without_lives));
            }
            Action::Stats => {
                let mut expected = memory.stats().await.unwrap();
                expected.outbox_pending = Some(0);
                assert_eq!(sqlite.stats().await.unwrap(), expected);
            }
            Action::Sweep => both!(sweep(1_000)),
            Action::Forget(number) => {
                let scope = Scope::new(scope(*number)).unwrap();
                both!(forget(&scope, 1_000));
            }
            Action::Advance(by) => self.clock.advance(seconds(*by)),
            Action::StepBack(by) => self.clock.step_back(seconds(*by)),
        }
    }
}

fn without_life(mut claimed: Claimed) -> Claimed {
    let none = Incarnation::from_bytes([0; 16]);
    match &mut claimed {
        Claimed::Acquired(acquired) => acquired.fence.incarnation = none,
        Claimed::Completed(replay) => replay.fence.incarnation = none,
        _ => {}
    }
    claimed
}

fn without_lives(mut page: Page) -> Page {
    for seen in &mut page.records {
        seen.record.incarnation = Incarnation::from_bytes([0; 16]);
    }
    page
}

fn same<T: PartialEq + std::fmt::Debug>(
    memory: Result<T, StoreError>,
    sqlite: Result<T, StoreError>,
) {
    let told = |error: StoreError| -> (ErrorKind, String) { (error.kind(), error.to_string()) };
    assert_eq!(sqlite.map_err(told), memory.map_err(told), "sqlite, then memory");
}

async fn run(actions: Vec<Action>) {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new());
    let memory = MemoryStore::with_clock(Arc::clone(&clock));
    let sqlite = place.open_at(&clock).await;
    let mut pair = Pair { clock, memory, sqlite, fences: Vec::new() };
    for action in &actions {
        pair.act(action).await;
    }
    pair.act(&Action::List(None, 1_000)).await;
    pair.act(&Action::Lapsed(1_000)).await;
    pair.act(&Action::Stats).await;
    // Lives are told apart alike: the same fences hold in both.
    for (memory, sqlite) in pair.fences.clone() {
        let memory = pair.memory.renew(&memory, seconds(1)).await;
        same(memory, pair.sqlite.renew(&sqlite, seconds(1)).await);
    }
    pair.sqlite.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sqlite_answers_as_the_memory_store_does(
        actions in proptest::collection::vec(action(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(run(actions));
    }
}
