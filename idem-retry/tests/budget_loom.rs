//! The bucket under every interleaving of a few threads, with loom's primitives in the place of
//! the standard library's.

use std::time::Duration;

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../src/budget/bucket.rs"]
mod bucket;

use bucket::{Bucket, Limits};
use loom::sync::Arc;
use loom::thread;

const NOW: Duration = Duration::ZERO;

fn bucket(tokens: u64) -> Arc<Bucket> {
    let limits = Limits { capacity: 100, reserve: 0, refill: Duration::ZERO };
    Arc::new(Bucket::new(limits, tokens))
}

#[test]
fn the_last_token_is_taken_once() {
    loom::model(|| {
        let bucket = bucket(10);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let bucket = bucket.clone();
                thread::spawn(move || bucket.withdraw(10, NOW))
            })
            .collect();
        let here = bucket.withdraw(10, NOW);
        let taken = threads.into_iter().map(|thread| thread.join().unwrap());
        assert_eq!(taken.chain([here]).filter(|taken| *taken).count(), 1);
        assert_eq!(bucket.balance(NOW), 0);
    });
}

#[test]
fn no_deposit_is_lost_and_none_is_spent_twice() {
    loom::model(|| {
        let bucket = bucket(5);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let bucket = bucket.clone();
                thread::spawn(move || {
                    bucket.deposit(3, NOW);
                    u64::from(bucket.withdraw(7, NOW))
                })
            })
            .collect();
        let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(taken >= 1);
        assert_eq!(bucket.balance(NOW), 11 - 7 * taken);
    });
}

#[test]
fn time_is_counted_once() {
    loom::model(|| {
        let limits = Limits { capacity: 20, reserve: 20, refill: Duration::from_secs(20) };
        let bucket = Arc::new(Bucket::new(limits, 0));
        let ten = Duration::from_secs(10);
        assert_eq!(bucket.balance(NOW), 0);
        let thread = {
            let bucket = bucket.clone();
            thread::spawn(move || bucket.withdraw(10, ten))
        };
        let here = bucket.withdraw(10, ten);
        let there = thread.join().unwrap();
        assert!(here ^ there);
        assert_eq!(bucket.balance(ten), 0);
    });
}
