//! Logs of the binary: to standard error only, so that standard output stays a script's.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// What is logged when nobody says: warnings and errors.
const DEFAULT_FILTER: &str = "warn";

/// Starts logging to standard error, filtered by `IDEM_LOG`, else by `RUST_LOG`, else warnings
/// only. Colours appear on a terminal only, and not when `NO_COLOR` is set.
///
/// # Errors
/// [`LoggingError`] when the filter cannot be read.
pub fn start() -> Result<(), LoggingError> {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter(|variable| std::env::var(variable).ok())?)
        .with_writer(std::io::stderr)
        .with_ansi(colours())
        // By default a closed standard error makes the subscriber panic while it complains.
        .log_internal_errors(false)
        .finish();
    // It fails only where a subscriber is already set: in a test that set its own.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{variable} is not a log filter such as `info` or `idem_cli=debug`")]
pub struct LoggingError {
    variable: &'static str,
    source: tracing_subscriber::filter::ParseError,
}

fn filter(read: impl Fn(&str) -> Option<String>) -> Result<EnvFilter, LoggingError> {
    for variable in ["IDEM_LOG", "RUST_LOG"] {
        if let Some(text) = read(variable).filter(|text| !text.is_empty()) {
            return EnvFilter::try_new(text).map_err(|source| LoggingError { variable, source });
        }
    }
    Ok(EnvFilter::new(DEFAULT_FILTER))
}

fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(variables: &[(&str, &str)]) -> Result<String, String> {
        let read = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, text)| (*text).into())
        };
        filter(read).map(|filter| filter.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_own_variable_comes_first_and_an_empty_one_does_not_count() {
        assert_eq!(filtered(&[]).unwrap(), "warn");
        assert_eq!(filtered(&[("RUST_LOG", "info")]).unwrap(), "info");
        assert_eq!(filtered(&[("RUST_LOG", "info"), ("IDEM_LOG", "debug")]).unwrap(), "debug");
        assert_eq!(filtered(&[("RUST_LOG", "info"), ("IDEM_LOG", "")]).unwrap(), "info");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let error = filtered(&[("IDEM_LOG", "idem=loudest")]).unwrap_err();
        assert!(error.starts_with("IDEM_LOG is not a log filter"), "{error}");
    }
}
