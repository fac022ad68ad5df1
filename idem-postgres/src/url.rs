//! Where the database is, by URL.

use idem_core::error::StoreError;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

use crate::config::invalid;

/// The parameter of a URL that says what `behind_transaction_pooler` says, as other clients of
/// Postgres name it.
const POOLER: &str = "pgbouncer";

/// Reads `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?PARAMETERS]`, and what the URL says
/// of a transaction-pooling proxy. The driver's own error shows the URL, and with it the password
/// (R24), so it is not passed on.
pub(crate) fn parse(url: &str) -> Result<(PgConnectOptions, Option<bool>), StoreError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(invalid("the URL does not begin with postgres://"));
    }
    let (url, pooled) = without_pooler(url)?;
    let options: PgConnectOptions =
        url.parse().map_err(|_| invalid("the URL is not one of Postgres"))?;
    Ok((options.application_name("idem").disable_statement_logging(), pooled))
}

/// The URL without our parameter, which the driver does not know.
fn without_pooler(url: &str) -> Result<(String, Option<bool>), StoreError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let mut pooled = None;
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            (POOLER, "true") => pooled = Some(true),
            (POOLER, "false") => pooled = Some(false),
            (POOLER, _) => return Err(invalid("pgbouncer= in the URL is neither true nor false")),
            _ => kept.push(parameter),
        }
    }
    let separator = if kept.is_empty() { "" } else { "?" };
    Ok((format!("{base}{separator}{}", kept.join("&")), pooled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pooler_is_named_in_the_url_and_kept_from_the_driver() {
        for (url, kept, pooled) in [
            ("postgres://h/d", "postgres://h/d", None),
            ("postgres://h/d?pgbouncer=true", "postgres://h/d", Some(true)),
            ("postgres://h/d?pgbouncer=false&a=b", "postgres://h/d?a=b", Some(false)),
            ("postgres://h/d?a=b&pgbouncer=true&c", "postgres://h/d?a=b&c", Some(true)),
            (
                "postgres://h/d?application_name=pgbouncer",
                "postgres://h/d?application_name=pgbouncer",
                None,
            ),
        ] {
            assert_eq!(without_pooler(url).unwrap(), (kept.to_owned(), pooled), "{url}");
        }
        assert_eq!(parse("postgresql://h/d?pgbouncer=true").unwrap().1, Some(true));
    }

    #[test]
    fn a_bad_url_is_refused_and_not_repeated() {
        for url in [
            "mysql://u:hunter2@h/d",
            "postgres://u:hunter2@h:port/d",
            "postgres://u:hunter2@h/d?pgbouncer=yes",
            "postgres://u:hunter2@h/d?pgbouncer",
        ] {
            let error = parse(url).err().unwrap();
            assert_eq!(error.kind(), idem_core::error::ErrorKind::InvalidInput, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
        }
    }
}
