//! What the tables are called.

use idem_core::error::{ErrorKind, StoreError, Verb};

/// The most bytes of a schema's name or of a table prefix. With what is added to a prefix it
/// stays under the 63 bytes at which Postgres cuts names.
const MAX_NAME_BYTES: usize = 40;

/// The tables' names, quoted for use in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) schema_name: String,
    pub(crate) prefix: String,
    /// One row for each record.
    pub(crate) records: String,
    /// One row for each message.
    pub(crate) outbox: String,
    /// One row for each migration that was applied.
    pub(crate) versions: String,
}

impl Tables {
    /// Both names are 1 to 40 of `a`-`z`, `0`-`9` and `_`, the first one a letter or `_`.
    pub(crate) fn new(schema_name: &str, prefix: &str) -> Result<Self, StoreError> {
        if !is_plain(schema_name) || !is_plain(prefix) {
            let detail = "a schema's name and a table prefix are 1 to 40 of a-z, 0-9 and _, \
                          and do not begin with a digit";
            return Err(StoreError::new(ErrorKind::InvalidInput, Verb::Open, detail));
        }
        let table = |name: &str| format!("\"{schema_name}\".{prefix}_{name}");
        Ok(Self {
            schema_name: schema_name.to_owned(),
            prefix: prefix.to_owned(),
            records: table("records"),
            outbox: table("outbox"),
            versions: table("schema"),
        })
    }

    /// A migration's text, which is written for the schema `public` and the prefix `idem`, for
    /// these names.
    pub(crate) fn rename(&self, text: &str) -> String {
        text.replace("idem_", &format!("{}_", self.prefix))
            .replace("public.", &format!("\"{}\".", self.schema_name))
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_nothing_else() {
        for good in ["idem", "_a", "app_1", &"x".repeat(40)] {
            assert!(Tables::new(good, good).is_ok(), "{good}");
        }
        for bad in ["", "1a", "Idem", "a b", "a;b", "a\"b", "é", "a.b", &"x".repeat(41)] {
            for error in [Tables::new(bad, "idem"), Tables::new("public", bad)] {
                assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
            }
        }
    }

    #[test]
    fn a_migration_is_renamed_whole() {
        let tables = Tables::new("billing", "retry").unwrap();
        let text = "CREATE INDEX idem_records_open ON public.idem_records (x)";
        let expected = "CREATE INDEX retry_records_open ON \"billing\".retry_records (x)";
        assert_eq!(tables.rename(text), expected);
    }
}
