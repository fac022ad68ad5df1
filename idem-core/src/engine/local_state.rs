//! What became of the transaction of an execution: who has it, and what is known of its commit.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::engine::failure::Misuse;
use crate::operation::LocalForm;
use crate::reply::Reply;

pub(super) type Slot = Box<dyn Any + Send>;

pub(super) enum Phase {
    /// None is open.
    Idle,
    /// The one-commit form's transaction, waiting for the handler or for the engine.
    Slot(Slot),
    /// The handler holds it.
    Open,
    /// Its COMMIT was sent, and is not answered.
    Committing,
    /// It was committed with this reply.
    Committed(Reply),
    /// The commit was asked for, and nobody knows whether it happened.
    Unknown,
    /// There will be none any more: the execution has ended, or the one-commit form's is gone.
    Ended,
}

pub(super) struct Local {
    form: LocalForm,
    state: Mutex<State>,
    view: watch::Sender<View>,
}

struct State {
    phase: Phase,
    asked: bool,
    /// Rows of a step were committed.
    stepped: bool,
    /// The one-commit form: the handler had the transaction before.
    used: bool,
    /// Since when the transaction is open and not yet committing.
    open_since: Option<Instant>,
}

/// What others wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct View {
    open_since: Option<Instant>,
    held: bool,
    committing: bool,
}

impl Local {
    pub(super) fn new(form: LocalForm) -> Self {
        let state = State {
            phase: Phase::Idle,
            asked: false,
            stepped: false,
            used: false,
            open_since: None,
        };
        let view = watch::Sender::new(View { open_since: None, held: false, committing: false });
        Self { form, state: Mutex::new(state), view }
    }

    /// Notes that the handler asked for a transaction, whatever came of it.
    pub(super) fn ask(&self) {
        self.change(|state| state.asked = true);
    }

    pub(super) fn was_asked(&self) -> bool {
        self.change(|state| state.asked)
    }

    /// Whether rows of a step stand.
    pub(super) fn has_stepped(&self) -> bool {
        self.change(|state| state.stepped)
    }

    /// Whether a transaction is open, or its commit under way.
    pub(super) fn is_open(&self) -> bool {
        self.change(|state| matches!(state.phase, Phase::Open | Phase::Committing))
    }

    /// Whether the execution has nothing more to do: its reply is committed, or may be, or it has
    /// ended.
    pub(super) fn is_over(&self) -> bool {
        self.change(|state| {
            matches!(state.phase, Phase::Committed(_) | Phase::Unknown | Phase::Ended)
        })
    }

    /// The one-commit form: the engine lends the transaction that holds the claim.
    pub(super) fn lend(&self, slot: Slot) {
        self.change(|state| {
            state.phase = Phase::Slot(slot);
            state.open_since = Some(Instant::now());
        });
    }

    /// The one-commit form: the handler takes the transaction; says whether it had it before.
    pub(super) fn take(&self) -> Result<(Slot, bool), Misuse> {
        self.change(|state| match std::mem::replace(&mut state.phase, Phase::Open) {
            Phase::Slot(slot) => Ok((slot, std::mem::replace(&mut state.used, true))),
            other => {
                let open = matches!(other, Phase::Open | Phase::Committing);
                state.phase = other;
                Err(if open { Misuse::TransactionOpen } else { Misuse::TransactionEnded })
            }
        })
    }

    /// The one-commit form: the handler is done with it, and did not commit.
    pub(super) fn give_back(&self, slot: Slot) {
        self.change(|state| {
            // Past its end nobody waits for it: dropped, it is rolled back.
            if let Phase::Open = state.phase {
                state.phase = Phase::Slot(slot);
            }
        });
    }

    /// The claim-first form: the handler opens one.
    pub(super) fn open(&self) -> Result<(), Misuse> {
        self.change(|state| match state.phase {
            Phase::Idle => {
                state.phase = Phase::Open;
                Ok(())
            }
            Phase::Open | Phase::Committing => Err(Misuse::TransactionOpen),
            _ => Err(Misuse::TransactionEnded),
        })
    }

    /// The claim-first form: from now on it may hold the row, and its time counts.
    pub(super) fn start_limit(&self) {
        self.change(|state| state.open_since = Some(Instant::now()));
    }

    /// Whether the COMMIT may be sent: not once the engine has stopped waiting for it.
    pub(super) fn start_commit(&self) -> bool {
        self.change(|state| {
            let open = matches!(state.phase, Phase::Open);
            if open {
                state.phase = Phase::Committing;
                state.open_since = None;
            }
            open
        })
    }

    pub(super) fn committed(&self, reply: Reply) {
        self.change(|state| state.phase = Phase::Committed(reply));
    }

    /// The COMMIT is known to have ended the transaction with the rows of a step.
    pub(super) fn step_is_committed(&self) {
        self.change(|state| state.stepped = true);
        self.commit_is_over();
    }

    /// The COMMIT is known to have ended the transaction, and not with a reply.
    pub(super) fn commit_is_over(&self) {
        self.change(|state| {
            if let Phase::Committing = state.phase {
                state.phase = Phase::Open;
            }
        });
    }

    /// The transaction is gone. Without an answer to its COMMIT nobody knows how it went.
    pub(super) fn close(&self) {
        self.change(|state| {
            let after = match (&state.phase, self.form) {
                (Phase::Open, LocalForm::ClaimFirst) => Phase::Idle,
                (Phase::Open, LocalForm::OneCommit) => Phase::Ended,
                (Phase::Committing, _) => Phase::Unknown,
                _ => return,
            };
            state.phase = after;
            state.open_since = None;
        });
    }

    /// Returns once a transaction has been open for longer than `limit`.
    pub(super) async fn held_too_long(&self, limit: Duration) {
        let mut view = self.view.subscribe();
        loop {
            // The sender lives as long as this.
            let since = view.wait_for(|view| view.open_since.is_some()).await;
            let Some(since) = since.ok().and_then(|view| view.open_since) else { return };
            let closed = view.wait_for(|view| view.open_since != Some(since));
            if timeout_at(since + limit, closed).await.is_err() {
                return;
            }
        }
    }

    /// Ends the execution's part: waits for a commit that is under way, and no longer than
    /// `limit` for a transaction that is left open elsewhere, and says how it stands. From here
    /// on none is opened and none committed.
    pub(super) async fn end(&self, limit: Duration) -> Phase {
        let mut view = self.view.subscribe();
        let _ = timeout(limit, view.wait_for(|view| !view.held)).await;
        let _ = view.wait_for(|view| !view.committing).await;
        self.change(|state| {
            state.open_since = None;
            std::mem::replace(&mut state.phase, Phase::Ended)
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        let view = View {
            open_since: state.open_since,
            held: matches!(state.phase, Phase::Open),
            committing: matches!(state.phase, Phase::Committing),
        };
        self.view.send_if_modified(|seen| std::mem::replace(seen, view) != view);
        result
    }
}
