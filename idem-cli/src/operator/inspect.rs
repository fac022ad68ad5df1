//! `idem inspect`: one record in full.

use idem_core::codec::{Codec, CodecError};
use idem_core::record::{Observed, State};
use idem_core::reply::StoredReply;
use serde_json::{Map, Value, json};

use super::condition::{LEGEND, PolicyArgs};
use super::record::RecordArgs;
use super::show::{hex, to_json};
use super::{StoreArgs, print, print_json};
use crate::backends::Intent;
use crate::exit::{Exit, Failure};

/// Show one record: who holds it, what it has done, what it answered.
///
/// Replies, inputs and step results are not shown, only what they are: status, sizes, names.
#[derive(Debug, clap::Args)]
#[command(after_help = LEGEND)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let observed = args.record.read(&*opened.store).await?;
    let shown = describe(&observed, &args.policy);
    if args.store.json {
        print_json(&shown)?;
    } else {
        print(&lines(&shown))?;
    }
    Ok(Exit::Success)
}

fn describe(observed: &Observed, policy: &PolicyArgs) -> Value {
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
    if let Some(input) = &record.input {
        let decoded = codec.decode_input(input, &record.scope, &record.key);
        let input = decoded.map(|stored| {
            json!({
                "derivation_version": stored.derivation.version,
                "namespace": stored.derivation.namespace.as_str(),
                "body_bytes": stored.input.map(|input| input.body().len()),
            })
        });
        members.insert("input".into(), or_reason(input));
    }
    match &record.state {
        State::InProgress { recovery: Some(recovery), .. } => {
            let decoded = codec.decode_progress(&recovery.payload, &record.scope, &record.key);
            let steps = decoded.map(|progress| {
                progress
                    .steps()
                    .iter()
                    .map(|step| {
                        json!({
                            "name": step.name(),
                            "generation": step.generation(),
                            "done": step.result().is_some(),
                        })
                    })
                    .collect()
            });
            members.insert("steps".into(), or_reason(steps));
        }
        State::Completed { reply, .. } => {
            let decoded = codec.decode_reply(reply, &record.scope, &record.key);
            members.insert("reply".into(), or_reason(decoded.map(|reply| reply_shape(&reply))));
        }
        State::InProgress { recovery: None, .. } => {}
    }
    shown
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
    let line = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name:width$}  {text}\n"),
        value => format!("{name:width$}  {value}\n"),
    };
    present(members).map(line).collect()
}

fn present(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    members.iter().filter(|(_, value)| !value.is_null())
}
