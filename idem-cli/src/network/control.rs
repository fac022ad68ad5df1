//! How a card network is told to misbehave.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The longest delay that can be asked for.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 60);

/// What a card network does wrong. The default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Milliseconds that a call waits, after it was counted and before anything is done.
    pub delay_ms: u64,
    /// So many of the next calls act, and then their connection is closed without an answer.
    pub drop_answers: u32,
    /// So many of the next new keys are declined, for good.
    pub refuse: u32,
    /// So many of the next calls get a 500 and do nothing.
    pub fail: u32,
    /// Calls act, and then their answers are held until this is false again.
    pub hold: bool,
}

/// A change of [`Settings`]: what is absent stays as it is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// See [`Settings::delay_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// See [`Settings::drop_answers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_answers: Option<u32>,
    /// See [`Settings::refuse`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuse: Option<u32>,
    /// See [`Settings::fail`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<u32>,
    /// See [`Settings::hold`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
}

/// The settings as they stand, and what they have caught.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlState {
    /// What is still to be done wrong.
    #[serde(flatten)]
    pub settings: Settings,
    /// How many calls wait for the end of their delay.
    pub delayed: u64,
    /// How many calls have acted and wait to be answered.
    pub held: u64,
}

/// A delay longer than [`MAX_DELAY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("delay_ms must be at most {}", MAX_DELAY.as_millis())]
pub struct DelayTooLong;

/// The settings of a running network, and the places where its calls wait.
#[derive(Debug)]
pub(super) struct Control {
    shared: watch::Sender<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: ControlState,
    /// The network is about to end: nothing waits any more.
    ending: bool,
}

impl Settings {
    /// Checks the delay.
    ///
    /// # Errors
    /// [`DelayTooLong`].
    pub fn check(&self) -> Result<(), DelayTooLong> {
        if u128::from(self.delay_ms) > MAX_DELAY.as_millis() { Err(DelayTooLong) } else { Ok(()) }
    }
}

impl Control {
    pub(super) fn new(settings: Settings) -> Self {
        let state = ControlState { settings, ..ControlState::default() };
        Self { shared: watch::Sender::new(Shared { state, ending: false }) }
    }

    pub(super) fn state(&self) -> ControlState {
        self.shared.borrow().state
    }

    /// Changes the settings. A delay counts for calls that arrive from now on; the end of a hold
    /// lets every held answer go.
    pub(super) fn change(&self, change: Change) -> Result<ControlState, DelayTooLong> {
        let mut outcome = Ok(());
        self.shared.send_modify(|shared| {
            let old = shared.state.settings;
            let new = Settings {
                delay_ms: change.delay_ms.unwrap_or(old.delay_ms),
                drop_answers: change.drop_answers.unwrap_or(old.drop_answers),
                refuse: change.refuse.unwrap_or(old.refuse),
                fail: change.fail.unwrap_or(old.fail),
                hold: change.hold.unwrap_or(old.hold),
            };
            outcome = new.check();
            if outcome.is_ok() {
                shared.state.settings = new;
            }
        });
        outcome.map(|()| self.state())
    }

    pub(super) fn take_drop(&self) -> bool {
        self.take(|settings| &mut settings.drop_answers)
    }

    pub(super) fn take_refusal(&self) -> bool {
        self.take(|settings| &mut settings.refuse)
    }

    pub(super) fn take_failure(&self) -> bool {
        self.take(|settings| &mut settings.fail)
    }

    /// Waits for as long as the delay says now, or until the network ends.
    pub(super) async fn delay(&self) {
        let delay = Duration::from_millis(self.state().settings.delay_ms);
        if delay.is_zero() {
            return;
        }
        let _waiting = Waiting::new(self, |state| &mut state.delayed);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.until(|shared| shared.ending) => {}
        }
    }

    /// Waits until answers are no longer held, or until the network ends.
    pub(super) async fn hold(&self) {
        if !self.state().settings.hold {
            return;
        }
        let _waiting = Waiting::new(self, |state| &mut state.held);
        self.until(|shared| !shared.state.settings.hold || shared.ending).await;
    }

    /// Ends every delay and every hold, now and for all calls to come.
    pub(super) fn end_waits(&self) {
        self.shared.send_modify(|shared| shared.ending = true);
    }

    async fn until(&self, condition: impl FnMut(&Shared) -> bool) {
        // It fails only when the sender is gone, and this borrows it.
        let _ = self.shared.subscribe().wait_for(condition).await;
    }

    fn take(&self, counter: impl Fn(&mut Settings) -> &mut u32) -> bool {
        self.shared.send_if_modified(|shared| {
            let counter = counter(&mut shared.state.settings);
            let taken = *counter > 0;
            *counter = counter.saturating_sub(1);
            taken
        })
    }
}

/// Counts a waiting call for as long as it waits, its being dropped included.
struct Waiting<'a> {
    control: &'a Control,
    counter: fn(&mut ControlState) -> &mut u64,
}

impl<'a> Waiting<'a> {
    fn new(control: &'a Control, counter: fn(&mut ControlState) -> &mut u64) -> Self {
        control.shared.send_modify(|shared| *counter(&mut shared.state) += 1);
        Self { control, counter }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.control.shared.send_modify(|shared| *(self.counter)(&mut shared.state) -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_change_leaves_the_rest_alone_and_counters_run_out() {
        let control = Control::new(Settings { refuse: 1, ..Settings::default() });
        let change = Change { fail: Some(2), ..Change::default() };
        let settings = control.change(change).unwrap().settings;
        assert_eq!(settings, Settings { refuse: 1, fail: 2, ..Settings::default() });
        assert_eq!([(); 3].map(|()| control.take_failure()), [true, true, false]);
        assert_eq!([(); 2].map(|()| control.take_refusal()), [true, false]);
        assert!(!control.take_drop());
    }

    #[test]
    fn a_delay_past_the_limit_changes_nothing() {
        let control = Control::new(Settings::default());
        let change = Change { delay_ms: Some(600_001), hold: Some(true), ..Change::default() };
        assert_eq!(control.change(change), Err(DelayTooLong));
        assert_eq!(control.state(), ControlState::default());
        let change = Change { delay_ms: Some(600_000), ..Change::default() };
        assert!(control.change(change).is_ok());
    }

    #[tokio::test]
    async fn held_calls_are_counted_and_let_go() {
        let control = Arc::new(Control::new(Settings { hold: true, ..Settings::default() }));
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let control = control.clone();
            waiting.push(tokio::spawn(async move { control.hold().await }));
        }
        control.until(|shared| shared.state.held == 3).await;
        waiting.pop().unwrap().abort();
        control.until(|shared| shared.state.held == 2).await;
        control.change(Change { hold: Some(false), ..Change::default() }).unwrap();
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert_eq!(control.state().held, 0);
    }

    #[tokio::test]
    async fn the_end_ends_delays_and_holds() {
        let settings = Settings { delay_ms: 600_000, hold: true, ..Settings::default() };
        let control = Arc::new(Control::new(settings));
        let call = tokio::spawn({
            let control = control.clone();
            async move {
                control.delay().await;
                control.hold().await;
            }
        });
        control.until(|shared| shared.state.delayed == 1).await;
        control.end_waits();
        call.await.unwrap();
        control.delay().await;
        assert_eq!((control.state().delayed, control.state().held), (0, 0));
    }
}
