//! What an error comes from, without the request.

use std::error::Error;

/// Further causes than these are not looked at.
const MAX_DEPTH: usize = 32;

/// The text of the innermost error: `Connection refused (os error 111)`. The outer ones say little
/// more than that a request failed, and those of reqwest show its URL, where there may be secrets.
pub(crate) fn cause_of(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source()).take(MAX_DEPTH);
    chain.filter(|error| !shows_a_url(*error)).last().map_or_else(
        || "the request failed, and the client does not say why".to_owned(),
        ToString::to_string,
    )
}

fn shows_a_url(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "reqwest")]
    return error.is::<reqwest::Error>() || error.is::<reqwest_middleware::Error>();
    #[cfg(not(feature = "reqwest"))]
    return {
        let _ = error;
        false
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("sending to http://bank.example/?token=secret")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_innermost_error_is_told() {
        let inner = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(cause_of(&Outer(inner())), inner().to_string());
        assert_eq!(cause_of(&inner()), inner().to_string());
    }
}
