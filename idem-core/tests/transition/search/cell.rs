//! A record with small numbers for everything, so that states are compared and kept cheaply; and
//! the way to a real record and back, so that the rules that are searched are the real ones.

use std::sync::LazyLock;
use std::time::Duration;

use idem_core::codec::Sealed;
use idem_core::key::{Key, Scope};
use idem_core::record::{Fence, Incarnation, OperationName, Record, Recovery, Retention, State};
use idem_core::time::Timestamp;

use crate::world::{Ask, SECOND, ask, bytes, print};

/// How long a lease runs, and the retention, in ticks.
pub(super) const LEASE: u8 = 1;
pub(super) const LONG_LEASE: u8 = 3;
pub(super) const RETENTION: u8 = 3;

/// A fence: life, attempt, owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token {
    pub(super) life: u8,
    pub(super) attempt: u8,
    pub(super) owner: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    pub(super) under: Token,
    pub(super) body: u8,
    pub(super) created: u8,
    pub(super) marks: bool,
    pub(super) state: CellState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CellState {
    Held { until: u8, given_up: bool, point: u8 },
    Done { reply: Token, completed: u8, expires: u8 },
}

impl Cell {
    pub(super) fn point(&self) -> u8 {
        match self.state {
            CellState::Held { point, .. } => point,
            CellState::Done { .. } => 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, CellState::Done { .. })
    }
}

pub(super) fn ticks(ticks: u8) -> Duration {
    SECOND * u32::from(ticks)
}

pub(super) fn at(tick: u8) -> Timestamp {
    Timestamp::from_unix_micros(0).after(ticks(tick))
}

fn tick(at: Timestamp) -> u8 {
    u8::try_from(at.as_unix_micros() / 1_000_000).unwrap()
}

/// A claim of the search: by this owner, with this body.
pub(super) fn asked(owner: u8, body: u8, marks: bool) -> Ask {
    let mut ask = ask(owner).body(body);
    ask.input = None;
    ask.marks_begun = marks;
    ask.lease = ticks(LEASE);
    ask.retention = Retention::of(ticks(RETENTION));
    ask
}

/// The one key of the search.
pub(super) static NAMES: LazyLock<(Scope, Key, OperationName)> = LazyLock::new(|| {
    let operation = OperationName::new("charge").unwrap();
    (Scope::new("s").unwrap(), Key::new("k").unwrap(), operation)
});

pub(super) fn fence(token: Token) -> Fence {
    let (scope, key, _) = &*NAMES;
    Fence {
        scope: scope.clone(),
        key: key.clone(),
        incarnation: Incarnation::from_bytes([token.life; 16]),
        attempt: u32::from(token.attempt),
        owner: ask(token.owner).owner,
    }
}

pub(super) fn token(fence: &Fence) -> Token {
    Token {
        life: fence.incarnation.as_bytes()[0],
        attempt: u8::try_from(fence.attempt).unwrap(),
        owner: fence.owner.as_bytes()[0],
    }
}

pub(super) fn recovery(point: u8) -> Recovery {
    Recovery { number: u32::from(point), payload: bytes("") }
}

pub(super) fn reply(of: Token) -> Sealed {
    Sealed::from_bytes(vec![of.life, of.attempt, of.owner])
}

pub(super) fn reply_token(reply: &Sealed) -> Token {
    let [life, attempt, owner] = *reply.as_bytes() else { panic!("a reply of the search") };
    Token { life, attempt, owner }
}

pub(super) fn record(cell: &Cell) -> Record {
    let Fence { scope, key, incarnation, attempt, owner } = fence(cell.under);
    let state = match cell.state {
        CellState::Held { until, given_up, point } => State::InProgress {
            locked_until: at(until),
            given_up,
            recovery: (point > 0).then(|| recovery(point)),
        },
        CellState::Done { reply: of, completed, expires } => State::Completed {
            reply: reply(of),
            completed_at: at(completed),
            expires_at: Some(at(expires)),
        },
    };
    Record {
        scope,
        key,
        operation: NAMES.2.clone(),
        fingerprint: print(cell.body),
        input: None,
        attempt,
        owner,
        incarnation,
        created_at: at(cell.created),
        retention: Retention::of(ticks(RETENTION)),
        marks_begun: cell.marks,
        state,
    }
}

pub(super) fn cell(record: &Record) -> Cell {
    let state = match &record.state {
        State::InProgress { locked_until, given_up, recovery } => CellState::Held {
            until: tick(*locked_until),
            given_up: *given_up,
            point: recovery.as_ref().map_or(0, |point| u8::try_from(point.number).unwrap()),
        },
        State::Completed { reply, completed_at, expires_at } => CellState::Done {
            reply: reply_token(reply),
            completed: tick(*completed_at),
            expires: tick(expires_at.expect("the search keeps nothing for ever")),
        },
    };
    Cell {
        under: token(&record.fence()),
        body: record.fingerprint.digest()[0],
        created: tick(record.created_at),
        marks: record.marks_begun,
        state,
    }
}
