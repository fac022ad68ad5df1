//! Measures several ways to do one thing against the first of them.

use std::error::Error;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub(crate) type BoxError = Box<dyn Error + Send + Sync + 'static>;
type Calling = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// One way to do it.
#[derive(Clone)]
pub(crate) struct Subject {
    name: &'static str,
    call: Arc<dyn Fn(u64) -> Calling + Send + Sync>,
}

impl Subject {
    /// `call` gets a number that no other call of this run gets.
    pub(crate) fn new<F, Fut>(name: &'static str, call: F) -> Self
    where
        F: Fn(u64) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self { name, call: Arc::new(move |number| Box::pin(call(number))) }
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) calls: u64,
    pub(crate) concurrency: u64,
}

/// What came out for one way.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// The median of the rounds, for one call, in microseconds.
    pub(crate) micros: f64,
    /// The median, the lowest and the highest of the rounds, each against the first way in the
    /// same round.
    pub(crate) ratio: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

/// Runs every subject in each round, one after the other, so that whatever else the machine does
/// meets them alike. The first round only warms up. Each round begins with another subject.
pub(crate) async fn measure(
    group: &'static str,
    subjects: &[Subject],
    effort: Effort,
) -> Result<Vec<Row>, BoxError> {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..=effort.rounds {
        progress(&format!("{group}: round {round} of {}", effort.rounds));
        for turn in 0..subjects.len() {
            let which = (round + turn) % subjects.len();
            let time = calls(&subjects[which], &numbers, effort).await?;
            if round > 0 {
                times[which].push(time.as_secs_f64() / effort.calls as f64);
            }
        }
    }
    progress("");
    let names = subjects.iter().map(|subject| subject.name);
    Ok(names.zip(&times).map(|(name, own)| row(group, name, own, &times[0])).collect())
}

async fn calls(
    subject: &Subject,
    numbers: &Arc<AtomicU64>,
    effort: Effort,
) -> Result<Duration, BoxError> {
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..effort.concurrency {
        let share = (caller..effort.calls).step_by(effort.concurrency as usize).count();
        let (subject, numbers) = (subject.clone(), Arc::clone(numbers));
        callers.spawn(async move {
            for _ in 0..share {
                (subject.call)(numbers.fetch_add(1, Ordering::Relaxed)).await?;
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(start.elapsed())
}

fn row(group: &'static str, name: &'static str, own: &[f64], first: &[f64]) -> Row {
    let ratios: Vec<f64> = own.iter().zip(first).map(|(own, first)| own / first).collect();
    let (lowest, ratio, highest) = spread(ratios);
    let (_, seconds, _) = spread(own.to_vec());
    Row { group, name, micros: seconds * 1e6, ratio, lowest, highest }
}

/// The lowest, the median and the highest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    (at(0), at(values.len() / 2), at(values.len().saturating_sub(1)))
}

/// One line that is written over, on a terminal only.
fn progress(text: &str) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        // The machine became ten times slower in the middle: the ratio stays.
        let row = row("g", "n", &[2.0, 30.0, 4.0], &[1.0, 10.0, 2.0]);
        assert_eq!((row.lowest, row.ratio, row.highest, row.micros), (2.0, 2.0, 3.0, 4e6));
    }

    #[tokio::test]
    async fn every_subject_is_called_as_often_as_said_with_numbers_of_its_own() {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let subject = |name| {
            let seen = Arc::clone(&seen);
            Subject::new(name, move |number| {
                seen.lock().unwrap().push((name, number));
                async { Ok(()) }
            })
        };
        let effort = Effort { rounds: 2, calls: 5, concurrency: 3 };
        let rows = measure("g", &[subject("a"), subject("b")], effort).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((rows[0].ratio, rows[0].lowest, rows[0].highest), (1.0, 1.0, 1.0));
        let mut seen = seen.lock().unwrap().clone();
        assert_eq!(seen.iter().filter(|(name, _)| *name == "a").count(), 3 * 5);
        seen.sort_by_key(|&(_, number)| number);
        assert!(seen.iter().map(|&(_, number)| number).eq(0..2 * 3 * 5));
    }

    #[tokio::test]
    async fn a_call_that_fails_ends_it() {
        let failing = Subject::new("failing", |_| async { Err("no".into()) });
        let effort = Effort { rounds: 1, calls: 1, concurrency: 1 };
        assert_eq!(measure("g", &[failing], effort).await.unwrap_err().to_string(), "no");
    }
}
