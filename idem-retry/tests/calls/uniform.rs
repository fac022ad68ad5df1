//! A million sleeps are uniform from zero to the ceiling.

use std::time::Duration;

use idem_retry::random::{Random, SplitMix};
use idem_retry::{Load, Policy};

use crate::support::ms;

const SAMPLES: usize = 1_000_000;
const BINS: usize = 100;

/// Beyond these a uniform sample is found once in a thousand times: chi-squared with 99 degrees of
/// freedom, and the Kolmogorov-Smirnov distance times the root of the sample's size.
const CHI_SQUARED: f64 = 148.23;
const DISTANCE: f64 = 1.95;

/// Both statistics of the sample, as a share of the longest.
fn fit(longest: Duration, mut sleep: impl FnMut() -> Duration) -> (f64, f64) {
    let mut sample: Vec<f64> =
        (0..SAMPLES).map(|_| sleep().as_secs_f64() / longest.as_secs_f64()).collect();
    let mut counts = [0.0; BINS];
    for share in &sample {
        counts[((share * BINS as f64) as usize).min(BINS - 1)] += 1.0;
    }
    let expected = (SAMPLES / BINS) as f64;
    let chi_squared = counts.iter().map(|count: &f64| (count - expected).powi(2) / expected).sum();
    sample.sort_unstable_by(f64::total_cmp);
    let size = SAMPLES as f64;
    let distance = sample.iter().enumerate().map(|(index, share)| {
        let (below, upto) = (index as f64 / size, (index + 1) as f64 / size);
        (share - below).abs().max((upto - share).abs())
    });
    (chi_squared, distance.fold(0.0, f64::max) * size.sqrt())
}

#[test]
fn a_million_sleeps_fit_the_uniform_distribution() {
    let policy = Policy::default();
    let random = SplitMix::from_seed(0x1d_e4);
    for (retry, longest) in [(0, ms(50)), (3, ms(400)), (20, ms(20_000))] {
        let (chi_squared, distance) =
            fit(longest, || policy.sleep(retry, Load::Normal, None, &random));
        println!("retry {retry}: chi-squared {chi_squared:.1}, distance {distance:.2}");
        assert!(chi_squared < CHI_SQUARED && distance < DISTANCE);
    }
}

#[test]
fn above_a_hint_they_are_uniform_too() {
    let (policy, random) = (Policy::default(), SplitMix::from_seed(7));
    let hint = ms(1_500);
    let (chi_squared, distance) = fit(ms(1_000), || {
        policy.sleep(0, Load::Throttled, Some(hint), &random).checked_sub(hint).unwrap()
    });
    assert!(chi_squared < CHI_SQUARED && distance < DISTANCE, "{chi_squared} {distance}");
}

#[test]
fn the_test_finds_other_kinds_of_jitter() {
    let random = SplitMix::from_seed(3);
    let share = || random.next() as f64 / u64::MAX as f64;
    let longest = ms(1_000);
    let kinds: [&dyn Fn() -> f64; 4] = [
        &|| 0.5 + share() / 2.0,               // Half fixed, half random.
        &|| share() * 0.99,                    // Never quite the ceiling.
        &|| share().powf(1.02),                // A little too early.
        &|| (share() * 200.0).floor() / 200.0, // In steps.
    ];
    for (index, kind) in kinds.into_iter().enumerate() {
        let (chi_squared, distance) = fit(longest, || longest.mul_f64(kind()));
        assert!(chi_squared > CHI_SQUARED || distance > DISTANCE, "{index}");
    }
}
