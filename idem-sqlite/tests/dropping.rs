//! Every future dropped after its first, second, … poll: the store serves on, no lock is left
//! behind, and the record is untouched or as the verb leaves it (R25).

mod support;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use idem_core::admin::{Admin, Filter};
use idem_core::claim::Claimed;
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, State};
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::sqlx;
use idem_sqlite::{SqliteStore, SqliteTransaction};

use crate::support::{LEASE, Place, RETENTION, Request, point, sealed};

/// More polls than any verb takes, however the threads are scheduled.
const MANY: usize = 200;

/// Polls a future at most so often, then drops it. `None` when it was not done by then.
async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The store that is tried, with one connection to write with, and one that looks on from
/// outside.
struct Bench {
    place: Place,
    clock: Arc<ManualClock>,
    tried: SqliteStore,
    other: SqliteStore,
}

impl Bench {
    async fn new() -> Self {
        let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
        let tried = place.open_at(&clock).await;
        let other = place.open_at(&clock).await;
        let table = "CREATE TABLE rows (what TEXT NOT NULL) STRICT";
        sqlx::query(table).execute(&mut place.sql().await).await.unwrap();
        Self { place, clock, tried, other }
    }

    /// Both stores write, and see what the other wrote: no transaction is left open anywhere.
    async fn serves(&self, key: &str) {
        let probe = Request::new(&format!("probe of {key}"));
        let fence = probe.acquire(&self.tried).await.fence;
        self.tried.complete(&fence, &sealed("reply")).await.unwrap();
        assert!(matches!(probe.again().send(&self.other).await, Claimed::Completed(_)), "{key}");
        let probe = Request::new(&format!("counter-probe of {key}"));
        let fence = probe.acquire(&self.other).await.fence;
        self.other.complete(&fence, &sealed("reply")).await.unwrap();
        assert!(matches!(probe.again().send(&self.tried).await, Claimed::Completed(_)), "{key}");
    }

    async fn state(&self, fence: &Fence) -> Option<State> {
        let seen = self.other.get(&fence.scope, &fence.key).await.unwrap();
        seen.map(|seen| seen.record.state)
    }

    async fn rows(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM rows");
        count.fetch_one(&mut self.place.sql().await).await.unwrap()
    }

    async fn transaction(&self) -> SqliteTransaction {
        let mut transaction = self.tried.begin().await.unwrap();
        let insert = sqlx::query("INSERT INTO rows (what) VALUES ('x')");
        insert.execute(transaction.connection()).await.unwrap();
        transaction
    }
}

/// How often everything is taken through its polls: when the database's thread is quick, a verb is
/// done after fewer.
const ROUNDS: usize = 3;

/// Runs `$body`, which polls something `$times` times, with one poll more each time, until it says
/// that it was done before it was dropped. Gives how often it was dropped.
macro_rules! until_done {
    (|$key:ident, $times:ident| $body:expr) => {{
        let mut dropped = 0;
        for round in 0..ROUNDS {
            for $times in 1.. {
                assert!($times < MANY, "it is never done");
                let $key = format!("{}:{round}:{}", line!(), $times);
                let done: bool = $body;
                if done {
                    break;
                }
                dropped += 1;
            }
        }
        dropped
    }};
}

/// Drops a verb under a fence of its own. `$after` is called when both stores were found to serve.
macro_rules! at_each_poll {
    ($bench:ident, |$request:ident, $fence:ident| $verb:expr, $after:expr) => {
        until_done!(|key, times| {
            let $request = Request::new(&key);
            let $fence = $request.acquire(&$bench.tried).await.fence;
            let done = polled(times, $verb).await;
            $bench.serves(&key).await;
            let done = done.map(|done| done.expect("the verb succeeds")).is_some();
            $after(&$bench, &$fence, done).await;
            done
        })
    };
}

/// Drops a step inside a transaction, and then the transaction.
macro_rules! inside_at_each_poll {
    ($bench:ident, |$transaction:ident, $request:ident, $fence:ident| $step:expr) => {
        until_done!(|key, times| {
            let $request = Request::new(&key);
            let $fence = $request.acquire(&$bench.tried).await.fence;
            let mut open = $bench.transaction().await;
            let done = {
                let $transaction = &mut open;
                polled(times, $step).await.map(|done| done.expect("the step succeeds")).is_some()
            };
            drop(open);
            $bench.serves(&key).await;
            assert!(matches!($bench.state(&$fence).await, Some(State::InProgress { .. })));
            assert_eq!($bench.rows().await, 0);
            done
        })
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_claim_leaves_no_record_or_a_whole_one() {
    let bench = Bench::new().await;
    let dropped = until_done!(|key, times| {
        let request = Request::new(&key);
        let claim = request.claim();
        let done = polled(times, bench.tried.claim(&claim)).await;
        bench.serves(&key).await;
        // Whatever became of it, the same call again holds it, and a stranger does not.
        if let Some(seen) = bench.other.get(&request.scope, &request.key).await.unwrap() {
            assert_eq!(seen.record.owner, request.owner);
        }
        assert_eq!(request.acquire(&bench.other).await.fence.attempt, 1);
        assert!(matches!(request.again().send(&bench.tried).await, Claimed::InProgress { .. }));
        done.is_some()
    });
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_write_is_untouched_or_whole() {
    let bench = Bench::new().await;
    let reply = sealed("reply");
    async fn completed(bench: &Bench, fence: &Fence, done: bool) {
        match bench.state(fence).await {
            Some(State::Completed { reply, .. }) => assert_eq!(reply, sealed("reply")),
            Some(State::InProgress { recovery: None, .. }) if !done => {
                bench.other.complete(fence, &sealed("reply")).await.expect("it is still held");
            }
            other => panic!("done: {done}, seen {other:?}"),
        }
    }
    let mut dropped = 0;
    dropped += at_each_poll!(bench, |_r, fence| bench.tried.complete(&fence, &reply), completed);

    let first = point(1);
    async fn checkpointed(bench: &Bench, fence: &Fence, done: bool) {
        match bench.state(fence).await {
            Some(State::InProgress { recovery: Some(recovery), .. }) => {
                assert_eq!(recovery, point(1));
            }
            Some(State::InProgress { recovery: None, .. }) if !done => {}
            other => panic!("done: {done}, seen {other:?}"),
        }
        bench.other.checkpoint(fence, &point(1), LEASE).await.expect("once or again");
    }
    dropped += at_each_poll!(
        bench,
        |_r, fence| bench.tried.checkpoint(&fence, &first, LEASE),
        checkpointed
    );

    async fn held(bench: &Bench, fence: &Fence, _done: bool) {
        assert!(matches!(bench.state(fence).await, Some(State::InProgress { .. })));
        bench.other.renew(fence, LEASE).await.expect("it is still held");
    }
    dropped += at_each_poll!(bench, |_r, fence| bench.tried.renew(&fence, LEASE * 2), held);

    async fn gone(bench: &Bench, fence: &Fence, done: bool) {
        assert!(!done || bench.state(fence).await.is_none());
        bench.other.release(fence).await.expect("once or again");
        assert_eq!(bench.state(fence).await, None);
    }
    dropped += at_each_poll!(bench, |_r, fence| bench.tried.release(&fence), gone);
    dropped += at_each_poll!(bench, |_r, fence| bench.tried.remove(&fence), gone);
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_reading_and_housekeeping_leave_nothing_behind() {
    let bench = Bench::new().await;
    async fn held(bench: &Bench, fence: &Fence, _done: bool) {
        assert!(matches!(bench.state(fence).await, Some(State::InProgress { .. })));
    }
    let all = Filter::all();
    let mut dropped = 0;
    dropped += at_each_poll!(bench, |r, _f| bench.tried.get(&r.scope, &r.key), held);
    dropped += at_each_poll!(bench, |_r, _f| bench.tried.lapsed(None, 10), held);
    dropped += at_each_poll!(bench, |_r, _f| bench.tried.stats(), held);
    dropped += at_each_poll!(bench, |_r, _f| bench.tried.list(&all, None, 10), held);

    bench.clock.advance(RETENTION);
    dropped += at_each_poll!(bench, |_r, _f| bench.tried.sweep(3), held);
    dropped += at_each_poll!(bench, |r, _f| bench.tried.forget(&r.scope, 3), held);
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_commit_is_all_or_nothing() {
    let bench = Bench::new().await;
    let dropped = until_done!(|key, times| {
        let request = Request::new(&key);
        let fence = request.acquire(&bench.tried).await.fence;
        let before = bench.rows().await;
        let mut transaction = bench.transaction().await;
        bench.tried.complete_in(&mut transaction, &fence, &sealed("reply")).await.unwrap();
        let done = polled(times, bench.tried.commit(transaction)).await;
        bench.serves(&key).await;
        let completed = matches!(bench.state(&fence).await, Some(State::Completed { .. }));
        assert_eq!(bench.rows().await - before, i64::from(completed), "rows and reply together");
        let done = done.map(|done| done.expect("the commit succeeds")).is_some();
        assert!(completed || !done);
        done
    });
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_dropped_inside_a_transaction_goes_with_it() {
    let bench = Bench::new().await;
    let (reply, first) = (sealed("reply"), point(1));
    let message = OutboxMessage::new("topic", "payload").unwrap();
    let tried = &bench.tried;
    let mut dropped = 0;
    dropped += inside_at_each_poll!(bench, |tx, _r, fence| tried.hold_in(tx, &fence));
    dropped += inside_at_each_poll!(bench, |tx, _r, fence| tried.complete_in(tx, &fence, &reply));
    dropped += inside_at_each_poll!(bench, |tx, _r, fence| {
        tried.checkpoint_in(tx, &fence, &first, LEASE)
    });
    dropped += inside_at_each_poll!(bench, |tx, _r, _f| tried.push_in(tx, &message));
    dropped += inside_at_each_poll!(bench, |tx, _r, _f| tried.savepoint_in(tx));
    dropped += inside_at_each_poll!(bench, |tx, request, _f| async {
        tried.claim_in(tx, &request.claim()).await
    });
    assert_eq!(bench.other.stats().await.unwrap().outbox_pending, Some(0));
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_begin_or_rollback_leaves_nothing_open() {
    let bench = Bench::new().await;
    async fn held(bench: &Bench, fence: &Fence, _done: bool) {
        assert!(matches!(bench.state(fence).await, Some(State::InProgress { .. })));
        assert_eq!(bench.rows().await, 0);
    }
    // What was begun is dropped at once.
    let begin = at_each_poll!(bench, |_r, _f| async { bench.tried.begin().await.map(drop) }, held);
    let rollback = until_done!(|key, times| {
        let transaction = bench.transaction().await;
        let done = polled(times, bench.tried.rollback(transaction)).await;
        bench.serves(&key).await;
        assert_eq!(bench.rows().await, 0);
        done.is_some()
    });
    assert!(begin + rollback > 0);
}

/// A claim that waits for the file's lock is dropped; its BEGIN still runs when the lock is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_dropped_while_it_waits_for_the_lock_takes_nothing() {
    let bench = Bench::new().await;
    for round in 1..=5 {
        let request = Request::new(&format!("k{round}"));
        let claim = request.claim();
        let lock = bench.other.begin().await.unwrap();
        // With the lock held elsewhere the claim cannot get further than to its BEGIN.
        for _ in 0..round {
            let waits = Duration::from_millis(20);
            let seen = tokio::time::timeout(waits, bench.tried.claim(&claim)).await;
            assert!(seen.is_err(), "the lock is held, seen {seen:?}");
        }
        drop(lock);
        bench.serves(&format!("round {round}")).await;
        assert_eq!(bench.other.get(&request.scope, &request.key).await.unwrap(), None);
    }
}
