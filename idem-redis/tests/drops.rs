//! Calls whose futures are dropped at each of their polls (R25).

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use common::{SERVERS, acquire, claim, fresh, key, reply, variable};
use idem_core::claim::Claimed;
use idem_core::record::Owner;
use idem_core::store::{Renewed, Store};

const LEASE: Duration = Duration::from_secs(60);

/// Polls no more than `limit` times, each time when it is woken, and then drops it.
async fn poll_at_most<T>(limit: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = limit;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_disturbs_no_other_and_can_be_repeated() {
    for server in SERVERS {
        // One connection, which the dropped calls share with those that follow.
        let store = fresh().connections(1).connect(&variable(server)).await.unwrap();
        let mut finished = 0;
        for polls in 0..8 {
            for round in 0..5 {
                let key = key(format!("k{polls}.{round}"));
                let owner = Owner::random();
                let dropped = poll_at_most(polls, claim(&store, &key, owner, LEASE)).await;
                finished += usize::from(dropped.is_some());
                let claimed = claim(&store, &key, owner, LEASE).await.unwrap();
                let Claimed::Acquired(acquired) = claimed else {
                    panic!("{server}, {polls} polls: {claimed:?}");
                };
                assert_eq!(acquired.fence.attempt, 1, "{server}, {polls} polls");

                poll_at_most(polls, store.renew(&acquired.fence, LEASE * 2)).await;
                let told = reply(format!("reply {polls}.{round}"));
                poll_at_most(polls, store.complete(&acquired.fence, &told)).await;
                store.complete(&acquired.fence, &told).await.unwrap();
                let next = common::key(format!("next{polls}.{round}"));
                let other = acquire(&store, &next, LEASE).await;
                assert!(matches!(
                    store.renew(&other.fence, LEASE).await.unwrap(),
                    Renewed::Held(_)
                ));
                let again = claim(&store, &key, Owner::random(), LEASE).await.unwrap();
                assert!(matches!(again, Claimed::Completed(replay) if replay.reply == told));
            }
        }
        assert!(finished > 0, "{server}: no call ended by itself, so not every poll was met");
    }
}
