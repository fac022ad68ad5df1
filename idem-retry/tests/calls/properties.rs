//! What holds whatever a destination does.

use std::time::Duration;

use idem_retry::classify::Fault;
use idem_retry::random::Pinned;
use idem_retry::{AttemptTimeout, Budget, Load, Outcome, Policy};
use proptest::prelude::*;

use crate::support::{Bench, Step, status, with};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Hang),
        Just(Step::Fault(Fault::Lost)),
        Just(Step::Fault(Fault::NotSent)),
        Just(Step::Fault(Fault::AnswerCut)),
        prop::sample::select(&[200_u16, 201, 401, 422, 425, 429, 500, 502, 503][..])
            .prop_map(status),
        Just(with(503, &[("retry-after", "2")])),
        Just(with(201, &[("idempotent-replayed", "true")])),
    ];
    // The last one answers for all the attempts that may follow.
    prop::collection::vec(step, 12).prop_map(|mut steps| {
        steps.push(status(200));
        steps
    })
}

proptest! {
    #[test]
    fn a_call_keeps_its_promises(
        steps in steps(),
        attempts in 1_u32..=12,
        deadline_ms in 1_u64..20_000,
        jitter: u64,
        is_keyed: bool,
    ) {
        let deadline = Duration::from_millis(deadline_ms);
        let policy = Policy::builder()
            .attempts(attempts)
            .deadline(deadline)
            .attempt_timeout(AttemptTimeout::Fixed(Duration::from_secs(3)))
            .build()
            .unwrap();
        let budget = Budget::builder().initial(60).floor(0, Duration::ZERO).build().unwrap();
        let mut bench = Bench::new(policy, budget, Pinned(jitter));
        if !is_keyed {
            bench.traits = Bench::unkeyed().traits;
        }
        let outcome = bench.call(&steps);
        let made = outcome.attempts() as usize;
        prop_assert!(made >= 1 && made <= attempts as usize && made <= 1 + 6);
        prop_assert_eq!(made, bench.sent.len());
        let may_be = |step: &Step| {
            matches!(step, Step::Hang | Step::Fault(Fault::Lost | Fault::AnswerCut)
                | Step::Status(500 | 502, _)) || matches!(step, Step::Status(503, headers) if headers.is_empty())
        };
        let uncertain = steps[..made].iter().filter(|step| may_be(step)).count();
        match outcome {
            // Never a failure where it may have been applied; never unknown where it cannot.
            Outcome::GaveUp(unfinished) => {
                prop_assert_eq!(uncertain, 0);
                prop_assert!(unfinished.elapsed <= deadline);
            }
            Outcome::Unknown(unfinished) => {
                prop_assert!(uncertain > 0);
                prop_assert!(unfinished.elapsed <= deadline);
            }
            Outcome::Answered(answered) => prop_assert!(answered.elapsed <= deadline),
            Outcome::Replayed(_) => {}
            other => prop_assert!(false, "{:?}", other),
        }
        // Without a key nothing follows an attempt that may have left.
        if !is_keyed {
            prop_assert_eq!(steps[..made - 1].iter().filter(|step| may_be(step)).count(), 0);
        }
    }

    #[test]
    fn a_sleep_is_never_earlier_than_told_nor_longer_than_it_may_be(
        retry: u32,
        base: u32,
        cap: u32,
        hint in prop::option::of(0_u64..u64::MAX / 2),
        random: u64,
    ) {
        let policy = Policy::builder()
            .base(Duration::from_micros(base.into()))
            .cap(Duration::from_micros(cap.into()))
            .build()
            .unwrap();
        let hint = hint.map(Duration::from_secs);
        let sleep = policy.sleep(retry, Load::Normal, hint, &Pinned(random));
        let least = hint.unwrap_or_default();
        prop_assert!(sleep >= least && sleep <= least + Duration::from_micros(cap.into()));
        let doubled = u128::from(base) << retry.min(64);
        prop_assert_eq!(
            policy.ceiling(retry, Load::Normal).as_micros(),
            doubled.min(cap.into())
        );
    }
}
