//! `idem release`: frees the key of a stuck record.

use idem_core::codec::Codec;
use idem_core::housekeeping::{self, MayRepeat, may_repeat};
use serde_json::{Value, json};

use super::record::{AttemptArgs, RecordArgs};
use super::settle::failure;
use super::text::escape;
use super::{StoreArgs, print, print_json};
use crate::backends::Intent;
use crate::exit::{Exit, Failure};

/// Free the key of a stuck record: the next request under it runs as if it were the first.
///
/// Without --yes it only says what a rerun may repeat. The record is taken over before it is
/// removed, so a holder that was only paused changes nothing when it wakes up. What runs under a
/// live lease is left alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    attempt: AttemptArgs,

    /// Do it: what it says may be repeated.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let opened = args.store.open(Intent::Operate).await?;
    let seen = args.record.read(&*opened.store).await?;
    args.attempt.check(&seen)?;
    let repeats = may_repeat(&Codec::new(), &seen);
    if !args.yes {
        if !args.store.json {
            print(&format!("{}\n", to_text(&repeats)))?;
        }
        return Err(Failure::new(Exit::Usage, "nothing was done; --yes frees the key")
            .with("released", false)
            .with("may_repeat", to_json(&repeats)));
    }
    housekeeping::release(&*opened.store, &seen).await.map_err(failure)?;
    if args.store.json {
        print_json(&json!({ "released": true, "may_repeat": to_json(&repeats) }))?;
    } else {
        print(&format!("released; {}\n", to_text(&repeats)))?;
    }
    Ok(Exit::Success)
}

const SAME_KEYS: &str = "  The same request asks a downstream under the same keys again, so one \
                         that still remembers them does\n  nothing twice; another request under \
                         this key gets other keys, and acts.";

fn to_text(repeats: &MayRepeat) -> String {
    match repeats {
        MayRepeat::Nothing => "nothing was done under this key, so a rerun repeats nothing".into(),
        MayRepeat::Anything => "a rerun may repeat everything that the operation does: it does \
                                not mark what was done"
            .into(),
        MayRepeat::Completed => "it is completed: a rerun would repeat all of it".into(),
        MayRepeat::Unreadable(error) => {
            format!("a rerun may repeat anything: the recovery point cannot be read ({error})")
        }
        MayRepeat::Steps(steps) if steps.is_empty() => format!(
            "it began, and no step of it is on record. A rerun may repeat whatever it did before \
             its lease ran out.\n{SAME_KEYS}\n  Whether a downstream acted, it can tell by the key \
             that `idem inspect --step NAME` shows; ask first."
        ),
        MayRepeat::Steps(steps) => {
            let mut text = "it began. A rerun takes all of it again, these steps among it:".into();
            for step in steps {
                let name = escape(step.name.as_bytes());
                let state = if step.done { "done" } else { "started, and perhaps done" };
                text = format!("{text}\n  {name}: {state}");
                if step.generation > 0 {
                    let generation = step.generation;
                    text = format!("{text}, under generation {generation}: its key starts anew");
                }
            }
            format!("{text}\n{SAME_KEYS}")
        }
        _ => "a rerun may repeat anything".into(),
    }
}

fn to_json(repeats: &MayRepeat) -> Value {
    match repeats {
        MayRepeat::Nothing => json!({ "what": "nothing" }),
        MayRepeat::Completed => json!({ "what": "everything", "why": "it is completed" }),
        MayRepeat::Anything => json!({ "what": "anything", "why": "it does not mark begun" }),
        MayRepeat::Unreadable(error) => json!({ "what": "anything", "why": error.to_string() }),
        MayRepeat::Steps(steps) if steps.is_empty() => {
            json!({ "what": "anything", "why": "it began, and no step of it is on record" })
        }
        MayRepeat::Steps(steps) => {
            let step = |step: &housekeeping::RepeatedStep| json!({ "name": step.name, "generation": step.generation, "done": step.done });
            json!({ "what": "steps", "steps": steps.iter().map(step).collect::<Vec<_>>() })
        }
        _ => json!({ "what": "anything" }),
    }
}
