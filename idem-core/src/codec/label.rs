//! The short names that stand in a frame: a namespace, a secret's id, a step's name.

use std::fmt;

use crate::key::{MAX_NAME_BYTES, NameFault};

/// Why a namespace, a secret's id or a step's name was refused. It never holds the text itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label} {fault}")]
pub struct LabelError {
    /// What was being named.
    pub label: Label,
    /// What is wrong with it.
    pub fault: NameFault,
}

/// What a [`LabelError`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// A [`Namespace`](crate::downstream::Namespace).
    Namespace,
    /// A [`SecretId`](crate::seal::SecretId).
    SecretId,
    /// The name of a [`Step`](crate::progress::Step).
    Step,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "namespace",
            Self::SecretId => "secret id",
            Self::Step => "step name",
        })
    }
}

/// 1 to 255 bytes of UTF-8.
pub(crate) fn check_text(label: Label, text: &str) -> Result<(), LabelError> {
    match text.len() {
        0 => Err(LabelError { label, fault: NameFault::Empty }),
        1..=MAX_NAME_BYTES => Ok(()),
        bytes => Err(LabelError { label, fault: NameFault::TooLong { bytes } }),
    }
}

/// 1 to 255 bytes of printable ASCII without a space (0x21 to 0x7E).
pub(crate) fn check_graphic(label: Label, text: &str) -> Result<(), LabelError> {
    check_text(label, text)?;
    match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
        Some(at) => Err(LabelError { label, fault: NameFault::NotPrintable { at } }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_the_length_are_checked() {
        assert_eq!(check_text(Label::Step, "").unwrap_err().fault, NameFault::Empty);
        assert!(check_text(Label::Step, "é").is_ok());
        assert!(check_text(Label::Step, &"s".repeat(255)).is_ok());
        let error = check_text(Label::Step, &"é".repeat(128)).unwrap_err();
        assert_eq!(error.fault, NameFault::TooLong { bytes: 256 });
        assert_eq!(error.to_string(), "step name has 256 bytes; the limit is 255");
    }

    #[test]
    fn an_id_is_graphic_ascii() {
        assert!(check_graphic(Label::SecretId, "2026-11/a").is_ok());
        for bad in ["a b", "a\n", "ké", "\u{7f}"] {
            let fault = check_graphic(Label::SecretId, bad).unwrap_err().fault;
            assert!(matches!(fault, NameFault::NotPrintable { .. }), "{bad:?}");
        }
    }
}
