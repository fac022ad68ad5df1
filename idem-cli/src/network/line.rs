//! The lines of a ledger file: one JSON object each, ended by a line feed.

use serde::{Deserialize, Serialize};

use super::charge::ChargeRequest;

/// The version of the format, in the first line of every ledger.
pub(super) const VERSION: u32 = 1;

/// The most bytes of one line, its line feed included. A request is limited so that its line is
/// always shorter.
pub(super) const MAX_LINE_BYTES: usize = 32 * 1024;

/// One line. The file is only ever appended to, so its order is the order of events.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// The first line of the file.
    Ledger { version: u32 },
    /// A call arrived. Nothing is said about what came of it.
    Call { number: u64, key: String, caller: String, at_ms: u64 },
    /// An effect: the card was charged.
    Charge(Settlement),
    /// The key was declined for good.
    Decline(Settlement),
}

/// What became final for a key, and which call brought it about.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settlement {
    pub(super) call: u64,
    pub(super) key: String,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) request: ChargeRequest,
}

impl Line {
    pub(super) const HEADER: Self = Self::Ledger { version: VERSION };

    /// The bytes as they stand in the file, line feed included.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a line has string keys and plain values");
        bytes.push(b'\n');
        debug_assert!(bytes.len() <= MAX_LINE_BYTES);
        bytes
    }

    /// Reads a line, with or without its line feed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::charge::{MAX_AMOUNT, MAX_DESCRIPTION_BYTES, MAX_NAME_BYTES};

    #[test]
    fn the_header_is_frozen() {
        assert_eq!(Line::HEADER.to_bytes(), b"{\"ledger\":{\"version\":1}}\n");
    }

    #[test]
    fn the_longest_line_is_within_the_limit_and_has_one_line_feed() {
        // A control character takes six bytes as JSON: nothing grows more.
        let longest = |bytes| "\n".repeat(bytes);
        let settlement = Settlement {
            call: u64::MAX,
            key: longest(MAX_NAME_BYTES),
            id: longest(MAX_NAME_BYTES),
            created: u64::MAX,
            request: ChargeRequest {
                caller: longest(MAX_NAME_BYTES),
                amount: MAX_AMOUNT,
                currency: "eur".into(),
                description: Some(longest(MAX_DESCRIPTION_BYTES)),
                reference: Some(longest(MAX_NAME_BYTES)),
            },
        };
        let line = Line::Decline(settlement);
        let bytes = line.to_bytes();
        assert!(bytes.len() <= MAX_LINE_BYTES, "{} bytes", bytes.len());
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(Line::from_bytes(&bytes).unwrap() == line);
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for text in [
            r#"{"call":{"number":1,"key":"k","caller":"c","at_ms":1,"more":1}}"#,
            r#"{"call":{"number":1,"key":"k","caller":"c"}}"#,
            r#"{"refund":{}}"#,
            r#"{"ledger":{"version":1}} {"ledger":{"version":1}}"#,
            "",
        ] {
            assert!(Line::from_bytes(text.as_bytes()).is_err(), "{text}");
        }
    }
}
