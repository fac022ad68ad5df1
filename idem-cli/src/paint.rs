//! Colours, on a terminal only.

use std::io::{IsTerminal as _, stdout};

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// With the colours that every terminal has.
    Colours,
    /// As it is.
    Plain,
}

impl Paint {
    /// Colours when standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if stdout().is_terminal() && !refused { Self::Colours } else { Self::Plain }
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.wrapped("1", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.wrapped("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.wrapped("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.wrapped("1;31", text)
    }

    fn wrapped(self, code: &str, text: &str) -> String {
        match self {
            Self::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(Paint::Plain.bad("FAILED"), "FAILED");
        assert_eq!(Paint::Colours.good("ok"), "\x1b[32mok\x1b[0m");
    }
}
