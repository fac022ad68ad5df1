//! Which messages a lease gets: the rule as a pure function. The memory outbox calls it, and each
//! backend's statement is tested against that.

use std::collections::HashSet;

use crate::time::Timestamp;

/// What the rule looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'e> {
    pub(super) number: u64,
    pub(super) ordering_key: Option<&'e str>,
    pub(super) standing: Standing,
    pub(super) bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It waits.
    Waiting {
        /// How often it failed; what never failed is due, whatever the clock says.
        failures: u32,
        due_at: Timestamp,
        leased_until: Option<Timestamp>,
    },
    Dead,
}

/// The numbers of the messages to take. `unsent` gives those that were not sent, by number.
pub(super) fn choose<'e>(
    unsent: impl Iterator<Item = Candidate<'e>> + Clone,
    now: Timestamp,
    limit: usize,
    most_bytes: usize,
    past_dead: bool,
) -> Vec<u64> {
    let mut held_back: HashSet<&str> = unsent
        .clone()
        .filter(|candidate| candidate.standing.is_leased(now))
        .filter_map(|candidate| candidate.ordering_key)
        .collect();
    let mut chosen = Vec::new();
    let mut bytes = 0_usize;
    for candidate in unsent {
        if chosen.len() == limit {
            break;
        }
        let held = candidate.ordering_key.is_some_and(|key| held_back.contains(key));
        if !held && candidate.standing.may_be_taken(now) {
            bytes = bytes.saturating_add(candidate.bytes);
            if bytes > most_bytes && !chosen.is_empty() {
                break;
            }
            chosen.push(candidate.number);
        } else if !(past_dead && candidate.standing == Standing::Dead) {
            held_back.extend(candidate.ordering_key);
        }
    }
    chosen
}

impl Standing {
    pub(super) fn is_leased(self, now: Timestamp) -> bool {
        matches!(self, Self::Waiting { leased_until: Some(until), .. } if until > now)
    }

    fn may_be_taken(self, now: Timestamp) -> bool {
        match self {
            Self::Waiting { failures, due_at, .. } => {
                !self.is_leased(now) && (failures == 0 || due_at <= now)
            }
            Self::Dead => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_000);
    const NEW: Standing = Standing::Waiting { failures: 0, due_at: NOW, leased_until: None };

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_unix_micros(micros)
    }

    fn chosen(past_dead: bool, messages: &[(&'static str, Standing)]) -> Vec<u64> {
        let candidates = (1..).zip(messages).map(|(number, (key, standing))| Candidate {
            number,
            ordering_key: Some(*key).filter(|key| !key.is_empty()),
            standing: *standing,
            bytes: 10,
        });
        choose(candidates, NOW, 100, 1_000, past_dead)
    }

    #[test]
    fn what_waits_is_taken_in_order() {
        assert_eq!(chosen(false, &[("a", NEW), ("", NEW), ("a", NEW), ("b", NEW)]), [1, 2, 3, 4]);
    }

    #[test]
    fn a_key_that_is_held_by_another_gives_nothing_not_even_in_front() {
        let leased = Standing::Waiting { failures: 0, due_at: NOW, leased_until: Some(at(1_001)) };
        let messages = [("a", NEW), ("a", leased), ("a", NEW), ("b", NEW), ("", leased), ("", NEW)];
        assert_eq!(chosen(false, &messages), [4, 6]);
    }

    #[test]
    fn a_lease_that_is_over_at_this_very_instant_is_taken_over() {
        let lapsed = Standing::Waiting { failures: 0, due_at: NOW, leased_until: Some(NOW) };
        assert_eq!(chosen(false, &[("a", lapsed), ("a", NEW)]), [1, 2]);
    }

    #[test]
    fn a_failed_message_holds_back_its_own_key_until_it_is_due() {
        let later = Standing::Waiting { failures: 1, due_at: at(1_001), leased_until: None };
        let due = Standing::Waiting { failures: 1, due_at: NOW, leased_until: None };
        let messages = [("a", NEW), ("a", later), ("a", NEW), ("b", due), ("", later), ("", NEW)];
        assert_eq!(chosen(false, &messages), [1, 4, 6]);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_no_new_message() {
        let ahead = Standing::Waiting { failures: 0, due_at: at(9_000), leased_until: None };
        assert_eq!(chosen(false, &[("a", ahead), ("a", NEW)]), [1, 2]);
    }

    #[test]
    fn a_dead_message_holds_back_its_key_unless_told_otherwise() {
        let messages = [("a", NEW), ("a", Standing::Dead), ("a", NEW), ("", Standing::Dead)];
        assert_eq!(chosen(false, &messages), [1]);
        assert_eq!(chosen(true, &messages), [1, 3]);
    }

    #[test]
    fn a_batch_ends_at_its_bounds_with_one_message_at_least() {
        let many = (1..=5).map(|number| Candidate {
            number,
            ordering_key: None,
            standing: NEW,
            bytes: 10,
        });
        assert_eq!(choose(many.clone(), NOW, 2, 1_000, false), [1, 2]);
        assert_eq!(choose(many.clone(), NOW, 5, 25, false), [1, 2]);
        assert_eq!(choose(many, NOW, 5, 1, false), [1]);
    }
}
