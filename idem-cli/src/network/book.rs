//! What the lines of a ledger add up to. No file, no clock: lines in, totals out.

use std::collections::HashMap;
use std::sync::Arc;

use super::charge::{Charge, LedgerEntry, LedgerView};
use super::line::{Line, Settlement};

/// A call as it arrived.
pub(super) struct Call {
    pub(super) key: Arc<str>,
    pub(super) caller: Arc<str>,
    pub(super) at_ms: u64,
}

/// What is final for a key.
pub(super) enum Settled {
    Charged(Arc<Settlement>),
    Declined(Arc<Settlement>),
}

impl Settled {
    pub(super) fn settlement(&self) -> &Settlement {
        let (Self::Charged(settlement) | Self::Declined(settlement)) = self;
        settlement
    }
}

/// All calls and effects, in order.
#[derive(Default)]
pub(super) struct Book {
    calls: Vec<Call>,
    charges: Vec<Arc<Settlement>>,
    declines: Vec<Arc<Settlement>>,
    keys: HashMap<Arc<str>, KeyEntry>,
}

#[derive(Default)]
struct KeyEntry {
    calls: u64,
    settled: Option<Settled>,
}

/// A line that contradicts those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// The call's number is not the one after the last call's.
    #[error("a call is missing before it, or it stands twice")]
    CallNumber,
    /// The file's first line, anywhere else.
    #[error("it belongs at the start of a ledger only")]
    Header,
    /// It settles a call that is not in the ledger, or that had another key.
    #[error("no call with this number and key stands before it")]
    NoCall,
    /// Its key already has a charge or a decline: a second effect.
    #[error("its key was already settled")]
    SecondEffect,
}

impl Book {
    /// Adds a line. One that contradicts the others changes nothing.
    pub(super) fn add(&mut self, line: Line) -> Result<(), Contradiction> {
        match line {
            Line::Ledger { .. } => Err(Contradiction::Header),
            Line::Call { number, key, caller, at_ms } => {
                if number != self.next_call() {
                    return Err(Contradiction::CallNumber);
                }
                let key = self.key(&key);
                self.keys.entry(key.clone()).or_default().calls += 1;
                self.calls.push(Call { key, caller: caller.into(), at_ms });
                Ok(())
            }
            Line::Charge(settlement) => {
                let settlement = Arc::new(settlement);
                self.settle(&settlement, Settled::Charged(settlement.clone()))?;
                self.charges.push(settlement);
                Ok(())
            }
            Line::Decline(settlement) => {
                let settlement = Arc::new(settlement);
                self.settle(&settlement, Settled::Declined(settlement.clone()))?;
                self.declines.push(settlement);
                Ok(())
            }
        }
    }

    /// The number that the next call must have. Calls count from 1.
    pub(super) fn next_call(&self) -> u64 {
        self.calls.len() as u64 + 1
    }

    /// What is final for this key, if anything.
    pub(super) fn settled(&self, key: &str) -> Option<&Settled> {
        self.keys.get(key)?.settled.as_ref()
    }

    /// The charge of a settlement, with the number of calls that its key has had.
    pub(super) fn charge(&self, settlement: &Settlement) -> Charge {
        Charge {
            id: settlement.id.clone(),
            created: settlement.created,
            calls: self.keys.get(settlement.key.as_str()).map_or(0, |entry| entry.calls),
            request: settlement.request.clone(),
        }
    }

    /// All calls, in order; the first has number 1.
    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Totals, and the charges from `after` on, at most `limit`; for one caller or all.
    pub(super) fn view(&self, caller: Option<&str>, after: usize, limit: usize) -> LedgerView {
        let wanted = |name: &str| caller.is_none_or(|caller| caller == name);
        let of_caller = |all: &[Arc<Settlement>]| {
            all.iter().filter(|settlement| wanted(&settlement.request.caller)).count()
        };
        let effects = of_caller(&self.charges);
        let data: Vec<_> = self
            .charges
            .iter()
            .filter(|settlement| wanted(&settlement.request.caller))
            .skip(after)
            .take(limit)
            .map(|settlement| LedgerEntry {
                key: settlement.key.clone(),
                charge: self.charge(settlement),
            })
            .collect();
        LedgerView {
            calls: self.calls.iter().filter(|call| wanted(&call.caller)).count() as u64,
            effects: effects as u64,
            refused: of_caller(&self.declines) as u64,
            has_more: after.saturating_add(data.len()) < effects,
            data,
        }
    }

    fn settle(&mut self, settlement: &Settlement, settled: Settled) -> Result<(), Contradiction> {
        let index = settlement.call.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let call = index.and_then(|index| self.calls.get(index));
        if call.is_none_or(|call| *call.key != *settlement.key) {
            return Err(Contradiction::NoCall);
        }
        let entry = self.keys.entry(settlement.key.as_str().into()).or_default();
        if entry.settled.is_some() {
            return Err(Contradiction::SecondEffect);
        }
        entry.settled = Some(settled);
        Ok(())
    }

    /// The one copy of a key.
    fn key(&self, key: &str) -> Arc<str> {
        self.keys.get_key_value(key).map_or_else(|| key.into(), |(key, _)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::charge::ChargeRequest;

    fn call(number: u64, key: &str, caller: &str) -> Line {
        Line::Call { number, key: key.into(), caller: caller.into(), at_ms: 0 }
    }

    fn settlement(call: u64, key: &str, caller: &str) -> Settlement {
        let request = ChargeRequest {
            caller: caller.into(),
            amount: 5,
            currency: "eur".into(),
            description: None,
            reference: None,
        };
        Settlement { call, key: key.into(), id: format!("ch_{call}"), created: 0, request }
    }

    #[test]
    fn calls_and_effects_are_counted_apart() {
        let mut book = Book::default();
        book.add(call(1, "a", "x")).unwrap();
        book.add(Line::Charge(settlement(1, "a", "x"))).unwrap();
        book.add(call(2, "a", "x")).unwrap();
        book.add(call(3, "b", "y")).unwrap();
        book.add(call(4, "c", "y")).unwrap();
        book.add(Line::Decline(settlement(4, "c", "y"))).unwrap();

        let all = book.view(None, 0, 10);
        assert_eq!((all.calls, all.effects, all.refused, all.has_more), (4, 1, 1, false));
        assert_eq!((all.data[0].key.as_str(), all.data[0].charge.calls), ("a", 2));
        let y = book.view(Some("y"), 0, 10);
        assert_eq!((y.calls, y.effects, y.refused, y.data.len()), (2, 0, 1, 0));
    }

    #[test]
    fn a_view_is_paged() {
        let mut book = Book::default();
        for (number, key) in [(1, "a"), (2, "b"), (3, "c")] {
            book.add(call(number, key, "x")).unwrap();
            book.add(Line::Charge(settlement(number, key, "x"))).unwrap();
        }
        let page = |after, limit| {
            let view = book.view(Some("x"), after, limit);
            let ids: Vec<_> = view.data.iter().map(|entry| entry.charge.id.clone()).collect();
            (ids.join(" "), view.has_more, view.effects)
        };
        assert_eq!(page(0, 2), ("ch_1 ch_2".into(), true, 3));
        assert_eq!(page(2, 2), ("ch_3".into(), false, 3));
        assert_eq!(page(usize::MAX, 2), (String::new(), false, 3));
    }

    #[test]
    fn contradictions_are_refused_and_change_nothing() {
        let mut book = Book::default();
        book.add(call(1, "a", "x")).unwrap();
        for (line, contradiction) in [
            (Line::HEADER, Contradiction::Header),
            (call(1, "b", "x"), Contradiction::CallNumber),
            (call(3, "b", "x"), Contradiction::CallNumber),
            (Line::Charge(settlement(0, "a", "x")), Contradiction::NoCall),
            (Line::Charge(settlement(2, "a", "x")), Contradiction::NoCall),
            (Line::Charge(settlement(1, "b", "x")), Contradiction::NoCall),
        ] {
            assert_eq!(book.add(line), Err(contradiction));
        }
        book.add(Line::Decline(settlement(1, "a", "x"))).unwrap();
        let second = Line::Charge(settlement(1, "a", "x"));
        assert_eq!(book.add(second), Err(Contradiction::SecondEffect));
        let view = book.view(None, 0, 10);
        assert_eq!((view.calls, view.effects, view.refused), (1, 0, 1));
    }
}
