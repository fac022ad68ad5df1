//! `idem inspect`: one record in full.

use std::time::Duration;

use idem_core::codec::{Codec, CodecError};
use idem_core::downstream::{DownstreamKeys, KeyParts};
use idem_core::input::StoredInput;
use idem_core::progress::Progress;
use idem_core::record::{Observed, State};
use idem_core::reply::StoredReply;
use serde_json::{Map, Value, json};

use super::age::short;
use super::condition::{LEGEND, PolicyArgs};
use super::record::RecordArgs;
use super::show::{hex, to_json};
use super::{StoreArgs, print, print_json};
use crate::backends::Intent;
use crate::exit::{Exit, Failure};

/// Show one record: who holds it, what it has done, what it answered.
///
/// Replies, inputs and step results are not shown, only what they are: status, sizes, names. The
/// downstream keys are: a downstream that is asked for one of them knows whether it acted.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{LEGEND}\n  {FIELDS}"))]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    policy: PolicyArgs,

    /// Also show the downstream key of this step: one whose result is not known is not on record.
    /// The name is the one in the handler; a wrong one gives a key that no downstream was given.
    /// May be repeated.
    #[arg(long, value_name = "NAME")]
    step: Vec<String>,
}

const FIELDS: &str = "\
  incarnation     which life of the key this is: it changes when the key is used anew
  owner           which call holds it, or completed it
  marks_begun     whether its operation writes a recovery point before anything is done
  given_up        its holder gave the lease up, so that a retry need not wait for the end
  recovery_point  the number of the last one; 1 is \"begun\"
  steps           what is on record of each: its generation, whether it is done, and the key that
                  its downstream was given
  input           what is stored so that it can be resumed without its client";

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let observed = args.record.read(&*opened.store).await?;
    let shown = describe(&observed, &args.policy, &args.step);
    if args.store.json {
        print_json(&shown)?;
    } else {
        print(&lines(&shown))?;
    }
    Ok(Exit::Success)
}

fn describe(observed: &Observed, policy: &PolicyArgs, also: &[String]) -> Value {
    let record = &observed.record;
    let mut shown = to_json(observed, policy);
    let Value::Object(members) = &mut shown else { return shown };
    members.insert("owner".into(), hex(record.owner.as_bytes()).into());
    members.insert(
        "fingerprint".into(),
        format!("{}:{}", record.fingerprint.scheme().as_byte(), hex(record.fingerprint.digest()))
            .into(),
    );
    let codec = Codec::new();
    let input = record.input.as_ref();
    let input = input.map(|input| codec.decode_input(input, &record.scope, &record.key));
    match &record.state {
        State::InProgress { recovery, .. } => {
            let progress = match recovery {
                Some(recovery) => {
                    codec.decode_progress(&recovery.payload, &record.scope, &record.key)
                }
                None => Ok(Progress::begun()),
            };
            let stored = input.as_ref().and_then(|input| input.as_ref().ok());
            let steps = progress.map(|progress| steps(observed, &progress, stored, also));
            members.insert("steps".into(), or_reason(steps));
        }
        State::Completed { reply, .. } => {
            let decoded = codec.decode_reply(reply, &record.scope, &record.key);
            members.insert("reply".into(), or_reason(decoded.map(|reply| reply_shape(&reply))));
        }
    }
    if let Some(input) = input {
        members.insert("input".into(), or_reason(input.map(|input| input_shape(&input))));
    }
    shown
}

/// A mistyped name looks the same, so the state says so.
const NOT_ON_RECORD: &str = "not on record; its key, if the handler has a step of this name";

/// What is on record of each step, and the key that its downstream was given.
fn steps(
    observed: &Observed,
    progress: &Progress,
    input: Option<&StoredInput>,
    also: &[String],
) -> Value {
    let on_record = progress.steps().iter().map(|step| {
        (step.name(), step.generation(), if step.result().is_some() { "done" } else { "started" })
    });
    let others = also.iter().filter(|name| progress.step(name).is_none());
    let all = on_record.chain(others.map(|name| (name.as_str(), 0, NOT_ON_RECORD)));
    let shown = all.map(|(name, generation, state)| {
        json!({
            "name": name,
            "generation": generation,
            "state": state,
            "downstream_key": downstream_key(observed, input, name, generation),
        })
    });
    shown.collect()
}

fn downstream_key(
    observed: &Observed,
    input: Option<&StoredInput>,
    step: &str,
    generation: u32,
) -> Value {
    let record = &observed.record;
    let Some(StoredInput { derivation, .. }) = input else { return Value::Null };
    let parts = KeyParts {
        scope: &record.scope,
        key: &record.key,
        operation: record.operation.as_str(),
        fingerprint_scheme: record.fingerprint.scheme().as_byte(),
        fingerprint_digest: record.fingerprint.digest(),
        step,
        generation,
    };
    match DownstreamKeys::new(derivation.namespace.clone()).key(derivation, &parts) {
        Ok(key) => key.as_str().into(),
        Err(error) => json!({ "unreadable": error.to_string() }),
    }
}

fn input_shape(stored: &StoredInput) -> Value {
    json!({
        "derivation_version": stored.derivation.version,
        "namespace": stored.derivation.namespace.as_str(),
        "body_bytes": stored.input.as_ref().map(|input| input.body().len()),
    })
}

fn reply_shape(reply: &StoredReply) -> Value {
    match reply {
        StoredReply::Full(reply) => json!({
            "status": reply.status(),
            "headers": reply.headers().len(),
            "body_bytes": reply.body().map(|body| body.len()),
        }),
        StoredReply::Tombstone(tombstone) => json!({
            "status": tombstone.status(),
            "too_large_to_keep": true,
            "body_bytes": tombstone.body_bytes_seen(),
        }),
    }
}

/// What cannot be read is said, not hidden: it may be sealed, or corrupt.
fn or_reason(decoded: Result<Value, CodecError>) -> Value {
    decoded.unwrap_or_else(|error| json!({ "unreadable": error.to_string() }))
}

fn lines(shown: &Value) -> String {
    let Value::Object(members) = shown else { return String::new() };
    let width = members.keys().map(String::len).max().unwrap_or(0);
    let line = |(name, value): (&String, &Value)| match (name.strip_suffix("_ms"), value) {
        (Some(name), value) if value.is_u64() => {
            let span = Duration::from_millis(value.as_u64().unwrap_or(u64::MAX));
            format!("{name:width$}  {}\n", short(span))
        }
        (_, Value::Array(values)) => {
            let values = values.iter().map(|value| format!("{name:width$}  {}\n", flat(value)));
            values.collect()
        }
        (_, value) => format!("{name:width$}  {}\n", flat(value)),
    };
    present(members).map(line).collect()
}

/// A value on one line.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let members = present(members).map(|(name, value)| format!("{name} {}", flat(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

fn present(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    members.iter().filter(|(_, value)| !value.is_null())
}
