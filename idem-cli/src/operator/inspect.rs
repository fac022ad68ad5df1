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
use super::condition::LEGEND;
use super::record::RecordArgs;
use super::show::{View, ViewArgs, hex, to_json};
use super::text::on_one_line;
use super::{StoreArgs, print, print_json, reply};
use crate::backends::Intent;
use crate::exit::{Exit, Failure};

/// Show one record: who holds it, what it has done, what it answered.
///
/// Replies, inputs and step results are not shown, only what they are: status, sizes, names; see
/// --show-reply. The downstream keys are: a downstream that is asked for one of them knows whether
/// it acted.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{LEGEND}\n  {FIELDS}"))]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    view: ViewArgs,

    /// Also show the downstream key of this step: one whose result is not known is not on record.
    /// The name is the one in the handler; a wrong one gives a key that no downstream was given.
    /// May be repeated.
    #[arg(long, value_name = "NAME")]
    step: Vec<String>,

    /// Also show what the stored reply says: the values of its header fields and its body. It is
    /// what the client was sent, and may hold secrets. A sealed one cannot be shown: that takes the
    /// service's sealing key, which this command does not have.
    #[arg(long)]
    show_reply: bool,
}

const FIELDS: &str = "\
  incarnation     which life of the key this is: it changes when the key is used anew
  owner           which call holds it, or completed it
  marks_begun     whether its operation writes a recovery point before anything is done
  given_up        its holder gave the lease up, so that a retry need not wait for the end
  recovery_point  the number of the last one; 1 is \"begun\"
  steps           what is on record of each: its generation, whether it is done, and the key that
                  its downstream was given
  reply           what is stored as its answer: names of header fields and sizes, no more
  input           what is stored so that it can be resumed without its client
  key_hash        what stands for the key in the service's logs (see --hash-secret)";

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let view = args.view.view()?;
    let opened = args.store.open(Intent::Operate).await?;
    let observed = args.record.read(&*opened.store).await?;
    let reply = stored_reply(&observed);
    if args.store.json {
        print_json(&args.describe(&observed, reply.as_ref(), &view, args.show_reply))?;
    } else {
        let mut text = lines(&args.describe(&observed, reply.as_ref(), &view, false));
        if let (true, Some(Ok(StoredReply::Full(reply)))) = (args.show_reply, &reply) {
            text.push_str(&format!("\n{}", reply::in_full(reply)));
        }
        print(&text)?;
    }
    let has_shown = matches!(reply, Some(Ok(StoredReply::Full(_))));
    Ok(if args.show_reply && !has_shown { Exit::CheckFailed } else { Exit::Success })
}

/// The reply of a completed record.
fn stored_reply(observed: &Observed) -> Option<Result<StoredReply, CodecError>> {
    let record = &observed.record;
    match &record.state {
        State::Completed { reply, .. } => {
            Some(Codec::new().decode_reply(reply, &record.scope, &record.key))
        }
        State::InProgress { .. } => None,
    }
}

impl Args {
    fn describe(
        &self,
        observed: &Observed,
        reply: Option<&Result<StoredReply, CodecError>>,
        view: &View<'_>,
        shows: bool,
    ) -> Value {
        let record = &observed.record;
        let mut shown = to_json(observed, view);
        let Value::Object(members) = &mut shown else { return shown };
        members.insert("owner".into(), hex(record.owner.as_bytes()).into());
        members.insert(
            "fingerprint".into(),
            format!(
                "{}:{}",
                record.fingerprint.scheme().as_byte(),
                hex(record.fingerprint.digest())
            )
            .into(),
        );
        let codec = Codec::new();
        let input = record.input.as_ref();
        let input = input.map(|input| codec.decode_input(input, &record.scope, &record.key));
        if let State::InProgress { recovery, .. } = &record.state {
            let progress = match recovery {
                Some(recovery) => {
                    codec.decode_progress(&recovery.payload, &record.scope, &record.key)
                }
                None => Ok(Progress::begun()),
            };
            let stored = input.as_ref().and_then(|input| input.as_ref().ok());
            let steps = progress.map(|progress| steps(observed, &progress, stored, &self.step));
            members.insert("steps".into(), or_reason(steps.as_ref(), Value::clone));
        }
        if let Some(reply) = reply {
            let shown = or_reason(reply.as_ref(), |reply| reply::describe(reply, shows));
            members.insert("reply".into(), shown);
        }
        if let Some(input) = &input {
            members.insert("input".into(), or_reason(input.as_ref(), input_shape));
        }
        shown
    }
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

/// What cannot be read is said, not hidden: it may be sealed, or corrupt.
fn or_reason<T>(decoded: Result<&T, &CodecError>, show: impl FnOnce(&T) -> Value) -> Value {
    match decoded {
        Ok(decoded) => show(decoded),
        Err(CodecError::NoSealer { key_id }) => json!({
            "sealed_with": key_id.as_str(),
            "unreadable": "it is sealed, and only the service has the key",
        }),
        Err(error) => json!({ "unreadable": error.to_string() }),
    }
}

fn lines(shown: &Value) -> String {
    let Value::Object(members) = shown else { return String::new() };
    let width = members.keys().map(String::len).max().unwrap_or(0);
    let line = |(name, value): (&String, &Value)| match (value.as_u64(), value) {
        (Some(millis), _) if name.contains("_ms") => {
            let span = Duration::from_millis(millis);
            format!("{:width$}  {}\n", name.replace("_ms", ""), short(span))
        }
        (_, Value::Array(values)) => {
            let values = values.iter().map(|value| format!("{name:width$}  {}\n", flat(value)));
            values.collect()
        }
        (_, value) => format!("{name:width$}  {}\n", flat(value)),
    };
    present(members).map(line).collect()
}

/// A value on one line. Names in a reply or of a step are not ours.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => on_one_line(text),
        Value::Array(values) => values.iter().map(flat).collect::<Vec<_>>().join(" "),
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
