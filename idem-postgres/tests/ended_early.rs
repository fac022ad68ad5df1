//! Transactions that are ended under the store where the number of the first one tells too little:
//! nothing was held in it, or another one took its place.

mod support;

use idem_core::admin::Admin;
use idem_core::error::ErrorKind;
use idem_core::outbox::OutboxMessage;
use idem_core::record::State;
use idem_core::store::Store;
use idem_core::transactional::TransactionalStore;
use support::{Place, Request, Server, kind_of, run, sealed};

const SERVERS: [Server; 3] = [Server::Postgres, Server::Postgres18, Server::PgBouncer];

/// Without a hold no number tells a commit of the handler's from a rollback, so nothing is written
/// after either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_ended_before_anything_was_held_is_not_told_as_committed() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open().await;
        let message = OutboxMessage::new("order.created", "tea").unwrap();
        for end in ["ROLLBACK", "COMMIT", "SELECT 1"] {
            let goes_on = end == "SELECT 1";
            let request = Request::new(end);
            let fence = request.acquire(&store).await.fence;
            for call in ["hold", "complete", "push", "commit"] {
                let mut tx = store.begin().await.unwrap();
                run(tx.connection(), "SELECT count(*) FROM idem_records").await;
                run(tx.connection(), end).await;
                let told = match call {
                    "hold" => store.hold_in(&mut tx, &fence).await,
                    "complete" => store.complete_in(&mut tx, &fence, &sealed("reply")).await,
                    "push" => store.push_in(&mut tx, &message).await,
                    _ => store.commit(tx).await,
                };
                match goes_on {
                    true => told.unwrap(),
                    false => assert_eq!(kind_of(told), ErrorKind::OutcomeUnknown, "{end} {call}"),
                }
            }
            let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
            assert!(matches!(stands.state, State::InProgress { .. }), "{server:?} {end}");
            assert_eq!(store.stats().await.unwrap().outbox_pending, Some(0), "{server:?} {end}");
        }
    }
}

/// The first one was committed, so its number says nothing of what came after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_in_another_transaction_that_is_rolled_back_is_not_told_as_committed() {
    for server in SERVERS {
        let place = Place::new(server).await;
        let store = place.open().await;
        for end in ["ROLLBACK", "COMMIT"] {
            let request = Request::new(end);
            let fence = request.acquire(&store).await.fence;
            let mut tx = store.begin().await.unwrap();
            store.hold_in(&mut tx, &fence).await.unwrap();
            run(tx.connection(), "COMMIT; BEGIN").await;
            store.complete_in(&mut tx, &fence, &sealed("reply")).await.unwrap();
            run(tx.connection(), end).await;
            let told = store.commit(tx).await;
            let stands = store.get(&request.scope, &request.key).await.unwrap().unwrap().record;
            let is_completed = matches!(stands.state, State::Completed { .. });
            match end {
                "COMMIT" => assert!(told.is_ok() && is_completed, "{server:?}: {told:?}"),
                _ => assert_eq!((kind_of(told), is_completed), (ErrorKind::OutcomeUnknown, false)),
            }
        }
    }
}
