//! What travels between a card network and its caller: a charge asked for, and a charge made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest amount, in minor units.
pub const MAX_AMOUNT: u64 = i64::MAX as u64;
/// The most bytes of a caller's name and of a reference.
pub const MAX_NAME_BYTES: usize = 255;
/// The most bytes of a description.
pub const MAX_DESCRIPTION_BYTES: usize = 1_000;

/// A charge that a caller asks the card network for.
///
/// Two calls under one key ask for the same only if all of this is equal. `Debug` shows none of
/// it (R24).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChargeRequest {
    /// Who asks: 1 to 255 bytes. The ledger can be read for one caller.
    pub caller: String,
    /// How much, in minor units (cents): 1 to [`MAX_AMOUNT`].
    pub amount: u64,
    /// Three ASCII letters, such as `eur`. Kept as written.
    pub currency: String,
    /// What for: at most 1,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The caller's own name for it: at most 255 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl ChargeRequest {
    /// Checks every limit that the fields name.
    ///
    /// # Errors
    /// [`ChargeFault`] for the first that does not hold.
    pub fn check(&self) -> Result<(), ChargeFault> {
        let within = |text: &Option<String>, limit| text.as_ref().is_none_or(|t| t.len() <= limit);
        let currency = self.currency.as_bytes();
        if !(1..=MAX_NAME_BYTES).contains(&self.caller.len()) {
            Err(ChargeFault::Caller)
        } else if !(1..=MAX_AMOUNT).contains(&self.amount) {
            Err(ChargeFault::Amount)
        } else if currency.len() != 3 || !currency.iter().all(u8::is_ascii_alphabetic) {
            Err(ChargeFault::Currency)
        } else if !within(&self.description, MAX_DESCRIPTION_BYTES) {
            Err(ChargeFault::Description)
        } else if !within(&self.reference, MAX_NAME_BYTES) {
            Err(ChargeFault::Reference)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for ChargeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChargeRequest").finish_non_exhaustive()
    }
}

/// What is wrong with a [`ChargeRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeFault {
    /// The amount is 0 or larger than [`MAX_AMOUNT`].
    #[error("amount must be 1 to {MAX_AMOUNT} minor units")]
    Amount,
    /// The caller's name is empty or too long.
    #[error("caller must have 1 to {MAX_NAME_BYTES} bytes")]
    Caller,
    /// The currency is not three ASCII letters.
    #[error("currency must be three ASCII letters")]
    Currency,
    /// The description is too long.
    #[error("description must have at most {MAX_DESCRIPTION_BYTES} bytes")]
    Description,
    /// The reference is too long.
    #[error("reference must have at most {MAX_NAME_BYTES} bytes")]
    Reference,
}

/// A charge that the card network made: one effect.
///
/// `Debug` shows its id only (R24).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The network's name for it: `ch_` and 24 hexadecimal digits.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// How many calls have used its key so far, the ones that changed nothing included.
    pub calls: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub request: ChargeRequest,
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A charge as the ledger lists it: with the downstream key that it was made under.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The downstream key.
    pub key: String,
    /// The charge.
    #[serde(flatten)]
    pub charge: Charge,
}

impl fmt::Debug for LedgerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerEntry").field("id", &self.charge.id).finish_non_exhaustive()
    }
}

/// What the ledger holds, for everybody or for one caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// How many calls arrived.
    pub calls: u64,
    /// How many charges were made.
    pub effects: u64,
    /// How many keys were declined for good.
    pub refused: u64,
    /// Whether charges after the last one in `data` were left out.
    pub has_more: bool,
    /// The charges, in the order in which they were made.
    pub data: Vec<LedgerEntry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ChargeRequest {
        ChargeRequest {
            caller: "shop".into(),
            amount: 1,
            currency: "eur".into(),
            description: None,
            reference: None,
        }
    }

    #[test]
    fn every_limit_is_checked_at_both_ends() {
        let with = |change: &dyn Fn(&mut ChargeRequest)| {
            let mut request = request();
            change(&mut request);
            request.check()
        };
        let long = |bytes| Some("x".repeat(bytes));
        assert_eq!(with(&|_| ()), Ok(()));
        assert_eq!(with(&|r| r.amount = MAX_AMOUNT), Ok(()));
        assert_eq!(with(&|r| r.amount = 0), Err(ChargeFault::Amount));
        assert_eq!(with(&|r| r.amount = MAX_AMOUNT + 1), Err(ChargeFault::Amount));
        assert_eq!(with(&|r| r.caller.clear()), Err(ChargeFault::Caller));
        assert_eq!(with(&|r| r.caller = "x".repeat(255)), Ok(()));
        assert_eq!(with(&|r| r.caller = "x".repeat(256)), Err(ChargeFault::Caller));
        for currency in ["", "eu", "euro", "e1r", "eé"] {
            assert_eq!(with(&|r| r.currency = currency.into()), Err(ChargeFault::Currency));
        }
        assert_eq!(with(&|r| r.description = long(1_000)), Ok(()));
        assert_eq!(with(&|r| r.description = long(1_001)), Err(ChargeFault::Description));
        assert_eq!(with(&|r| r.reference = long(255)), Ok(()));
        assert_eq!(with(&|r| r.reference = long(256)), Err(ChargeFault::Reference));
    }

    #[test]
    fn json_has_one_flat_object_and_refuses_what_it_does_not_know() {
        let entry = LedgerEntry {
            key: "k".into(),
            charge: Charge { id: "ch_1".into(), created: 7, calls: 2, request: request() },
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            text,
            r#"{"key":"k","id":"ch_1","created":7,"calls":2,"caller":"shop","amount":1,"currency":"eur"}"#
        );
        assert!(serde_json::from_str::<LedgerEntry>(&text).unwrap() == entry);
        let surplus = r#"{"caller":"a","amount":1,"currency":"eur","amuont":2}"#;
        assert!(serde_json::from_str::<ChargeRequest>(surplus).is_err());
        for amount in ["-1", "1.5", "\"1\"", "1e3"] {
            let text = format!(r#"{{"caller":"a","amount":{amount},"currency":"eur"}}"#);
            assert!(serde_json::from_str::<ChargeRequest>(&text).is_err(), "{amount}");
        }
    }

    #[test]
    fn debug_shows_neither_key_nor_payload() {
        let entry = LedgerEntry {
            key: "secret-key".into(),
            charge: Charge { id: "ch_1".into(), created: 7, calls: 2, request: request() },
        };
        let shown = format!("{entry:?} {:?} {:?}", entry.charge, entry.charge.request);
        assert!(!shown.contains("secret-key") && !shown.contains("shop"), "{shown}");
        assert!(shown.contains("ch_1"));
    }
}
