//! Which updates are HOT: heartbeats, recovery points and takeovers are, completions are not.
//! docs/postgres-plans.md argues why.

mod support;

use idem_core::claim::Takeover;
use idem_core::store::Store;
use idem_postgres::sqlx::{self, PgConnection};
use std::time::Duration;
use support::{LEASE, Place, Request, Server, number, point, sealed};

const KEYS: i64 = 400;

/// All updates of the table, and those that were HOT.
async fn updates(plain: &mut PgConnection) -> (i64, i64) {
    let count = |column: &str| {
        format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 'idem_records'")
    };
    (number(plain, &count("n_tup_upd")).await, number(plain, &count("n_tup_hot_upd")).await)
}

/// Waits until the server has counted `expected` updates: its sessions report them when they are
/// idle.
async fn counted(place: &Place, expected: i64) -> i64 {
    let mut plain = place.plain().await;
    for _ in 0..300 {
        let (all, hot) = updates(&mut plain).await;
        if all >= expected {
            assert_eq!(all, expected);
            return hot;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server never counted {expected} updates");
}

/// Leaves room in each page for every version that the test writes. Otherwise an update is HOT only
/// where earlier versions were pruned in time, and a checkpoint or an ANALYZE that the server starts
/// by itself keeps them from that now and then. Which updates touch an index does not depend on it.
async fn make_room(place: &Place) {
    place.open().await.close().await;
    let room = "ALTER TABLE idem_records SET (fillfactor = 10, autovacuum_enabled = off)";
    sqlx::query(room).execute(&mut place.plain().await).await.unwrap();
}

#[tokio::test]
async fn only_completion_touches_an_index() {
    for server in [Server::Postgres, Server::Postgres18] {
        let place = Place::stepped(server).await;
        make_room(&place).await;
        let store = place.open().await;
        let mut fences = Vec::new();
        for key in 0..KEYS {
            fences.push(Request::new(format!("key-{key}")).acquire(&store).await.fence);
        }
        for fence in &fences {
            store.renew(fence, LEASE * 2).await.unwrap();
            store.checkpoint(fence, &point(1), LEASE * 2).await.unwrap();
        }
        store.close().await;
        let hot = counted(&place, KEYS * 2).await;
        let share = hot * 100 / (KEYS * 2);
        println!("{server:?}: {share} % of heartbeats and recovery points are HOT");
        assert_eq!(share, 100);

        place.advance(LEASE * 3).await;
        let store = place.open().await;
        let mut taken = Vec::new();
        for fence in &fences {
            let mut request = Request::new(fence.key.as_bytes());
            request.takeover = Takeover::Below { attempts: 9, younger_than: Duration::MAX };
            taken.push(request.acquire(&store).await.fence);
        }
        store.close().await;
        let share = (counted(&place, KEYS * 3).await - hot) * 100 / KEYS;
        println!("{server:?}: {share} % of takeovers are HOT");
        assert_eq!(share, 100);

        let hot = counted(&place, KEYS * 3).await;
        let store = place.open().await;
        for fence in &taken {
            store.complete(fence, &sealed("reply")).await.unwrap();
        }
        store.close().await;
        let share = (counted(&place, KEYS * 4).await - hot) * 100 / KEYS;
        println!("{server:?}: {share} % of completions are HOT");
        assert_eq!(share, 0);
    }
}
