//! A destination that answers as it is told, and a clock that advances when somebody sleeps.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use idem_retry::classify::{Answer, Fault, HttpRules, Traits};
use idem_retry::clock::{Clock, Sleep};
use idem_retry::random::Pinned;
use idem_retry::{
    Attempt, Attempted, Budget, CallOptions, Class, Destination, Last, Outcome, Policy, Retry,
    Unfinished, Why,
};

/// The longest jitter, as the published numeric cases have it.
pub(crate) const FULL: Pinned = Pinned(u64::MAX);
/// No jitter.
pub(crate) const NONE: Pinned = Pinned(0);

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A clock that advances by what is slept. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepClock(Arc<Mutex<Time>>);

#[derive(Debug, Default)]
struct Time {
    now: Duration,
    slept: Vec<Duration>,
    oversleep: Duration,
}

impl StepClock {
    /// Each sleep takes so much longer than asked for.
    pub(crate) fn oversleep(&self, duration: Duration) {
        self.time().oversleep = duration;
    }

    /// The sleeps so far. The timeout of an attempt that was waited for to its end is one.
    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.time().slept.clone()
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.0.lock().unwrap()
    }
}

impl Clock for StepClock {
    fn now(&self) -> Duration {
        self.time().now
    }

    fn time_of_day(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(784_111_777) + self.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let clock = self.clone();
        let until = self.now() + duration;
        Box::pin(async move {
            let mut time = clock.time();
            let oversleep = time.oversleep;
            time.now = time.now.max(until + oversleep);
            time.slept.push(duration);
        })
    }
}

/// What the destination does with one attempt.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Status(u16, Vec<(&'static str, &'static str)>),
    /// A 409 whose problem document has this type.
    Conflict(&'static str, Vec<(&'static str, &'static str)>),
    Fault(Fault),
    Hang,
}

pub(crate) fn status(code: u16) -> Step {
    Step::Status(code, Vec::new())
}

pub(crate) fn with(code: u16, headers: &[(&'static str, &'static str)]) -> Step {
    Step::Status(code, headers.to_vec())
}

/// An answer, as a client would have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: HeaderMap,
    problem: Option<&'static str>,
}

pub(crate) type Called = Outcome<Reply, Fault>;

/// One caller, its clock, and everything that it sent.
pub(crate) struct Bench {
    pub(crate) clock: StepClock,
    pub(crate) retry: Retry,
    pub(crate) destination: Destination,
    pub(crate) traits: Traits,
    pub(crate) rules: HttpRules,
    pub(crate) options: CallOptions,
    pub(crate) sent: Vec<Attempt>,
}

impl Bench {
    pub(crate) fn new(policy: Policy, budget: Budget, jitter: Pinned) -> Self {
        let clock = StepClock::default();
        Self {
            retry: Retry::new(policy).clock(clock.clone()).random(jitter),
            clock,
            destination: Destination::separate("bench", budget),
            traits: Traits::of(&Method::POST, true),
            rules: HttpRules::new(),
            options: CallOptions::default(),
            sent: Vec::new(),
        }
    }

    /// A keyed POST, three attempts, no jitter, an unlimited budget.
    pub(crate) fn keyed() -> Self {
        Self::new(Policy::default(), Budget::unlimited(), NONE)
    }

    pub(crate) fn unkeyed() -> Self {
        Self { traits: Traits::of(&Method::POST, false), ..Self::keyed() }
    }

    /// Calls a destination that does these things, one for each attempt, and panics when there
    /// are more attempts than things to do.
    pub(crate) fn call(&mut self, steps: &[Step]) -> Called {
        self.sent.clear();
        let mut steps = steps.iter().cloned();
        let Self { clock, retry, destination, traits, rules, options, sent } = self;
        let classify = |attempted: Attempted<'_, Reply, Fault>| -> Class {
            match attempted {
                Attempted::Answer(reply) => {
                    let status = StatusCode::from_u16(reply.status).unwrap();
                    let answer = Answer::new(status, &reply.headers, clock.time_of_day());
                    rules.answer(*traits, &answer.problem_type(reply.problem))
                }
                Attempted::Error(fault) => rules.fault(*traits, *fault),
                _ => rules.fault(*traits, Fault::Lost),
            }
        };
        let call = retry.call_with(destination, *options, classify, |attempt| {
            sent.push(attempt);
            let step = steps.next().expect("no further attempt");
            async move { step.take().await }
        });
        block_on(call)
    }

    pub(crate) fn balance(&self) -> u64 {
        self.destination.budget().balance(self.clock.now())
    }
}

impl Step {
    async fn take(self) -> Result<Reply, Fault> {
        let (status, headers, problem) = match self {
            Self::Status(status, headers) => (status, headers, None),
            Self::Conflict(problem, headers) => (409, headers, Some(problem)),
            Self::Fault(fault) => return Err(fault),
            Self::Hang => return std::future::pending().await,
        };
        let headers = headers
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Ok(Reply { status, headers: headers.collect(), problem })
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The status of an answer, its own or replayed.
#[track_caller]
pub(crate) fn answered(outcome: &Called) -> (u16, u32) {
    match outcome {
        Outcome::Answered(answered) => (answered.answer.status, answered.attempts),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn replayed(outcome: &Called) -> (u16, u32) {
    match outcome {
        Outcome::Replayed(answered) => (answered.answer.status, answered.attempts),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn gave_up(outcome: Called) -> Unfinished<Reply, Fault> {
    match outcome {
        Outcome::GaveUp(unfinished) => unfinished,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn unknown(outcome: Called) -> Unfinished<Reply, Fault> {
    match outcome {
        Outcome::Unknown(unfinished) => unfinished,
        other => panic!("{other:?}"),
    }
}

/// Why it ended, after how many attempts.
pub(crate) fn why(unfinished: &Unfinished<Reply, Fault>) -> (Why, u32) {
    (unfinished.why, unfinished.attempts)
}

/// The status of the last answer.
#[track_caller]
pub(crate) fn last_status(unfinished: &Unfinished<Reply, Fault>) -> u16 {
    match &unfinished.last {
        Last::Answer(reply) => reply.status,
        other => panic!("{other:?}"),
    }
}
