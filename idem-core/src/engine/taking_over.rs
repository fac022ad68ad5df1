//! Taking over a lapsed record, once it is known that it can be read.
//!
//! A takeover uses up an attempt whatever comes of it. A process that lacks the key with which
//! the record is sealed, or an old release that does not know its format, would use up all of
//! them and leave the record held, with nothing run. So a record is read first, and what cannot
//! be read stays as it is for those who can.

use std::time::Duration;

use tokio::time::Instant;

use crate::claim::{Claimed, Lapsed, Takeover};
use crate::codec::CodecError;
use crate::engine::Engine;
use crate::engine::claiming::{Answered, Asked, ClaimFailure, Claims, Unclaimed, claim_seen};
use crate::engine::lease::bounded;
use crate::error::Verb;
use crate::input::{Input, StoredInput};
use crate::progress::Progress;
use crate::record::{Observed, Record};

/// How often a record that changes hands meanwhile is looked at again.
const LOOKS: u32 = 3;

/// Takes what is free, and no lapsed record.
const NOT_YET: Takeover = Takeover::Below { attempts: 0, younger_than: Duration::ZERO };

/// One claim; for a record that lapsed it is a claim, a look and a claim of what was seen.
pub(super) async fn claim_what_can_be_read<C: Claims>(
    store: &C,
    engine: &Engine,
    asked: &Asked,
) -> Result<Answered<C::With>, Unclaimed> {
    if let Takeover::Only { .. } = asked.takeover {
        return Ok(claim_seen(store, asked, asked.takeover).await?);
    }
    for _ in 0..LOOKS {
        let mut answered = claim_seen(store, asked, NOT_YET).await?;
        let Claimed::Lapsed(_) = answered.claimed else { return Ok(answered) };
        let Some(found) = look(engine, asked).await? else { continue };
        let record = &found.record;
        let Some(only) = policy(asked.takeover, record) else {
            let since = found.lapsed_for().unwrap_or_default();
            answered.claimed = Claimed::Lapsed(Lapsed::new(record.attempt, since));
            return Ok(answered);
        };
        let (input, _) = read(engine, record).map_err(Unclaimed::Unreadable)?;
        if is_elsewhere(input.as_ref().and_then(|stored| stored.input.as_ref()), asked) {
            answered.claimed = Claimed::Mismatch { completed: false };
            return Ok(answered);
        }
        let answered = claim_seen(store, asked, only).await?;
        match answered.claimed {
            // Another attempt, or another life, by now.
            Claimed::Lapsed(lapsed) if lapsed.attempt != record.attempt => {}
            Claimed::Gone => {}
            _ => return Ok(answered),
        }
    }
    // It changes hands faster than it can be looked at: somebody is at it.
    let remaining = Duration::from_secs(1);
    Ok(Answered::without(Claimed::InProgress { remaining }, Instant::now()))
}

/// The lapsed record, unless it is another by now.
async fn look(engine: &Engine, asked: &Asked) -> Result<Option<Observed>, ClaimFailure> {
    let reading = engine.store().get(&asked.scope, &asked.key);
    let found = bounded(Verb::Get, asked.operation.claim_limit(), reading).await;
    // The key is in use, as the claim has said.
    let found = found.map_err(|error| ClaimFailure { error, key_may_be_in_use: true })?;
    Ok(found.filter(|found| found.lapsed_for().is_some()))
}

/// What takes over this very record under the operation's policy; `None` where that forbids it.
/// The age is judged inside the claim.
fn policy(policy: Takeover, record: &Record) -> Option<Takeover> {
    let (allowed, younger_than) = match policy {
        Takeover::Below { attempts, younger_than } => {
            (record.attempt < attempts, Some(younger_than))
        }
        Takeover::Never => (record.recovery().is_none(), None),
        Takeover::Only { .. } => return Some(policy),
    };
    let (incarnation, attempt) = (record.incarnation, record.attempt);
    allowed.then_some(Takeover::Only { incarnation, attempt, younger_than })
}

/// Reads what an execution of this record needs.
pub(super) fn read(
    engine: &Engine,
    record: &Record,
) -> Result<(Option<StoredInput>, Option<Progress>), CodecError> {
    let (codec, scope, key) = (engine.codec(), &record.scope, &record.key);
    let input = record.input.as_ref().map(|input| codec.decode_input(input, scope, key));
    let recovery = record.recovery();
    let progress = recovery.map(|recovery| codec.decode_progress(&recovery.payload, scope, key));
    Ok((input.transpose()?, progress.transpose()?))
}

/// Whether the request that is stored went to another method or path than this call. Where
/// requests are not compared that is possible, and whoever routed this call has chosen its
/// handler, and what the path says to it, by this call's path.
fn is_elsewhere(stored: Option<&Input>, asked: &Asked) -> bool {
    let (Some(stored), Some(called)) = (stored, &asked.route) else { return false };
    *called != Route::of(stored)
}

/// Where a request went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    method: Option<bytes::Bytes>,
    path: Option<bytes::Bytes>,
}

impl Route {
    pub(super) fn of(input: &Input) -> Self {
        let path = input.target().map(|target| {
            let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
            target.slice(..end)
        });
        Self { method: input.method().cloned(), path }
    }
}
