//! Budgets: a share of the calls, and a floor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_retry::budget::Deposits;
use idem_retry::{AlreadyNamed, Budget, BudgetError, Destination, Load, Policy};

use crate::support::{Bench, NONE, ms, status};

/// A tenth of the calls, and no floor.
fn tenth() -> Budget {
    Budget::builder().floor(0, Duration::ZERO).build().unwrap()
}

#[test]
fn when_all_calls_fail_retries_are_a_tenth_of_them() {
    let policy = Policy::builder().attempts(3).build().unwrap();
    let mut bench = Bench::new(policy, tenth(), NONE);
    let mut attempts = 0;
    for _ in 0..1_000 {
        attempts += bench.call(&[status(503), status(503), status(503)]).attempts();
    }
    assert_eq!(attempts, 1_100);
    let stats = bench.destination.stats();
    assert_eq!((stats.calls, stats.retries), (1_000, 100));
}

#[test]
fn a_call_deposits_once_whatever_its_attempts() {
    let budget = Budget::builder().floor(10, ms(1_000)).initial(1_000).build().unwrap();
    let mut bench = Bench::new(Policy::default(), budget, NONE);
    let _ = bench.call(&[status(503), status(503), status(200)]);
    // It was full, so the deposit was lost; two retries took 20, and success puts nothing in.
    assert_eq!(bench.balance(), 980);
    let _ = bench.call(&[status(200)]);
    assert_eq!(bench.balance(), 981);
}

#[test]
fn few_failures_are_all_retried() {
    let mut bench = Bench::new(Policy::default(), Budget::default(), NONE);
    for _ in 0..1_000 {
        let _ = bench.call(&[status(503), status(200)]);
        for _ in 0..19 {
            let _ = bench.call(&[status(200)]);
        }
    }
    assert_eq!(bench.destination.stats().refused_by_budget, 0);
}

#[test]
fn the_floor_comes_with_time_evenly_and_ends_at_its_reserve() {
    let budget = Budget::builder().floor(2, ms(10_000)).initial(0).build().unwrap();
    let withdraw = |at: u64| budget.withdraw(Load::Normal, ms(at)).is_some();
    // 20 tokens in 10 s from the first look on; a retry costs 10.
    assert!(!withdraw(0));
    assert!(!withdraw(4_999));
    assert_eq!(budget.balance(ms(4_999)), 9);
    assert!(withdraw(5_000));
    assert!(!withdraw(9_999));
    assert!(withdraw(10_000));
    // A long quiet time saves up two retries, not more.
    assert_eq!(budget.balance(ms(1_000_000)), 20);
    // Looking often loses nothing of a token.
    assert!(withdraw(1_000_000) && withdraw(1_000_000));
    for at in 1_000_000..1_005_000 {
        assert!(budget.balance(ms(at)) < 10, "{at}");
    }
    assert!(withdraw(1_005_000));
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    let budget = Budget::builder().floor(1, ms(1_000)).initial(0).build().unwrap();
    // It begins at the first look, not at the clock's origin.
    assert_eq!(budget.balance(ms(10_000)), 0);
    assert_eq!(budget.balance(ms(10_500)), 5);
    assert_eq!(budget.balance(ms(0)), 5);
    assert_eq!(budget.balance(ms(10_999)), 9);
}

#[test]
fn deposits_end_at_the_capacity() {
    let budget = Budget::builder().capacity(30).floor(0, Duration::ZERO).build().unwrap();
    (0..1_000).for_each(|_| budget.begin(Duration::ZERO));
    assert_eq!(budget.balance(Duration::ZERO), 30);
}

#[test]
fn threads_never_take_more_than_there_is() {
    let budget = tenth();
    let (taken, threads) = (AtomicU64::new(0), 8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    budget.begin(Duration::ZERO);
                    let withdrawn = budget.withdraw(Load::Normal, Duration::ZERO);
                    taken.fetch_add(u64::from(withdrawn.is_some()), Ordering::Relaxed);
                }
            });
        }
    });
    let deposited = threads * 5_000;
    assert_eq!(taken.into_inner() * 10 + budget.balance(Duration::ZERO), deposited);
}

#[test]
fn everyone_in_the_process_shares_the_budget_of_a_name() {
    let budget = Budget::builder().floor(1, ms(60_000)).build().unwrap();
    let configured = Destination::configure("shared.example", budget).unwrap();
    let found = std::thread::spawn(|| Destination::named("shared.example")).join().unwrap();
    assert!(found.budget().withdraw(Load::Normal, Duration::ZERO).is_some());
    assert!(configured.budget().withdraw(Load::Normal, Duration::ZERO).is_none());
    let again = Destination::configure("shared.example", Budget::unlimited());
    assert_eq!(again.unwrap_err(), AlreadyNamed);
    let other = Destination::named("other.example");
    assert!(other.budget().withdraw(Load::Normal, Duration::ZERO).is_some());
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let refused = |builder: idem_retry::budget::BudgetBuilder| builder.build().unwrap_err();
    assert_eq!(refused(Budget::builder().retry_cost(0)), BudgetError::FreeRetries);
    assert_eq!(refused(Budget::builder().throttled_cost(0)), BudgetError::FreeRetries);
    let floor = Budget::builder().floor(1, Duration::ZERO);
    assert_eq!(refused(floor), BudgetError::FloorWithoutTime);
    assert_eq!(refused(Budget::builder().capacity(99)), BudgetError::FloorAboveCapacity);
    let huge = Budget::builder().floor(u32::MAX, ms(1)).retry_cost(u32::MAX);
    assert_eq!(refused(huge), BudgetError::FloorAboveCapacity);
    assert_eq!(refused(Budget::builder().initial(1_001)), BudgetError::InitialAboveCapacity);
    let largest = Budget::builder()
        .capacity(u32::MAX)
        .initial(u32::MAX)
        .deposits(Deposits::EachCall(u32::MAX))
        .build()
        .unwrap();
    largest.begin(Duration::MAX);
    assert_eq!(largest.balance(Duration::MAX), u64::from(u32::MAX));
}
