//! Histories of real stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idem_core::claim::Claimed;
use idem_core::key::Scope;
use idem_core::store::Store;
use idem_testkit::broken::double_acquirer;
use idem_testkit::conformance::Conformance;
use idem_testkit::history::{Answer, Hunt};
use idem_testkit::memory::MemoryFixture;

use crate::counted::Counted;

async fn connections(suite: &Conformance) -> Vec<Arc<dyn Store>> {
    let fixture = suite.fixture().await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(fixture.connect().await.unwrap().verbs());
    }
    connections
}

fn seed() -> u64 {
    let seed = std::env::var("IDEM_TESTKIT_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) << 20 ^ now.as_secs()
    });
    println!("IDEM_TESTKIT_SEED={seed}");
    seed
}

/// One claim in so many is wrong.
const ONE_IN: u64 = 10_000;

/// After so many claims it has been met, however the clients are scheduled: nearly always the
/// first one is, and an unknown call may now and then explain one away.
const SOON_ENOUGH: u64 = 5 * ONE_IN;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_double_acquire_once_in_10_000_claims_is_found() {
    let claims: Arc<AtomicU64> = Arc::default();
    let counted = connections(&double_acquirer(ONE_IN)).await.into_iter().map(|store| {
        let claims = claims.clone();
        Arc::new(Counted { store, claims }) as Arc<dyn Store>
    });
    let counted: Vec<Arc<dyn Store>> = counted.collect();
    let started = Instant::now();
    // The operations bound the hunt, not the time: four in ten of them are claims.
    let hunt = Hunt::new(Scope::new("hunt").unwrap(), seed())
        .budget(Duration::from_secs(600))
        .most_operations(usize::try_from(2 * SOON_ENOUGH).unwrap());
    let violation = hunt.run(&counted).await.expect_err("it double-acquires");
    let claims = claims.load(Ordering::Relaxed);
    println!("found after {claims} claims and {:?}: {violation}", started.elapsed());
    assert!((ONE_IN..=SOON_ENOUGH).contains(&claims), "found after {claims} claims");
    let acquired = violation.window().iter().any(|operation| {
        matches!(operation.answer, Answer::Claimed(Claimed::Acquired(_)) | Answer::Unknown)
    });
    assert!(acquired, "an acquisition too many is in the window");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_store_s_histories_are_explained() {
    let connections = connections(&MemoryFixture::conformance()).await;
    let hunt = Hunt::new(Scope::new("hunt").unwrap(), seed()).budget(Duration::from_secs(3));
    let checked = hunt.run(&connections).await.unwrap_or_else(|violation| panic!("{violation}"));
    println!("{checked:?}");
    assert!(checked.operations > 1_000, "{checked:?}");
    assert_eq!(checked.undecided, 0);
}
