//! A call under way: what it has done, and whether it may go on.

use std::time::Duration;

use crate::attempt::{Announced, Attempt};
use crate::budget::Withdrawn;
use crate::class::{Applied, Class, Reason, Transient};
use crate::destination::{Destination, count};
use crate::latency::Latency;
use crate::one_layer;
use crate::outcome::{Answered, Last, Outcome, Unfinished, Why};
use crate::policy::AttemptTimeout;
use crate::retry::{CallOptions, Retry};

/// A call under way.
pub(crate) struct Call<'a> {
    retry: &'a Retry,
    destination: &'a Destination,
    latency: &'a Latency,
    began: Duration,
    /// The attempt of another call that this one is made in.
    around: Option<Announced>,
    one_shot: bool,
    attempts: u32,
    applied: Applied,
    hint: Option<Duration>,
    /// When the server forgets the key, on the clock.
    key_ends: Option<Duration>,
    withdrawn: Option<Withdrawn>,
    /// Whether the deadline or the key cut the current attempt's timeout short.
    is_cut_short: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn begin(
        retry: &'a Retry,
        destination: &'a Destination,
        options: CallOptions,
    ) -> Self {
        let began = retry.clock.now();
        let around = one_layer::current();
        count(&destination.counts().calls);
        if around.is_none() {
            destination.budget().begin(began);
        } else if retry.policy.attempts() > 1 {
            let nested = count(&destination.counts().nested);
            // Each doubling is said, so that a hot path does not fill the log.
            if nested.is_power_of_two() {
                tracing::warn!(
                    destination = destination.name(),
                    nested,
                    "a call inside an attempt of another call runs once: retry at one layer only"
                );
            }
        }
        Self {
            retry,
            destination,
            latency: destination.latency_for(options.safety),
            began,
            around,
            one_shot: options.one_shot,
            attempts: 0,
            applied: Applied::No,
            hint: None,
            key_ends: options.key_lifetime.map(|lifetime| began.saturating_add(lifetime)),
            withdrawn: None,
            is_cut_short: false,
        }
    }

    fn most_attempts(&self) -> u32 {
        let is_once = self.one_shot || self.around.is_some();
        if is_once { 1 } else { self.retry.policy.attempts() }
    }

    /// Counts the next attempt.
    pub(crate) fn next_attempt(&mut self) -> Attempt {
        self.attempts += 1;
        if self.attempts > 1 {
            count(&self.destination.counts().retries);
        }
        let wanted = match self.retry.policy.attempt_timeout() {
            AttemptTimeout::Fixed(timeout) => timeout,
            AttemptTimeout::Measured(measured) => self.latency.timeout(&measured),
        };
        let now = self.retry.clock.now();
        let mut timeout = wanted.min(self.deadline().saturating_sub(now));
        if let Some(ends) = self.key_ends.filter(|_| self.attempts > 1) {
            timeout = timeout.min(ends.saturating_sub(now));
        }
        self.is_cut_short = timeout < wanted;
        let own = Announced { attempt: self.attempts, max: self.most_attempts() };
        Attempt { number: self.attempts, timeout, announced: self.around.unwrap_or(own) }
    }

    fn deadline(&self) -> Duration {
        self.began.saturating_add(self.retry.policy.deadline())
    }

    /// Whether and how this attempt counts for the timeouts of later ones.
    pub(crate) fn measure<T, E>(&self, class: &Class, ended: &Last<T, E>, took: Duration) {
        let is_sample = match ended {
            Last::Answer(_) => matches!(class, Class::Answered { settles: true }),
            Last::TimedOut => !self.is_cut_short,
            Last::Error(_) => false,
        };
        if is_sample {
            self.latency.record(took);
        }
    }

    /// How long to sleep before the next attempt, or why there is none.
    pub(crate) fn wait_for(
        &mut self,
        transient: Transient,
        attempt_began: Duration,
    ) -> Result<Duration, Why> {
        self.hint = transient.hint;
        if let Some(lifetime) = transient.key_lifetime {
            let ends = attempt_began.saturating_add(lifetime);
            self.key_ends = Some(self.key_ends.map_or(ends, |known| known.min(ends)));
        }
        if self.around.is_some() {
            return Err(Why::Nested);
        }
        if self.attempts >= self.retry.policy.attempts() {
            return Err(Why::Attempts);
        }
        if self.one_shot {
            return Err(Why::OneShot);
        }
        let now = self.retry.clock.now();
        if transient.hint.is_some_and(|hint| now.saturating_add(hint) >= self.deadline()) {
            return Err(Why::HintBeyondDeadline);
        }
        let Transient { load, hint, .. } = transient;
        let sleep = self.retry.policy.sleep(self.attempts - 1, load, hint, &*self.retry.random);
        self.check_time(now.saturating_add(sleep))?;
        // Last, so that a token is taken only for a retry that is made.
        match self.destination.budget().withdraw(load, now) {
            Some(withdrawn) => self.withdrawn = Some(withdrawn),
            None => {
                count(&self.destination.counts().refused_by_budget);
                return Err(Why::Budget);
            }
        }
        Ok(sleep)
    }

    /// A sleep may have taken longer than it should.
    pub(crate) fn after_sleep(&self) -> Result<(), Why> {
        self.check_time(self.retry.clock.now())
    }

    fn check_time(&self, instant: Duration) -> Result<(), Why> {
        if instant >= self.deadline() {
            return Err(Why::Deadline);
        }
        match self.key_ends {
            Some(ends) if instant >= ends => Err(Why::KeyLifetime),
            _ => Ok(()),
        }
    }

    /// What this attempt may have done, whatever follows.
    pub(crate) fn note(&mut self, class: &Class) {
        let applied = match class {
            Class::Transient(transient) => transient.applied,
            Class::Permanent { applied, .. } => *applied,
            Class::Answered { .. } | Class::Replayed => Applied::No,
        };
        self.applied = self.applied.max(applied);
    }

    /// The outcome, where `last` is final.
    pub(crate) fn finish<T, E>(self, class: Class, last: Last<T, E>) -> Outcome<T, E> {
        match (class, last) {
            (Class::Replayed, Last::Answer(answer)) => {
                self.succeed();
                Outcome::Replayed(self.answered(answer))
            }
            (Class::Answered { settles: false }, last @ Last::Answer(_))
                if self.applied.is_uncertain() =>
            {
                self.unfinished(Why::NotSettled, last)
            }
            (Class::Answered { settles }, Last::Answer(answer)) => {
                if settles {
                    self.succeed();
                }
                Outcome::Answered(self.answered(answer))
            }
            (Class::Permanent { reason, .. }, last) => self.unfinished(Why::Final(reason), last),
            // An error is no answer, however it is classified.
            (_, last) => self.unfinished(Why::Final(Reason::WouldFailAgain), last),
        }
    }

    /// The outcome, where there was no further attempt.
    pub(crate) fn unfinished<T, E>(self, why: Why, last: Last<T, E>) -> Outcome<T, E> {
        let (attempts, elapsed) = (self.attempts, self.elapsed());
        let Self { applied, hint, .. } = self;
        let unfinished = Unfinished {
            why,
            attempts,
            elapsed,
            last,
            applied,
            hint,
            status: None,
            is_in_flight: false,
            cause: None,
        };
        if applied.is_uncertain() {
            count(&self.destination.counts().unknown);
            Outcome::Unknown(unfinished)
        } else {
            count(&self.destination.counts().gave_up);
            Outcome::GaveUp(unfinished)
        }
    }

    fn answered<T>(&self, answer: T) -> Answered<T> {
        Answered { answer, attempts: self.attempts, elapsed: self.elapsed() }
    }

    fn succeed(&self) {
        // A nested call put nothing in and takes nothing out.
        if self.around.is_none() {
            self.destination.budget().succeed(self.withdrawn, self.retry.clock.now());
        }
    }

    fn elapsed(&self) -> Duration {
        self.retry.clock.now().saturating_sub(self.began)
    }
}
