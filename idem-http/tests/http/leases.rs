//! Leases that lapse while a handler runs, and callers that wait.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use idem_http::handler::{Exec, Fault};

use crate::support::app::gated;
use crate::support::{Gate, LEASE, World, post, send};

#[tokio::test]
async fn lease_lost_while_running_is_answered_with_the_winners_reply() {
    let (world, gate) = (World::new(), Gate::new());
    let app = gated(world.layer(), &world.effects, &gate);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let spawn = || {
        let app = app.clone();
        tokio::spawn(async move { send(&app, request()).await })
    };
    let paused = spawn();
    gate.arrival().await;
    world.clock.advance(LEASE);
    let winner = spawn();
    gate.arrival().await;

    // The gate lets the one that came first go on first: it ends while the winner still runs.
    gate.let_one_pass();
    let paused = paused.await.unwrap();
    assert_eq!(paused.problem(), (409, "lease-lost".into()));
    assert_eq!(paused.retry_after(), Some(1));
    gate.let_one_pass();
    let winner = winner.await.unwrap();
    assert_eq!((winner.status.as_u16(), &winner.body[..]), (201, &b"2 100"[..]));

    let again = send(&app, request()).await;
    assert!(again.is_replay());
    assert_eq!(again.without_marks(), winner.without_marks());
}

#[tokio::test]
async fn the_loser_whose_winner_has_finished_gets_the_winners_reply() {
    let (world, gate) = (World::new(), Gate::new());
    let (effects, slow) = (world.effects.clone(), gate.clone());
    let handler = move |exec: Exec| async move {
        if exec.attempt() == 1 {
            slow.pass().await;
        }
        Ok::<_, Fault>(format!("run {} of attempt {}", effects.happen(), exec.attempt()))
    };
    let app = Router::new().route("/charges", on_post(handler).layer(world.layer()));
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let paused = tokio::spawn({
        let app = app.clone();
        async move { send(&app, request()).await }
    });
    gate.arrival().await;
    world.clock.advance(LEASE);
    let winner = send(&app, request()).await;
    assert_eq!(winner.body, "run 1 of attempt 2");
    gate.let_one_pass();
    let paused = paused.await.unwrap();
    assert!(paused.is_replay(), "its own result does not count");
    assert_eq!(paused.without_marks(), winner.without_marks());
}

#[tokio::test]
async fn a_duplicate_waits_where_the_operation_says_so() {
    let (world, gate) = (World::new(), Gate::new());
    let layer = world.layer_with(|operation| operation.wait(Duration::from_secs(30)));
    let app = gated(layer, &world.effects, &gate);
    let send_one = || {
        let app = app.clone();
        tokio::spawn(async move {
            send(&app, post("/charges", "k").body(Body::from("100")).unwrap()).await
        })
    };
    let first = send_one();
    gate.arrival().await;
    let others: Vec<_> = (0..10).map(|_| send_one()).collect();
    gate.let_one_pass();
    let first = first.await.unwrap();
    for other in others {
        let other = other.await.unwrap();
        assert!(other.is_replay());
        assert_eq!(other.without_marks(), first.without_marks());
    }
    assert_eq!(world.effects.count(), 1);
}

#[tokio::test]
async fn a_hundred_copies_at_once_run_once_and_each_ends_with_the_same_answer() {
    let (world, gate) = (World::new(), Gate::new());
    let app = gated(world.layer(), &world.effects, &gate);
    let request = || post("/charges", "k").body(Body::from("100")).unwrap();
    let copies: Vec<_> = (0..100)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { send(&app, request()).await })
        })
        .collect();
    gate.arrival().await;
    gate.let_one_pass();
    let (mut executed, mut replayed, mut refused) = (Vec::new(), Vec::new(), 0);
    for copy in copies {
        let answer = copy.await.unwrap();
        match answer.status.as_u16() {
            201 if answer.is_replay() => replayed.push(answer.without_marks()),
            201 => executed.push(answer.without_marks()),
            _ => {
                assert_eq!(answer.problem(), (409, "key-in-use".into()));
                refused += 1;
            }
        }
    }
    assert_eq!((executed.len(), world.effects.count()), (1, 1));
    assert_eq!(executed.len() + replayed.len() + refused, 100);
    replayed.push(send(&app, request()).await.without_marks());
    assert!(replayed.iter().all(|answer| *answer == executed[0]));
}

#[tokio::test]
async fn another_key_is_not_delayed_by_a_slow_one() {
    let (world, gate) = (World::new(), Gate::new());
    let app = gated(world.layer(), &world.effects, &gate);
    let send_one = |key: &'static str| {
        let app = app.clone();
        tokio::spawn(
            async move { send(&app, post("/charges", key).body(Body::empty()).unwrap()).await },
        )
    };
    let slow = send_one("slow");
    gate.arrival().await;
    let quick = send_one("quick");
    gate.arrival().await;
    // Both stand at the gate at once.
    gate.let_one_pass();
    gate.let_one_pass();
    assert_eq!(
        (slow.await.unwrap().status, quick.await.unwrap().status.as_u16()),
        (http::StatusCode::CREATED, 201)
    );
}
