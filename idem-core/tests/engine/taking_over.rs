//! A takeover uses up an attempt, so nobody takes over what it cannot run: what it cannot read,
//! or what another request path would run.

use std::sync::Arc;

use idem_core::claim::Takeover;
use idem_core::engine::{Call, Engine, Execution, Failure, RunError};
use idem_core::error::{ErrorKind, Verb};
use idem_core::fingerprint::Fingerprints;
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::operation::{OnUnknown, Operation};
use idem_core::reply::Reply;
use idem_core::seal::{SealError, SealedBox, Sealer, SecretId};
use idem_core::store::Store;
use tokio::time::sleep;

use crate::faulty::Fault;
use crate::{LEASE, World, body};

/// Turns the bits round. What counts here is who has it.
struct Turned;

impl Sealer for Turned {
    fn seal(&self, _: &[u8], plain: &[u8]) -> Result<SealedBox, SealError> {
        let bytes = plain.iter().map(|byte| !byte).collect();
        Ok(SealedBox { key_id: SecretId::new("turned").unwrap(), bytes })
    }

    fn open(&self, _: &SecretId, _: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        Ok(sealed.iter().map(|byte| !byte).collect())
    }
}

async fn broken(_: Execution) -> Result<Reply, Failure> {
    Err(Failure::unknown("the connection broke"))
}

/// R9, R24: a process that lacks the key, and has it called for as often as a client likes, uses
/// up no attempt; nor does its reconciler. One that has the key goes on.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_here_is_left_to_those_who_can() {
    for held in [false, true] {
        let world = World::with(
            |builder| match held {
                // A held record that never began may be taken over as well.
                true => builder
                    .on_unknown(OnUnknown::Hold)
                    .begun(idem_core::operation::Begun::ByHandler),
                false => builder.resumable().attempts(2),
            },
            |builder, _| builder.sealed_by(Arc::new(Turned)),
        );
        assert!(world.run(broken).await.is_err());
        sleep(LEASE).await;
        let keyless = Engine::builder(world.store.clone()).namespace("test").unwrap();
        let keyless = keyless.register(&resumable(), broken).build().unwrap();
        for _ in 0..5 {
            let call = keyless.run(&world.operation, World::call(), async |_| Ok("never")).await;
            assert!(matches!(call, Err(RunError::Corrupt(_))), "{call:?}");
            let record = world.record().await.unwrap();
            assert_eq!(record.record.attempt, 1);
            if !held {
                let resumed = keyless.resume(&record).await;
                assert!(matches!(resumed, Err(RunError::Corrupt(_))), "{resumed:?}");
            }
        }
        let next = world.answer("read").await.unwrap();
        assert_eq!((body(&next), next.attempt, world.runs()), ("read", 2, 2));
    }
}

fn resumable() -> Operation {
    Operation::builder("op").resumable().build().unwrap()
}

/// R2: what lapsed is taken over by one of many that look at it at once.
#[tokio::test(start_paused = true)]
async fn many_that_look_at_once_take_over_once() {
    let world = World::new(|builder| builder);
    assert!(world.run(broken).await.is_err());
    sleep(LEASE).await;
    let calls = (0..20).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            let handler = async |_| {
                sleep(LEASE / 2).await;
                Ok("once".to_owned())
            };
            world.run(handler).await
        })
    });
    let mut answers = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(outcome) => answers += u32::from(outcome.is_executed()),
            Err(error) => assert!(matches!(error, RunError::InProgress { .. }), "{error}"),
        }
    }
    assert_eq!((answers, world.runs()), (1, 2));
    assert_eq!(world.record().await.unwrap().record.attempt, 2);
}

/// A store that cannot be read does not let anything run, nor use up an attempt.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_looked_at_is_not_taken_over() {
    let world = World::new(|builder| builder);
    assert!(world.run(broken).await.is_err());
    sleep(LEASE).await;
    world.store.fail(Verb::Get, [Fault::Request(ErrorKind::NotApplied)]);
    let error = world.answer("never").await.unwrap_err();
    assert_eq!(error.store_kind(), Some(ErrorKind::NotApplied));
    assert_eq!((world.record().await.unwrap().record.attempt, world.runs()), (1, 1));
    assert_eq!(world.answer("second").await.unwrap().attempt, 2);
}

/// A record that somebody else takes over, and leaves, between the look and the claim.
#[tokio::test(start_paused = true)]
async fn what_changes_hands_meanwhile_is_looked_at_again() {
    let world = World::new(|builder| builder);
    assert!(world.run(broken).await.is_err());
    sleep(LEASE).await;
    // The answer to the look comes late, and says what was.
    world.store.fail(Verb::Get, [Fault::Late(LEASE / 10)]);
    let slow = world.clone();
    let slow = tokio::spawn(async move { slow.answer("slow").await });
    sleep(LEASE / 20).await;
    let Some(seen) = world.record().await else { panic!("a record") };
    let (scope, key) = (seen.record.scope.clone(), seen.record.key.clone());
    let prints = Fingerprints::from(seen.record.fingerprint);
    let claim = idem_core::claim::Claim::new(
        &scope,
        &key,
        idem_core::record::Owner::random(),
        &seen.record.operation,
        &prints,
        LEASE / 100,
        seen.record.retention,
        Takeover::Below { attempts: 9, younger_than: LEASE * 9 },
    );
    world.store.inner().claim(&claim).await.unwrap();
    let outcome = slow.await.unwrap().unwrap();
    assert_eq!((body(&outcome), outcome.attempt), ("slow", 3));
}

/// Where requests are not compared a retry may go elsewhere. What it would run is not what the
/// first one asked for, so it does not take over; the same path with another query does, and its
/// handler sees the first one's.
#[tokio::test(start_paused = true)]
async fn a_retry_to_another_path_does_not_take_over() {
    let world = World::new(|builder| builder.without_comparison().resumable());
    let call = |method: &'static str, target: &'static str| {
        let (scope, key) = (Scope::new("a").unwrap(), Key::new("k").unwrap());
        let input = Input::new("input").with_method(method).with_target(target);
        Call::new(scope, key, Fingerprints::not_compared()).with_input(input)
    };
    let first = call("POST", "/orders/7?a=1");
    assert!(world.engine.run(&world.operation, first, broken).await.is_err());
    sleep(LEASE).await;
    for elsewhere in [call("POST", "/orders/8?a=1"), call("PUT", "/orders/7?a=1")] {
        let told = world.engine.run(&world.operation, elsewhere, broken).await;
        assert!(matches!(told, Err(RunError::Mismatch { completed: false })), "{told:?}");
        assert_eq!(world.record().await.unwrap().record.attempt, 1);
    }
    let again = call("POST", "/orders/7?a=2");
    let handler = async |execution: Execution| {
        let input = execution.input().unwrap();
        Ok::<_, Failure>(input.target().unwrap().clone())
    };
    let outcome = world.engine.run(&world.operation, again, handler).await.unwrap();
    assert_eq!((body(&outcome), outcome.attempt), ("/orders/7?a=1", 2));
}
