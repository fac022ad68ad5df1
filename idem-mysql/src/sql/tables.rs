//! What the tables are called.

use idem_core::error::{ErrorKind, StoreError, Verb};

/// The most bytes of a table prefix. With what is added it stays under the 64 characters of a
/// name.
const MAX_PREFIX_BYTES: usize = 40;

/// The tables' names. They lie in the database that the connection names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) prefix: String,
    /// One row for each record.
    pub(crate) records: String,
    /// One row for each message.
    pub(crate) outbox: String,
    /// One row for each ordering key that was ever pushed under.
    pub(crate) outbox_keys: String,
    /// One row for each migration that was applied.
    pub(crate) versions: String,
}

impl Tables {
    /// The prefix is 1 to 40 of `a`-`z`, `0`-`9` and `_`, the first one a letter or `_`.
    pub(crate) fn new(prefix: &str) -> Result<Self, StoreError> {
        if !is_plain(prefix) {
            let detail = "a table prefix is 1 to 40 of a-z, 0-9 and _, and does not begin with a \
                          digit";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
            records: format!("{prefix}_records"),
            outbox: format!("{prefix}_outbox"),
            outbox_keys: format!("{prefix}_outbox_keys"),
            versions: format!("{prefix}_schema"),
        })
    }

    /// A migration's text, which is written for the prefix `idem`, for this one.
    pub(crate) fn rename(&self, text: &str) -> String {
        text.replace("idem_", &format!("{}_", self.prefix))
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    (1..=MAX_PREFIX_BYTES).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_nothing_else() {
        for good in ["idem", "_a", "app_1", &"x".repeat(40)] {
            assert!(Tables::new(good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "Idem", "a b", "a;b", "a`b", "é", "a.b", &"x".repeat(41)] {
            assert_eq!(Tables::new(bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn a_migration_is_renamed_whole() {
        let tables = Tables::new("retry").unwrap();
        let text = "CREATE TABLE idem_records (KEY idem_records_sweep (sweep_after))";
        let expected = "CREATE TABLE retry_records (KEY retry_records_sweep (sweep_after))";
        assert_eq!(tables.rename(text), expected);
    }
}
