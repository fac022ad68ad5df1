//! `idem settle`: says how a stuck record ended.

use std::path::PathBuf;
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use idem_core::codec::{Codec, MAX_FRAME_BYTES};
use idem_core::error::StoreError;
use idem_core::housekeeping::{self, SettleError};
use idem_core::record::{Observed, State};
use idem_core::reply::Reply;
use serde_json::json;

use super::age::short;
use super::record::{AttemptArgs, RecordArgs, is_stdin, read_limited};
use super::{StoreArgs, print, print_json};
use crate::backends::{Intent, store_failure};
use crate::exit::{Exit, Failure};

/// Say how a stuck record ended: retries get this reply, and nothing runs.
///
/// First find out what was done, from the downstream for instance. The record is taken over
/// before the reply is stored, so a holder that was only paused changes nothing when it wakes up.
/// What runs under a live lease is left alone. Saying the same again is harmless;
/// leave --at-attempt out then, since settling is an attempt too.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    attempt: AttemptArgs,

    /// The status of the reply, from 200 to 599.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,

    /// A header field of the reply. May be repeated; the order is kept.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,

    /// The body of the reply, without a line end. A body needs its content-type among the headers.
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,

    /// Read the body from this file, byte for byte; `-` is standard input.
    #[arg(long, value_name = "PATH")]
    body_file: Option<PathBuf>,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let reply = args.reply()?;
    let opened = args.store.open(Intent::Operate).await?;
    let seen = args.record.read(&*opened.store).await?;
    args.attempt.check(&seen)?;
    let codec = Codec::new();
    let settled = housekeeping::settle(&*opened.store, &codec, &seen, &reply).await;
    let settled = settled.map_err(failure)?;
    let record = &seen.record;
    let kept = Kept::of(opened.store.get(&record.scope, &record.key).await);
    if args.store.json {
        print_json(&json!({
            "settled": true,
            "already": settled.already,
            "attempt": settled.attempt,
            "kept_ms": match kept {
                Kept::For(kept) => Some(kept.as_millis() as u64),
                _ => None,
            },
        }))?;
    } else {
        print(&format!(
            "{} at attempt {}; the reply is kept {}\n",
            if settled.already { "it was settled so already," } else { "settled" },
            settled.attempt,
            kept.in_words()
        ))?;
    }
    Ok(Exit::Success)
}

/// How long the reply that was stored is kept.
enum Kept {
    For(Duration),
    ForEver,
    NoLonger,
    /// The store did not tell.
    NotSeen,
}

impl Kept {
    /// The record is settled, whatever becomes of this look at it.
    fn of(now: Result<Option<Observed>, StoreError>) -> Self {
        match now.map(|now| now.map(|now| (now.now, now.record.state))) {
            Ok(Some((now, State::Completed { expires_at, .. }))) => {
                expires_at.map_or(Self::ForEver, |at| Self::For(at.since(now)))
            }
            Ok(_) => Self::NoLonger,
            Err(_) => Self::NotSeen,
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::For(kept) => format!("for {}", short(*kept)),
            Self::ForEver => "for ever".into(),
            Self::NoLonger => "no longer".into(),
            Self::NotSeen => "for a time that could not be read".into(),
        }
    }
}

impl Args {
    fn reply(&self) -> Result<Reply, Failure> {
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(file)) if is_stdin(file) && self.record.reads_stdin() => {
                let why = "the key and the body cannot both come from standard input";
                return Err(Failure::new(Exit::Usage, why));
            }
            (None, Some(file)) => read_limited(file, MAX_FRAME_BYTES)?,
            (None, None) => Vec::new(),
        };
        if !body.is_empty() && matches!(self.status, 204 | 205 | 304) {
            let why = format!("a reply with status {} has no body", self.status);
            return Err(Failure::new(Exit::Usage, why));
        }
        if !body.is_empty() && !self.header.iter().any(|(name, _)| name == CONTENT_TYPE) {
            let why = "a body needs its type, such as --header 'content-type: application/json'";
            return Err(Failure::new(Exit::Usage, why));
        }
        let mut reply =
            Reply::new(self.status).map_err(|error| Failure::new(Exit::Usage, error))?;
        for (name, value) in &self.header {
            reply = reply.with_header(name.as_str().to_owned(), value.as_bytes().to_owned());
        }
        // As the HTTP layer keeps it: no body where there are no bytes.
        Ok(if body.is_empty() { reply } else { reply.with_body(body) })
    }
}

/// What speaks of one connection or one moment is no part of a reply, and what the HTTP layer
/// writes itself, or counts, is not taken from here.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    const NOT_KEPT: [HeaderName; 12] = [
        CONNECTION,
        CONTENT_LENGTH,
        DATE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-authenticate"),
        HeaderName::from_static("idempotent-replayed"),
        HeaderName::from_static("idempotency-stored"),
        HeaderName::from_static("idempotency-key-lifetime"),
    ];
    let (name, value) = text.split_once(':').ok_or("a header field is NAME: VALUE")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "that is no name of a header field")?;
    let value = value.trim_matches([' ', '\t']);
    let value: HeaderValue =
        value.parse().map_err(|_| "that is no value of a header field".to_owned())?;
    if NOT_KEPT.contains(&name) {
        return Err(format!("{name} is no part of a stored reply"));
    }
    Ok((name, value))
}

/// A refusal with what to do about it.
pub(super) fn failure(error: SettleError) -> Failure {
    match error {
        SettleError::Store(error) => store_failure(error),
        SettleError::Reply(_) => Failure::new(Exit::Usage, error),
        SettleError::OtherSettings(_) => Failure::new(Exit::Setup, error),
        SettleError::Running { .. } => {
            let why = format!("{error}; if its holder is dead it is stuck after that");
            Failure::new(Exit::CheckFailed, why)
        }
        SettleError::RetentionOver => {
            let why = format!("{error}; `idem release` says what that may repeat");
            Failure::new(Exit::CheckFailed, why)
        }
        error => Failure::new(Exit::CheckFailed, error),
    }
}

#[cfg(test)]
mod tests {
    use idem_core::error::{ErrorKind, Verb};

    use super::*;

    #[test]
    fn a_store_that_fails_after_the_settlement_does_not_make_it_a_failure() {
        let failed = StoreError::new(ErrorKind::NotApplied, Verb::Get, "no connection");
        assert_eq!(Kept::of(Err(failed)).in_words(), "for a time that could not be read");
        assert_eq!(Kept::of(Ok(None)).in_words(), "no longer");
    }

    #[test]
    fn a_header_field_is_read_as_http_has_it() {
        let (name, value) = header("Location:  /v1/charges/7 ").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("location", &b"/v1/charges/7"[..]));
        let (_, value) = header("x: a: b").unwrap();
        assert_eq!(value, "a: b");
        for wrong in ["location", ": x", "a b: x", "x: a\nb", "Date: now", "content-length: 3"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }
}
