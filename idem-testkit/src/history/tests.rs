//! The search against one that tries every order.

use std::sync::Arc;
use std::time::Duration;

use idem_core::key::{Key, Scope};
use idem_core::memory::MemoryStore;
use idem_core::store::Store;

use super::Recorder;
use super::hunt::Client;
use super::operation::{Answer, Operation};
use super::search::{Explored, explore};
use super::spec::{State, apply};
use crate::random::Random;

/// Calls one after the other, each answered rightly, then spread in time so that they overlap:
/// they took effect in their order at 10 ms, 20 ms, and so on.
async fn overlapping(seed: u64, calls: usize) -> Vec<Operation> {
    let recorder = Recorder::new();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut client = Client {
        store: recorder.wrap(0, store),
        random: Random::from_seed(seed),
        scope: Scope::new("s").unwrap(),
        key: Key::new("k").unwrap(),
        fences: Arc::default(),
        owners: Vec::new(),
    };
    for _ in 0..calls {
        let _ = client.call().await;
    }
    let mut random = Random::from_seed(!seed);
    let mut operations = recorder.history().operations().to_vec();
    for (index, operation) in operations.iter_mut().enumerate() {
        let at = 100 + 10 * index;
        let ms = |time: usize| Duration::from_millis(time as u64);
        operation.invoked = ms(at - random.index(28));
        operation.returned = Some(ms(at + random.index(28)));
        if random.index(10) == 0 {
            (operation.answer, operation.returned) = (Answer::Unknown, None);
        }
    }
    operations
}

/// Gives two calls each other's answers, or one the answer of an earlier call.
fn corrupt(operations: &mut [Operation], random: &mut Random) {
    let (a, b) = (random.index(operations.len()), random.index(operations.len()));
    let answer = operations[a].answer.clone();
    operations[a].answer = operations[b].answer.clone();
    operations[b].answer = answer;
    for operation in operations {
        if operation.answer == Answer::Unknown {
            operation.returned = None;
        } else {
            operation.returned = operation.returned.or(Some(Duration::from_millis(900)));
        }
    }
}

/// Whether any order at all explains the rest of the calls.
fn brute_force(state: &State, left: &[&Operation]) -> bool {
    if left.iter().all(|operation| operation.is_unknown()) {
        return true;
    }
    left.iter().enumerate().any(|(index, operation)| {
        let rest: Vec<&Operation> =
            left.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, o)| *o).collect();
        let comes_first = rest
            .iter()
            .all(|other| other.returned.is_none_or(|returned| returned >= operation.invoked));
        comes_first && apply(state, operation, true).iter().any(|next| brute_force(next, &rest))
    })
}

#[tokio::test]
async fn the_search_agrees_with_one_that_tries_every_order() {
    let (mut explained, mut unexplained) = (0, 0);
    for seed in 0..2_000 {
        let mut operations = overlapping(seed, 6).await;
        let is_corrupt = seed % 2 == 1;
        if is_corrupt {
            corrupt(&mut operations, &mut Random::from_seed(seed));
        }
        operations.sort_by_key(|operation| operation.invoked);
        let of_key: Vec<&Operation> = operations
            .iter()
            .filter(|operation| {
                operation.call.identity().is_some() && !operation.is_without_effect()
            })
            .collect();
        let by_search = matches!(explore(&of_key, true), Explored::Explained);
        let by_force = brute_force(&State::default(), &of_key);
        assert_eq!(by_search, by_force, "seed {seed}: {operations:#?}");
        assert!(is_corrupt || by_search, "seed {seed} is right: {operations:#?}");
        if by_search { explained += 1 } else { unexplained += 1 }
    }
    assert!(explained >= 1_000 && unexplained >= 300, "{explained} and {unexplained}");
}
