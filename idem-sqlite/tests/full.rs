//! A database with no room left: typed errors, nothing lost, and it works again afterwards.

mod support;

use std::sync::Arc;

use idem_core::claim::Claimed;
use idem_core::error::ErrorKind;
use idem_core::outbox::OutboxMessage;
use idem_core::record::{Fence, Retention};
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_core::transactional::TransactionalStore;
use idem_sqlite::SqliteStore;

use crate::support::{LEASE, Place, RETENTION, Request, kind_of, point, sealed};

async fn small(place: &Place, clock: &Arc<ManualClock>) -> SqliteStore {
    place.open_with(SqliteStore::builder().clock(Arc::clone(clock)).max_pages(40)).await
}

/// Fills the database with replies until there is room for none; gives one that is held, and the
/// error that said so.
async fn fill(store: &SqliteStore) -> (Request, Fence, ErrorKind) {
    let held = Request::new("held").with(|it| {
        it.input = Some(sealed([1; 2_000]));
        it.retention = Retention::of(RETENTION * 2);
    });
    let fence = held.acquire(store).await.fence;
    let reply = sealed([7; 4_000]);
    for number in 0..1_000 {
        let request = Request::new(&format!("filler {number}"));
        let filler = match store.claim(&request.claim()).await {
            Ok(Claimed::Acquired(won)) => won.fence,
            Ok(other) => panic!("expected to acquire, seen {other:?}"),
            Err(error) => return (held, fence, error.kind()),
        };
        if let Err(error) = store.complete(&filler, &reply).await {
            let stands = store.get(&filler.scope, &filler.key).await.unwrap().unwrap();
            assert_eq!(stands.record.fence(), filler, "the claim stands");
            return (held, fence, error.kind());
        }
    }
    panic!("the quota was never met");
}

#[tokio::test]
async fn a_full_store_says_so_and_keeps_what_it_had() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let store = small(&place, &clock).await;
    let (held, fence, kind) = fill(&store).await;
    assert_eq!(kind, ErrorKind::StoreFull);

    let large = sealed(vec![9; 20_000]);
    let before = store.get(&fence.scope, &fence.key).await.unwrap();
    assert_eq!(kind_of(store.complete(&fence, &large).await), ErrorKind::StoreFull);
    let mut recovery = point(1);
    recovery.payload = large.clone();
    let checkpoint = store.checkpoint(&fence, &recovery, LEASE).await;
    assert_eq!(kind_of(checkpoint), ErrorKind::StoreFull);
    assert_eq!(store.get(&fence.scope, &fence.key).await.unwrap(), before, "nothing was written");
    let seen = held.again().send(&store).await;
    assert!(matches!(seen, Claimed::InProgress { .. }), "it is still held: {seen:?}");

    // Room is made by sweeping, which needs none.
    clock.advance(RETENTION);
    assert!(store.sweep(1_000).await.unwrap().deleted > 0);
    store.complete(&fence, &large).await.expect("there is room again");
    let Claimed::Completed(replay) = held.again().send(&store).await else {
        panic!("expected the reply");
    };
    assert_eq!(replay.reply, large);
}

#[tokio::test]
async fn a_full_store_breaks_no_connection() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let store = small(&place, &clock).await;
    let (_, fence, _) = fill(&store).await;
    let large = sealed(vec![9; 20_000]);
    for _ in 0..20 {
        assert_eq!(kind_of(store.complete(&fence, &large).await), ErrorKind::StoreFull);
        let mut transaction = store.begin().await.expect("a transaction can begin");
        store.hold_in(&mut transaction, &fence).await.unwrap();
        let complete = store.complete_in(&mut transaction, &fence, &large).await;
        assert_eq!(kind_of(complete), ErrorKind::StoreFull);
        drop(transaction);
        let mut transaction = store.begin().await.expect("a transaction can begin");
        let message = OutboxMessage::new("topic", vec![9; 20_000]).unwrap();
        let push = store.push_in(&mut transaction, &message).await;
        assert_eq!(kind_of(push), ErrorKind::StoreFull);
        assert_eq!(kind_of(store.commit(transaction).await), ErrorKind::NotApplied);
        store.renew(&fence, LEASE).await.expect("a small write still fits");
    }
    let large_input = Request::new("new").with(|it| it.input = Some(large.clone()));
    assert_eq!(kind_of(store.claim(&large_input.claim()).await), ErrorKind::StoreFull);
    assert_eq!(store.get(&large_input.scope, &large_input.key).await.unwrap(), None);
}
