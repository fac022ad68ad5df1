//! The bucket itself. Its model test compiles this file against loom's primitives.

use std::time::Duration;

use super::sync::{Mutex, MutexGuard, PoisonError};

/// What a bucket may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most tokens.
    pub(super) capacity: u64,
    /// Time alone fills it up to here.
    pub(super) reserve: u64,
    /// How long time takes to fill the reserve from nothing; zero when it never does.
    pub(super) refill: Duration,
}

/// Tokens. Each method is one critical section of a few instructions: nobody waits for a token.
#[derive(Debug)]
pub(super) struct Bucket {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: u64,
    /// Since when time has been adding to `tokens`; not before the first look at them.
    since: Option<Duration>,
}

impl Bucket {
    pub(super) fn new(limits: Limits, tokens: u64) -> Self {
        let tokens = tokens.min(limits.capacity);
        Self { limits, state: Mutex::new(State { tokens, since: None }) }
    }

    pub(super) fn deposit(&self, tokens: u64, now: Duration) {
        let mut state = self.state_at(now);
        state.tokens = state.tokens.saturating_add(tokens).min(self.limits.capacity);
    }

    /// Whether there were so many; otherwise takes none.
    pub(super) fn withdraw(&self, tokens: u64, now: Duration) -> bool {
        let mut state = self.state_at(now);
        let left = state.tokens.checked_sub(tokens);
        state.tokens = left.unwrap_or(state.tokens);
        left.is_some()
    }

    pub(super) fn balance(&self, now: Duration) -> u64 {
        self.state_at(now).tokens
    }

    /// The state with what time has added until now.
    fn state_at(&self, now: Duration) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { reserve, refill, .. } = self.limits;
        let since = state.since.unwrap_or(now);
        if state.tokens >= reserve || refill.is_zero() {
            state.since = Some(since.max(now));
            return state;
        }
        let passed = now.saturating_sub(since);
        let refill = refill.as_nanos();
        let added = passed.as_nanos().saturating_mul(u128::from(reserve)) / refill;
        if added >= u128::from(reserve - state.tokens) {
            state.tokens = reserve;
            state.since = Some(since.max(now));
        } else {
            let added = u64::try_from(added).unwrap_or(0);
            state.tokens += added;
            // What is left over of a token goes on growing.
            let counted = (u128::from(added) * refill).div_ceil(u128::from(reserve));
            let counted = Duration::from_nanos(u64::try_from(counted).unwrap_or(u64::MAX));
            state.since = Some(since.saturating_add(counted));
        }
        state
    }
}
