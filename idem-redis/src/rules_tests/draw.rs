//! Random records and calls from a seed. Values come from small sets, so that they often agree.

use std::time::Duration;

use idem_core::claim::Takeover;
use idem_core::codec::Sealed;
use idem_core::fingerprint::{Fingerprint, Fingerprints, Scheme};
use idem_core::key::{Key, Scope};
use idem_core::record::{
    Fence, Incarnation, OperationName, Owner, Record, Recovery, Retention, State,
};
use idem_core::time::{MAX_DURATION, Timestamp, micros};

/// A generator (SplitMix64) whose seed is printed by the test that uses it.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub(crate) fn owner(&mut self) -> Owner {
        Owner::from_bytes([self.pick(&[1, 2, 0, 10]); 16])
    }

    pub(crate) fn incarnation(&mut self) -> Incarnation {
        Incarnation::from_bytes([self.pick(&[7, 0, 13]); 16])
    }

    pub(crate) fn attempt(&mut self) -> u32 {
        self.pick(&[1, 1, 2, 3, u32::MAX - 1, u32::MAX])
    }

    pub(crate) fn operation(&mut self) -> OperationName {
        OperationName::new(self.pick(&["charge", "charge", "charge", "refund"])).unwrap()
    }

    pub(crate) fn sealed(&mut self) -> Sealed {
        Sealed::from_bytes(self.pick(&[&b"a"[..], b"b", b"\r\n\0\xff", b"1e3"]).to_vec())
    }

    pub(crate) fn fingerprint(&mut self) -> Fingerprint {
        match self.below(6) {
            0 => Fingerprint::not_compared(),
            1 => Fingerprint::from_parts(Scheme::from_byte(2), [self.pick(&[1, 2]); 32]),
            2 => Fingerprint::from_parts(Scheme::from_byte(255), [0; 32]),
            _ => Fingerprint::from_parts(Scheme::V1, [self.pick(&[1, 1, 2]); 32]),
        }
    }

    pub(crate) fn fingerprints(&mut self) -> Fingerprints {
        let prints = Fingerprints::new(self.fingerprint());
        if self.one_in(2) { prints.also(self.fingerprint()) } else { prints }
    }

    pub(crate) fn duration(&mut self) -> Duration {
        self.pick(&[
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(1),
            Duration::from_micros(1_234_567),
            Duration::from_secs(30),
            Duration::from_secs(7_200),
            MAX_DURATION,
            Duration::MAX,
        ])
    }

    /// In whole microseconds, as a store keeps it.
    pub(crate) fn retention(&mut self) -> Retention {
        let whole = |duration| Duration::from_micros(micros(duration).unsigned_abs());
        match self.below(4) {
            0 => Retention::Forever,
            _ => Retention::at_least(whole(self.duration()), whole(self.duration())),
        }
    }

    pub(crate) fn recovery(&mut self) -> Recovery {
        Recovery { number: self.pick(&[1, 1, 2, 3, u32::MAX]), payload: self.sealed() }
    }

    /// An instant around `now`: within an hour, often within microseconds, or before it by one
    /// of the durations, so that what is counted from it ends now.
    pub(crate) fn instant(&mut self, now: Timestamp) -> Timestamp {
        if self.one_in(4) {
            let before = self.duration().min(Duration::from_secs(7_200));
            return Timestamp::from_unix_micros(now.as_unix_micros() - micros(before));
        }
        let spread = self.pick(&[1, 1, 10, 1_000, 50_000, 3_600_000_000]);
        let offset = i64::try_from(self.next() % (2 * spread + 1)).unwrap() - spread as i64;
        Timestamp::from_unix_micros(now.as_unix_micros() + offset)
    }

    pub(crate) fn record(&mut self, scope: &Scope, key: &Key, now: Timestamp) -> Record {
        let state = if self.one_in(3) {
            State::Completed {
                reply: self.sealed(),
                completed_at: self.instant(now),
                expires_at: (!self.one_in(4)).then(|| self.instant(now)),
            }
        } else {
            State::InProgress {
                locked_until: self.instant(now),
                given_up: self.one_in(4),
                recovery: self.one_in(2).then(|| self.recovery()),
            }
        };
        let in_progress = matches!(state, State::InProgress { .. });
        Record {
            scope: scope.clone(),
            key: key.clone(),
            operation: self.operation(),
            fingerprint: self.fingerprint(),
            input: (in_progress && self.one_in(2)).then(|| self.sealed()),
            attempt: self.attempt(),
            owner: self.owner(),
            incarnation: self.incarnation(),
            created_at: self.instant(now),
            retention: self.retention(),
            marks_begun: self.one_in(2),
            state,
        }
    }

    pub(crate) fn takeover(&mut self, found: Option<&Record>) -> Takeover {
        match self.below(4) {
            0 => Takeover::Never,
            1 | 2 => Takeover::Below {
                attempts: self.pick(&[0, 1, 2, 3, 4, u32::MAX]),
                younger_than: self.duration(),
            },
            _ => Takeover::Only {
                incarnation: match found {
                    Some(record) if !self.one_in(3) => record.incarnation,
                    _ => self.incarnation(),
                },
                attempt: match found {
                    Some(record) if !self.one_in(3) => record.attempt,
                    _ => self.attempt(),
                },
                younger_than: self.one_in(2).then(|| self.duration()),
            },
        }
    }

    /// Mostly the record's own fence, sometimes wrong in one part.
    pub(crate) fn fence(&mut self, scope: &Scope, key: &Key, found: Option<&Record>) -> Fence {
        let mut fence = Fence {
            scope: scope.clone(),
            key: key.clone(),
            incarnation: self.incarnation(),
            attempt: self.attempt(),
            owner: self.owner(),
        };
        if let Some(record) = found {
            let wrong = self.below(8);
            if wrong != 0 {
                fence.incarnation = record.incarnation;
            }
            if wrong != 1 {
                fence.attempt = record.attempt;
            }
            if wrong != 2 {
                fence.owner = record.owner;
            }
        }
        fence
    }
}

/// A seed that the run prints; set IDEM_SEED to run it again.
pub(crate) fn fresh_seed() -> u64 {
    match std::env::var("IDEM_SEED") {
        Ok(seed) => seed.parse().expect("IDEM_SEED is a number"),
        Err(_) => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        }
    }
}
