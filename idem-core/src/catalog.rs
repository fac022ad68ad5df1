//! The operations of a service, each classified where it is registered.

use std::fmt;

use serde::Serialize;

use crate::key::{Name, NameError, check_length};
use crate::operation::Operation;

/// How an operation bears being sent twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "class")]
#[non_exhaustive]
pub enum Class {
    /// Sending it twice is the same as sending it once: a PUT that sets state, a DELETE.
    NaturallyIdempotent,
    /// It is safe under a key.
    Keyed {
        /// How long after the first request a retry under the key is safe, in seconds; absent
        /// is for ever.
        #[serde(skip_serializing_if = "Option::is_none")]
        lifetime_seconds: Option<u64>,
    },
    /// It is deliberately not safe to send twice.
    NotIdempotent {
        /// Why.
        reason: String,
    },
}

/// One operation of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its name, unique in the catalogue.
    pub name: String,
    /// How it bears being sent twice.
    #[serde(flatten)]
    pub class: Class,
}

/// The operations of a service. It prints as a table, serializes for an API document, and refuses
/// an operation that is not idempotent without a reason.
///
/// ```
/// use idem_core::catalog::Catalog;
/// use idem_core::operation::Operation;
///
/// let charge = Operation::builder("charges.create").build()?;
/// let mut catalog = Catalog::new();
/// catalog.keyed(&charge)?;
/// catalog.naturally_idempotent("charges.list")?;
/// catalog.not_idempotent("tickets.draw", "each draw must give a new number")?;
/// assert_eq!(catalog.entries().len(), 3);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct Catalog {
    entries: Vec<Entry>,
}

impl Catalog {
    /// An empty catalogue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation that is safe under a key.
    ///
    /// # Errors
    /// [`CatalogError`] when the name is there already.
    pub fn keyed(&mut self, operation: &Operation) -> Result<(), CatalogError> {
        let lifetime_seconds = operation.published_lifetime().map(|lifetime| lifetime.as_secs());
        self.add(operation.name().as_str(), Class::Keyed { lifetime_seconds })
    }

    /// Adds an operation that needs no key.
    ///
    /// # Errors
    /// [`CatalogError`] when the name is there already, or is refused.
    pub fn naturally_idempotent(&mut self, name: &str) -> Result<(), CatalogError> {
        self.add(name, Class::NaturallyIdempotent)
    }

    /// Adds an operation that is deliberately not idempotent.
    ///
    /// # Errors
    /// [`CatalogError`] when the reason says nothing, or the name is there already or is refused.
    pub fn not_idempotent(&mut self, name: &str, reason: &str) -> Result<(), CatalogError> {
        if reason.trim().is_empty() {
            return Err(CatalogError::NoReason);
        }
        self.add(name, Class::NotIdempotent { reason: reason.into() })
    }

    /// What was added, in that order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn add(&mut self, name: &str, class: Class) -> Result<(), CatalogError> {
        check_length(Name::Operation, name.as_bytes())?;
        if self.entries.iter().any(|entry| entry.name == name) {
            return Err(CatalogError::Twice { name: name.into() });
        }
        self.entries.push(Entry { name: name.into(), class });
        Ok(())
    }
}

impl fmt::Display for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        for Entry { name, class } in &self.entries {
            write!(f, "{name:width$}  ")?;
            match class {
                Class::NaturallyIdempotent => writeln!(f, "naturally idempotent")?,
                Class::Keyed { lifetime_seconds: Some(seconds) } => {
                    writeln!(f, "keyed, safe to retry for {seconds} s")?;
                }
                Class::Keyed { lifetime_seconds: None } => {
                    writeln!(f, "keyed, safe to retry for ever")?;
                }
                Class::NotIdempotent { reason } => writeln!(f, "NOT idempotent: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Why an operation was not taken into a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Its name was refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name is there already.
    #[error("the operation {name:?} is in the catalogue already")]
    Twice {
        /// The name.
        name: String,
    },
    /// An operation that is not idempotent says why.
    #[error("an operation that is not idempotent needs a reason")]
    NoReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_required_and_names_are_unique() {
        let mut catalog = Catalog::new();
        assert_eq!(catalog.not_idempotent("draw", " \t"), Err(CatalogError::NoReason));
        assert!(matches!(catalog.naturally_idempotent(""), Err(CatalogError::Name(_))));
        catalog.naturally_idempotent("list").unwrap();
        assert!(matches!(catalog.naturally_idempotent("list"), Err(CatalogError::Twice { .. })));
        catalog.not_idempotent("draw", "a new number each time").unwrap();
        assert_eq!(
            catalog.to_string(),
            "list  naturally idempotent\ndraw  NOT idempotent: a new number each time\n"
        );
        assert_eq!(
            serde_json::to_value(&catalog).unwrap()[1],
            serde_json::json!({
                "name": "draw", "class": "not_idempotent", "reason": "a new number each time"
            })
        );
    }
}
