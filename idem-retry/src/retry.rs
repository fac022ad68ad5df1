//! The loop.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use crate::attempt::Attempt;
use crate::call::Call;
use crate::class::{Attempted, Class};
use crate::classify::Safety;
use crate::clock::{Clock, TokioClock};
use crate::destination::Destination;
use crate::one_layer;
use crate::outcome::{Last, Outcome};
use crate::policy::Policy;
use crate::random::{Random, SplitMix};

/// Retries calls by a policy. Clones share its clock and its randomness.
#[derive(Debug, Clone)]
pub struct Retry {
    pub(crate) policy: Policy,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
}

/// What holds for one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct CallOptions {
    pub(crate) one_shot: bool,
    pub(crate) key_lifetime: Option<Duration>,
    pub(crate) safety: Option<Safety>,
}

impl CallOptions {
    /// The body can be sent once only: one attempt, and an outcome that says so.
    pub fn one_shot(mut self, one_shot: bool) -> Self {
        self.one_shot = one_shot;
        self
    }

    /// For how long the server keeps a key, as its contract says; no retry begins later, counted
    /// from the beginning of the call. What an answer says counts too, if it is less.
    pub fn key_lifetime(mut self, lifetime: Duration) -> Self {
        self.key_lifetime = Some(lifetime);
        self
    }

    /// What the call's method promises. Its attempts are timed with those of the same promise, and
    /// get their timeouts from them ([`Destination::latency_of`]).
    pub fn safety(mut self, safety: Safety) -> Self {
        self.safety = Some(safety);
        self
    }
}

/// Calls `op` until it is answered, by this policy: [`Retry::call`] with tokio's clock and
/// jitter of the process.
///
/// # Cancel safety
/// As [`Retry::call`].
pub async fn retry<T, E, C, F, Fut>(
    policy: &Policy,
    destination: &Destination,
    classify: C,
    op: F,
) -> Outcome<T, E>
where
    C: FnMut(Attempted<'_, T, E>) -> Class,
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    Retry::new(policy.clone()).call(destination, classify, op).await
}

impl Retry {
    /// With tokio's clock and jitter seeded by the operating system.
    pub fn new(policy: Policy) -> Self {
        static JITTER: LazyLock<Arc<SplitMix>> =
            LazyLock::new(|| Arc::new(SplitMix::from_system()));
        Self { policy, clock: Arc::new(TokioClock), random: JITTER.clone() }
    }

    /// Reads the time and sleeps by this clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Draws jitter from this source.
    #[must_use]
    pub fn random(mut self, random: impl Random) -> Self {
        self.random = Arc::new(random);
        self
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The time of day by its clock, for whoever reads a `Retry-After`.
    pub fn time_of_day(&self) -> std::time::SystemTime {
        self.clock.time_of_day()
    }

    /// Calls `op` until `classify` finds its end final, or no further attempt is allowed.
    ///
    /// `op` is started anew for each attempt and must send the same bytes under the same key each
    /// time. `classify` says what an attempt's end means.
    ///
    /// # Cancel safety
    /// Dropped, it makes no further attempt. What the attempt under way came to is unknown.
    pub async fn call<T, E, C, F, Fut>(
        &self,
        destination: &Destination,
        classify: C,
        op: F,
    ) -> Outcome<T, E>
    where
        C: FnMut(Attempted<'_, T, E>) -> Class,
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_with(destination, CallOptions::default(), classify, op).await
    }

    /// As [`call`](Self::call), with what holds for this call only.
    ///
    /// # Cancel safety
    /// As [`call`](Self::call).
    pub async fn call_with<T, E, C, F, Fut>(
        &self,
        destination: &Destination,
        options: CallOptions,
        mut classify: C,
        mut op: F,
    ) -> Outcome<T, E>
    where
        C: FnMut(Attempted<'_, T, E>) -> Class,
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut call = Call::begin(self, destination, options);
        loop {
            let attempt = call.next_attempt();
            let began = self.clock.now();
            let work = one_layer::within(attempt.announced, || op(attempt));
            let ended = within_time(work, &*self.clock, attempt.timeout).await;
            let took = self.clock.now().saturating_sub(began);
            let class = classify(match &ended {
                Last::Answer(answer) => Attempted::Answer(answer),
                Last::Error(error) => Attempted::Error(error),
                Last::TimedOut => Attempted::TimedOut,
            });
            call.measure(&class, &ended, took);
            call.note(&class);
            let Class::Transient(transient) = class else { return call.finish(class, ended) };
            match call.wait_for(transient, began) {
                Ok(sleep) => self.clock.sleep(sleep).await,
                Err(why) => return call.unfinished(why, ended),
            }
            if let Err(why) = call.after_sleep() {
                return call.unfinished(why, ended);
            }
        }
    }
}

/// Runs `work` until it ends or its time is over.
async fn within_time<T, E>(
    work: impl Future<Output = Result<T, E>>,
    clock: &dyn Clock,
    limit: Duration,
) -> Last<T, E> {
    let mut work = pin!(work);
    let mut over = clock.sleep(limit);
    poll_fn(move |context| {
        // The work first: an answer that is there counts, however late it is looked at.
        match work.as_mut().poll(context) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(Last::Answer(answer)),
            Poll::Ready(Err(error)) => return Poll::Ready(Last::Error(error)),
            Poll::Pending => {}
        }
        over.as_mut().poll(context).map(|()| Last::TimedOut)
    })
    .await
}
