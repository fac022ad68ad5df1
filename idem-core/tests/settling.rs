//! A person settles or frees what nothing resumes.

use std::sync::Arc;
use std::time::Duration;

use idem_core::claim::{Claim, Claimed, Takeover};
use idem_core::codec::Codec;
use idem_core::engine::{Call, Engine, Failure, RunError};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::Fingerprint;
use idem_core::housekeeping::{self, MayRepeat, SettleError};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::operation::{OnUnknown, Operation};
use idem_core::record::{Fence, Observed, Owner, Retention};
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::time::ManualClock;

const LEASE: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

struct World {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    engine: Engine,
    operation: Operation,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock));
        let operation = Operation::builder("charge")
            .lease(LEASE)
            .retention(Retention::of(HOUR))
            .resumable()
            .on_unknown(OnUnknown::Hold)
            .build()
            .unwrap();
        let engine = Engine::builder(store.clone()).namespace("test").unwrap().build().unwrap();
        Self { clock, store, engine, operation }
    }

    /// A record that began, took its first step, and is held.
    async fn held() -> (Self, Observed) {
        let world = Self::new();
        let error = world.run(Err("the connection broke")).await.unwrap_err();
        assert!(matches!(error, RunError::Unknown), "{error}");
        world.clock.advance(LEASE);
        let error = world.run(Ok("again")).await.unwrap_err();
        assert!(matches!(error, RunError::Held { attempt: 1 }), "{error}");
        let seen = world.seen().await;
        (world, seen)
    }

    async fn run(&self, end: Result<&'static str, &'static str>) -> Result<Reply, RunError> {
        let call = Call::new(scope(), key(), Fingerprint::of_bytes("k"))
            .with_input(Input::new("7 apples"));
        let outcome = self.engine.run(&self.operation, call, move |execution| async move {
            execution
                .step("charge", |_| async { Ok::<_, std::io::Error>("ch_1".to_owned()) })
                .await?;
            end.map(str::to_owned).map_err(Failure::unknown)
        });
        outcome.await.map(|outcome| outcome.reply)
    }

    async fn seen(&self) -> Observed {
        self.store.get(&scope(), &key()).await.unwrap().unwrap()
    }

    async fn settle(&self, seen: &Observed, reply: &Reply) -> Result<u32, SettleError> {
        let settled = housekeeping::settle(&self.store, &Codec::new(), seen, reply).await?;
        Ok(settled.attempt)
    }
}

fn scope() -> Scope {
    Scope::new("a").unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn reply() -> Reply {
    Reply::new(201).unwrap().with_header("location", "/v1/charges/ch_1").with_body("ch_1")
}

/// What the holder knows that was paused before it was settled.
fn holders(seen: &Observed) -> Fence {
    seen.record.fence()
}

#[tokio::test(start_paused = true)]
async fn a_settled_record_answers_retries_and_fences_out_a_paused_holder() {
    let (world, seen) = World::held().await;
    assert_eq!(world.settle(&seen, &reply()).await.unwrap(), 2);
    assert_eq!(world.run(Ok("again")).await.unwrap(), reply());

    let late = Codec::new().encode_reply(&Reply::from("late").into(), &scope(), &key()).unwrap();
    let error = world.store.complete(&holders(&seen), &late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FenceLost);
    let error = world.store.renew(&holders(&seen), LEASE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FenceLost);
    assert_eq!(world.run(Ok("again")).await.unwrap(), reply());
}

#[tokio::test(start_paused = true)]
async fn settling_twice_is_harmless_and_another_reply_is_refused() {
    let (world, seen) = World::held().await;
    world.settle(&seen, &reply()).await.unwrap();
    let now = world.seen().await;
    for seen in [&seen, &now] {
        let codec = Codec::new();
        let again = housekeeping::settle(&world.store, &codec, seen, &reply()).await.unwrap();
        assert!(again.already);
        let error = world.settle(seen, &Reply::from("other")).await.unwrap_err();
        assert!(matches!(error, SettleError::Completed), "{error}");
    }
    assert_eq!(world.run(Ok("again")).await.unwrap(), reply());
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_left_alone() {
    let (world, seen) = World::held().await;
    // A retry of another release, which does not hold, has taken over.
    let prints = Fingerprint::of_bytes("k").into();
    let policy = Takeover::Below { attempts: 5, younger_than: HOUR };
    let (scope, key) = (scope(), key());
    let claim = Claim::new(
        &scope,
        &key,
        Owner::random(),
        world.operation.name(),
        &prints,
        LEASE,
        world.operation.retention(),
        policy,
    );
    let Claimed::Acquired(acquired) = world.store.claim(&claim).await.unwrap() else { panic!() };
    for seen in [seen, world.seen().await] {
        let error = world.settle(&seen, &reply()).await.unwrap_err();
        assert!(matches!(error, SettleError::Running { .. }), "{error}");
        let error = housekeeping::release(&world.store, &seen).await.unwrap_err();
        assert!(matches!(error, SettleError::Running { .. }), "{error}");
    }
    world.store.renew(&acquired.fence, LEASE).await.expect("it still holds the record");
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_it_was_seen_is_left_alone() {
    let (world, seen) = World::held().await;
    let mut other_attempt = seen.clone();
    other_attempt.record.attempt += 1;
    let mut other_life = seen.clone();
    other_life.record.incarnation = idem_core::record::Incarnation::random();
    for stale in [other_attempt, other_life] {
        let error = world.settle(&stale, &reply()).await.unwrap_err();
        assert!(matches!(error, SettleError::Changed), "{error}");
        let error = housekeeping::release(&world.store, &stale).await.unwrap_err();
        assert!(matches!(error, SettleError::Changed), "{error}");
    }
    assert_eq!(world.seen().await.record, seen.record);
}

#[tokio::test(start_paused = true)]
async fn a_freed_key_runs_again_and_the_paused_holder_is_fenced() {
    let (world, seen) = World::held().await;
    housekeeping::release(&world.store, &seen).await.unwrap();
    assert!(world.store.get(&scope(), &key()).await.unwrap().is_none());
    let late = Codec::new().encode_reply(&Reply::from("late").into(), &scope(), &key()).unwrap();
    assert!(world.store.complete(&holders(&seen), &late).await.is_err());
    assert_eq!(world.run(Ok("again")).await.unwrap().body().unwrap(), "again");
    assert_eq!(world.seen().await.record.attempt, 1);

    let error = housekeeping::release(&world.store, &world.seen().await).await.unwrap_err();
    assert!(matches!(error, SettleError::Completed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_would_be_gone_at_once_is_refused_before_anything_is_written() {
    let (world, _) = World::held().await;
    world.clock.advance(HOUR);
    let seen = world.seen().await;
    let error = world.settle(&seen, &reply()).await.unwrap_err();
    assert!(matches!(error, SettleError::RetentionOver), "{error}");
    assert_eq!(world.seen().await.record, seen.record);
    housekeeping::release(&world.store, &seen).await.unwrap();
}

#[cfg(feature = "aes-gcm")]
#[tokio::test(start_paused = true)]
async fn a_sealed_record_is_not_settled_with_an_unsealed_reply() {
    use idem_core::input::StoredInput;
    use idem_core::seal::{AesGcmSealer, SecretId};

    let (world, mut seen) = World::held().await;
    let sealer = AesGcmSealer::new(SecretId::new("1").unwrap(), &[7; 32]);
    let derivation = world.engine.downstream_keys().derivation();
    let input = StoredInput { derivation, input: None };
    let sealed = Codec::sealed_by(Arc::new(sealer)).encode_input(&input, &scope(), &key());
    seen.record.input = Some(sealed.unwrap());
    let error = world.settle(&seen, &reply()).await.unwrap_err();
    assert!(matches!(error, SettleError::OtherSettings(_)), "{error}");
    assert_eq!(world.seen().await.record.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_rerun_may_repeat_is_told() {
    let (world, seen) = World::held().await;
    let codec = Codec::new();
    let MayRepeat::Steps(steps) = housekeeping::may_repeat(&codec, &seen) else { panic!() };
    assert_eq!((steps.len(), steps[0].name.as_str(), steps[0].done), (1, "charge", true));

    world.settle(&seen, &reply()).await.unwrap();
    let told = housekeeping::may_repeat(&codec, &world.seen().await);
    assert!(matches!(told, MayRepeat::Completed), "{told:?}");

    for (marks, expected) in [(true, "Nothing"), (false, "Anything")] {
        let (scope, key) = (scope(), Key::new(expected).unwrap());
        let prints = Fingerprint::of_bytes("k").into();
        let claim = Claim::new(
            &scope,
            &key,
            Owner::random(),
            world.operation.name(),
            &prints,
            LEASE,
            world.operation.retention(),
            Takeover::Never,
        );
        world.store.claim(&claim.marking_begun(marks)).await.unwrap();
        world.clock.advance(LEASE);
        let seen = world.store.get(&scope, &key).await.unwrap().unwrap();
        assert_eq!(format!("{:?}", housekeeping::may_repeat(&codec, &seen)), expected);
        housekeeping::release(&world.store, &seen).await.unwrap();
    }
}
