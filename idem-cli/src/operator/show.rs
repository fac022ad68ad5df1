//! A record as the operator's commands show it: never its reply, its input or its results.

use idem_core::log_hash::KeyHasher;
use idem_core::record::{Observed, State};
use serde_json::{Value, json};

use super::age::short;
use super::condition::PolicyArgs;
use super::text::escape;
use crate::exit::Failure;
use crate::hash_secret::HashSecretArgs;

/// How records are to be shown.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ViewArgs {
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    secret: HashSecretArgs,
}

/// The same, once the secret is read.
pub(super) struct View<'a> {
    pub(super) policy: &'a PolicyArgs,
    pub(super) hasher: Option<KeyHasher>,
}

impl ViewArgs {
    /// Reads the secret of the hashes, if there is one.
    pub(super) fn view(&self) -> Result<View<'_>, Failure> {
        Ok(View { policy: &self.policy, hasher: self.secret.hasher()? })
    }
}

impl View<'_> {
    /// What stands for its key in the logs.
    pub(super) fn key_hash(&self, observed: &Observed) -> Option<String> {
        let record = &observed.record;
        let hasher = self.hasher.as_ref()?;
        Some(hasher.hash(&record.scope, &record.key).to_string())
    }
}

/// What the time says: how long the lease runs, how long ago it ended, how long the reply is kept.
pub(super) fn timing(observed: &Observed) -> String {
    match &observed.record.state {
        State::InProgress { locked_until, .. } => match observed.lapsed_for() {
            Some(since) => format!("lease over for {}", short(since)),
            None => format!("lease for {}", short(locked_until.since(observed.now))),
        },
        State::Completed { expires_at: Some(at), .. } => {
            format!("kept for {}", short(at.since(observed.now)))
        }
        State::Completed { expires_at: None, .. } => "kept for ever".into(),
    }
}

/// A record for a script.
pub(super) fn to_json(observed: &Observed, view: &View<'_>) -> Value {
    let record = &observed.record;
    let (condition, why) = view.policy.judge(observed);
    let mut shown = json!({
        "scope": escape(record.scope.as_bytes()),
        "key": escape(record.key.as_bytes()),
        "key_hash": view.key_hash(observed),
        "operation": record.operation.as_str(),
        "state": condition.name(),
        "why": why,
        "attempt": record.attempt,
        "age_ms": millis(observed.age()),
        "marks_begun": record.marks_begun,
        "incarnation": hex(record.incarnation.as_bytes()),
        "retention_ms": record.retention.total().map(millis),
    });
    let more = match &record.state {
        State::InProgress { locked_until, given_up, recovery } => json!({
            "lease_ms": millis(locked_until.since(observed.now)),
            "lapsed_ms": observed.lapsed_for().map(millis),
            "given_up": given_up,
            "recovery_point": recovery.as_ref().map(|recovery| recovery.number),
        }),
        State::Completed { reply, completed_at, expires_at } => json!({
            "completed_ms_ago": millis(observed.now.since(*completed_at)),
            "expires_in_ms": expires_at.map(|at| millis(at.since(observed.now))),
            "stored_bytes": reply.len(),
        }),
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

/// A record in a table, under [`headings`].
pub(super) fn to_row(observed: &Observed, view: &View<'_>) -> Vec<String> {
    let record = &observed.record;
    let (condition, why) = view.policy.judge(observed);
    let mut state = condition.name().to_owned();
    if view.policy.is_unsure(observed) {
        state.push('?');
    }
    let mut row = vec![
        escape(record.scope.as_bytes()),
        escape(record.key.as_bytes()),
        record.operation.to_string(),
        state,
        record.attempt.to_string(),
        short(observed.age()),
        timing(observed),
        why.unwrap_or_default(),
    ];
    // Before the reason, which may be long.
    row.splice(7..7, view.key_hash(observed));
    row
}

/// The headings over [`to_row`].
pub(super) fn headings(view: &View<'_>) -> Vec<&'static str> {
    let mut headings = vec!["SCOPE", "KEY", "OPERATION", "STATE", "ATTEMPT", "AGE", "TIME", "WHY"];
    headings.splice(7..7, view.hasher.as_ref().map(|_| "HASH"));
    headings
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
