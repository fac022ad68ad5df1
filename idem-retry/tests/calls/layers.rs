//! One layer of retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_retry::one_layer::{self, carried, under};
use idem_retry::{
    Announced, Applied, Attempted, Budget, Class, Destination, Outcome, Policy, Retry, Why,
};

use crate::support::{NONE, StepClock};

fn retry() -> Retry {
    Retry::new(Policy::default()).clock(StepClock::default()).random(NONE)
}

fn destination(name: &str) -> Destination {
    Destination::separate(name, Budget::default())
}

fn fails(_: Attempted<'_, (), ()>) -> Class {
    Class::transient(Applied::No)
}

async fn call_that_fails(retry: &Retry, to: &Destination, calls: &AtomicU64) -> Outcome<(), ()> {
    let op = |_| async {
        calls.fetch_add(1, Ordering::Relaxed);
        Err(())
    };
    retry.call(to, fails, op).await
}

#[tokio::test]
async fn three_layers_of_three_attempts_are_three_calls() {
    let (retry, calls) = (retry(), AtomicU64::new(0));
    let [outer, middle, inner] = ["outer", "middle", "inner"].map(destination);
    let outcome = retry
        .call(&outer, fails, |_| async {
            let _ = retry
                .call(&middle, fails, |_| async {
                    let inner = call_that_fails(&retry, &inner, &calls).await;
                    let why = inner.into_answer().unwrap_err().why;
                    assert_eq!(why, Why::Nested);
                    Err(())
                })
                .await;
            Err(())
        })
        .await;
    assert_eq!((outcome.attempts(), calls.into_inner()), (3, 3));
    let counted = [&outer, &middle, &inner].map(|to| (to.stats().calls, to.stats().nested));
    assert_eq!(counted, [(1, 0), (3, 3), (3, 3)]);
    // Only the one layer puts tokens in, and takes them out.
    let balances = [&outer, &middle, &inner].map(|to| to.budget().balance(Default::default()));
    assert_eq!(balances, [81, 100, 100]);
}

#[tokio::test]
async fn a_nested_call_announces_the_attempt_around_it() {
    let (retry, to) = (retry(), destination("one"));
    let seen = std::sync::Mutex::new(Vec::new());
    let outcome = retry
        .call(&to, fails, |_| async {
            retry
                .call(&to, fails, |attempt| {
                    seen.lock().unwrap().push((attempt.number(), attempt.announced()));
                    async { Err(()) }
                })
                .await
                .into_answer()
                .map_err(drop)
        })
        .await;
    assert_eq!(outcome.attempts(), 3);
    let expected = [1, 2, 3].map(|attempt| (1, Announced { attempt, max: 3 }));
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_call_that_is_not_retried_is_no_layer() {
    let once = Policy::builder().attempts(1).build().unwrap();
    let once = Retry::new(once).clock(StepClock::default()).random(NONE);
    let (retry, to, calls) = (retry(), destination("one"), AtomicU64::new(0));
    let _ = once
        .call(&to, fails, |_| async {
            let _ = call_that_fails(&retry, &to, &calls).await;
            Err(())
        })
        .await;
    assert_eq!(calls.into_inner(), 3);
}

#[tokio::test]
async fn calls_one_after_the_other_are_not_nested() {
    let (retry, to, calls) = (retry(), destination("one"), AtomicU64::new(0));
    for _ in 0..2 {
        let _ = call_that_fails(&retry, &to, &calls).await;
        assert_eq!(one_layer::current(), None);
    }
    assert_eq!((calls.into_inner(), to.stats().nested), (6, 0));
}

#[tokio::test]
async fn work_that_starts_before_its_future_is_polled_is_inside_too() {
    let (retry, to) = (retry(), destination("one"));
    let outcome: Outcome<_, ()> = retry
        .call(
            &to,
            |_| Class::answered(),
            |_| {
                let around = one_layer::current();
                async move { Ok(around) }
            },
        )
        .await;
    let around = outcome.into_answer().unwrap();
    assert_eq!(around, Some(Announced { attempt: 1, max: 3 }));
}

#[tokio::test]
async fn a_spawned_task_is_inside_when_it_is_carried() {
    // Real time: on a stepped clock a task that is waited for is at its timeout at once.
    let retry = Retry::new(Policy::default()).random(NONE);
    let (to, calls) = (destination("one"), Arc::new(AtomicU64::new(0)));
    for (is_carried, expected) in [(true, 3), (false, 9)] {
        calls.store(0, Ordering::Relaxed);
        let _ = retry
            .call(&to, fails, |_| async {
                let (retry, to, calls) = (retry.clone(), to.clone(), calls.clone());
                let work: one_layer::Work = Box::pin(async move {
                    let _ = call_that_fails(&retry, &to, &calls).await;
                });
                let work = if is_carried { carried(work) } else { work };
                tokio::spawn(work).await.unwrap();
                Err(())
            })
            .await;
        assert_eq!(calls.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn a_request_of_a_caller_that_retries_is_handled_inside_its_attempt() {
    let (retry, to) = (retry(), destination("one"));
    for (text, expected) in [(Some("2;max=3"), 1), (Some("1;max=1"), 3), (None, 3)] {
        let calls = AtomicU64::new(0);
        let headers =
            text.map(|text| (idem_retry::ATTEMPT_HEADER, http::HeaderValue::from_static(text)));
        let headers = headers.into_iter().collect();
        let _ = under(&headers, call_that_fails(&retry, &to, &calls)).await;
        assert_eq!(calls.into_inner(), expected, "{text:?}");
    }
}
