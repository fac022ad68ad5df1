//! Stores that fold, cut or mix up the bytes they are given.

use idem_core::codec::Sealed;
use idem_core::key::{Key, Scope};
use idem_core::record::{Record, Recovery, State};

use super::BrokenStore;
use super::rules::Rules;
use super::workshop::Identity;

pub(super) fn stores() -> Vec<BrokenStore> {
    [identities(), payloads()].concat()
}

fn identities() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "keys-fold-case",
            "keys are compared under a collation that folds case",
            "R3",
            "keys::case",
            Files(|scope, key| (scope.to_vec(), key.to_ascii_lowercase())),
        ),
        BrokenStore::new(
            "scopes-fold-case",
            "scopes are compared under a collation that folds case",
            "R3, R4",
            "keys::case",
            Files(|scope, key| {
                (String::from_utf8_lossy(scope).to_lowercase().into_bytes(), key.to_vec())
            }),
        ),
        BrokenStore::new(
            "keys-lose-accents",
            "keys are compared under a collation that drops accents",
            "R3",
            "keys::accents",
            Files(|scope, key| {
                let text = String::from_utf8_lossy(key).replace('é', "e").replace('\u{301}', "");
                (scope.to_vec(), text.into_bytes())
            }),
        ),
        BrokenStore::new(
            "scopes-are-normalised",
            "scopes are brought to one Unicode form",
            "R3",
            "keys::accents",
            Files(|scope, key| {
                let text = String::from_utf8_lossy(scope).replace("e\u{301}", "é");
                (text.into_bytes(), key.to_vec())
            }),
        ),
        BrokenStore::new(
            "trailing-space-is-padding",
            "keys are compared as padded strings",
            "R3",
            "keys::trailing_space",
            Files(|scope, key| (scope.to_vec(), key.trim_ascii_end().to_vec())),
        ),
        BrokenStore::new(
            "scopes-are-trimmed",
            "scopes are trimmed on their way in",
            "R3, R4",
            "keys::trailing_space",
            Files(|scope, key| {
                (String::from_utf8_lossy(scope).trim().as_bytes().to_vec(), key.to_vec())
            }),
        ),
        BrokenStore::new(
            "keys-end-at-nul",
            "keys are passed on as C strings",
            "R3",
            "keys::nul",
            Files(|scope, key| {
                let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
                (scope.to_vec(), key[..end].to_vec())
            }),
        ),
        BrokenStore::new(
            "nul-is-padding",
            "keys are stored in a binary column of fixed width, padded with NUL",
            "R3",
            "keys::nul",
            Files(|scope, key| {
                let end = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                (scope.to_vec(), key[..end].to_vec())
            }),
        ),
        BrokenStore::new(
            "keys-cut-at-191",
            "keys are cut to what an index on a text column holds",
            "R3",
            "keys::longest",
            Files(|scope, key| (scope.to_vec(), key[..key.len().min(191)].to_vec())),
        ),
        BrokenStore::new(
            "scopes-cut-at-200",
            "scopes are cut to the width of their column",
            "R3, R4",
            "keys::longest_scopes",
            Files(|scope, key| (scope[..scope.len().min(200)].to_vec(), key.to_vec())),
        ),
        BrokenStore::new(
            "keys-are-lossy-text",
            "keys become text, and what is not UTF-8 becomes U+FFFD",
            "R3",
            "keys::not_text",
            Files(|scope, key| {
                (scope.to_vec(), String::from_utf8_lossy(key).into_owned().into_bytes())
            }),
        ),
        BrokenStore::new(
            "keys-are-numbers",
            "a column without a type turns keys that look like numbers into numbers",
            "R3",
            "keys::numbers",
            Files(|scope, key| {
                let text = String::from_utf8_lossy(key);
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let key = number.map_or(key.to_vec(), |number| number.to_string().into_bytes());
                (scope.to_vec(), key)
            }),
        ),
        BrokenStore::new(
            "scope-and-key-are-joined",
            "a record is filed under scope and key joined by a colon",
            "R3, R4",
            "keys::splits",
            Files(|scope, key| (Vec::new(), [scope, b":", key].concat())),
        ),
        BrokenStore::new(
            "scope-and-key-are-concatenated",
            "a record is filed under a digest of scope and key without their lengths",
            "R3, R4",
            "keys::splits",
            Files(|scope, key| (Vec::new(), [scope, key].concat())),
        ),
        BrokenStore::new(
            "braces-choose-the-record",
            "only what stands between braces counts, as in a hash tag",
            "R3",
            "keys::braces",
            Files(|scope, key| {
                let tag = key
                    .iter()
                    .position(|byte| *byte == b'{')
                    .and_then(|open| {
                        let close = key[open..].iter().position(|byte| *byte == b'}')?;
                        Some(&key[open + 1..open + close])
                    })
                    .filter(|tag| !tag.is_empty());
                (scope.to_vec(), tag.unwrap_or(key).to_vec())
            }),
        ),
        BrokenStore::new(
            "quotes-are-unescaped",
            "backslashes and doubled quotes are read as escapes",
            "R3",
            "keys::quotes",
            Files(|scope, key| {
                let text = String::from_utf8_lossy(key).replace("''", "'").replace("\\'", "'");
                (scope.to_vec(), text.into_bytes())
            }),
        ),
        BrokenStore::new(
            "records-filed-by-a-short-hash",
            "records are filed under a short hash of the key, for an even spread",
            "R3",
            "keys::many_at_once",
            Files(|scope, key| {
                let hash = key.iter().fold(0_u16, |hash, byte| {
                    hash.wrapping_mul(31).wrapping_add(u16::from(*byte)) % 37
                });
                (scope.to_vec(), hash.to_be_bytes().to_vec())
            }),
        ),
        BrokenStore::new(
            "scope-is-left-out",
            "records are filed by key alone: tenants share them",
            "R4",
            "keys::scopes_do_not_meet",
            Files(|_, key| (Vec::new(), key.to_vec())),
        ),
        BrokenStore::new(
            "longest-scope-loses-a-byte",
            "the column of scopes is one byte too narrow",
            "R3, R4",
            "keys::longest_scopes",
            Files(|scope, key| (scope[..scope.len().min(254)].to_vec(), key.to_vec())),
        ),
    ]
}

fn payloads() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "replies-cut-at-64-kib",
            "replies are cut to what their column holds",
            "R3, R17",
            "data::around_powers_of_two",
            Payloads(|bytes| bytes[..bytes.len().min(65_535)].to_vec()),
        ),
        BrokenStore::new(
            "payloads-are-text",
            "payloads are stored as text",
            "R3",
            "data::bytes_come_back",
            Payloads(|bytes| String::from_utf8_lossy(bytes).into_owned().into_bytes()),
        ),
        BrokenStore::new(
            "payloads-end-at-nul",
            "payloads are passed on as C strings",
            "R3",
            "data::bytes_come_back",
            Payloads(|bytes| {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                bytes[..end].to_vec()
            }),
        ),
        BrokenStore::new(
            "payloads-lose-trailing-space",
            "payloads lose white space at their end",
            "R3",
            "data::bytes_come_back",
            Payloads(|bytes| bytes.trim_ascii_end().to_vec()),
        ),
        BrokenStore::new(
            "line-ends-are-unified",
            "line ends are brought to one form",
            "R3",
            "data::bytes_come_back",
            Payloads(|bytes| {
                let mut unified = Vec::with_capacity(bytes.len());
                for (index, byte) in bytes.iter().enumerate() {
                    if *byte != b'\r' || bytes.get(index + 1) != Some(&b'\n') {
                        unified.push(*byte);
                    }
                }
                unified
            }),
        ),
        BrokenStore::new(
            "replies-compared-by-length",
            "a repeated completion is taken for the same when it is as long",
            "R5, R8",
            "data::same_reply_other_bytes",
            SameLength,
        ),
        BrokenStore::new(
            "operation-names-fold-case",
            "operation names are compared under a collation that folds case",
            "R4",
            "keys::operation_names_are_compared_as_bytes",
            FoldsOperations,
        ),
    ]
}

struct Files(fn(&[u8], &[u8]) -> Identity);

impl Rules for Files {
    fn file(&self, scope: &Scope, key: &Key) -> Identity {
        (self.0)(scope.as_bytes(), key.as_bytes())
    }
}

/// What becomes of the bytes of an input, a recovery point and a reply.
struct Payloads(fn(&[u8]) -> Vec<u8>);

impl Rules for Payloads {
    fn stored(&self, mut record: Record, _: Option<&Record>) -> Record {
        let change = |payload: &mut Sealed| {
            *payload = Sealed::from_bytes((self.0)(payload.as_bytes()));
        };
        if let Some(input) = &mut record.input {
            change(input);
        }
        match &mut record.state {
            State::InProgress { recovery: Some(Recovery { payload, .. }), .. } => change(payload),
            State::Completed { reply, .. } => change(reply),
            State::InProgress { .. } => {}
        }
        record
    }
}

struct SameLength;

impl Rules for SameLength {
    fn complete(
        &self,
        found: Option<&Record>,
        fence: &idem_core::record::Fence,
        reply: &Sealed,
        now: idem_core::time::Timestamp,
    ) -> idem_core::transition::Decision<idem_core::transition::Applied> {
        let standing = match found.map(|record| &record.state) {
            Some(State::Completed { reply: standing, .. }) if standing.len() == reply.len() => {
                standing.clone()
            }
            _ => reply.clone(),
        };
        idem_core::transition::complete(found, fence, &standing, now)
    }
}

struct FoldsOperations;

impl Rules for FoldsOperations {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &idem_core::claim::Claim<'_>,
        now: idem_core::time::Timestamp,
        fresh: idem_core::record::Incarnation,
    ) -> idem_core::transition::Decision<idem_core::claim::Claimed> {
        let mut claim = *claim;
        if let Some(record) = idem_core::transition::visible(found, now)
            && record.operation.as_str().eq_ignore_ascii_case(claim.operation.as_str())
        {
            claim.operation = &record.operation;
        }
        idem_core::transition::claim(found, &claim, now, fresh)
    }
}
