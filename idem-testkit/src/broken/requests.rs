//! Stores that do not tell one request from another, or the same from the same.

use idem_core::claim::{Claim, Claimed};
use idem_core::error::ErrorKind;
use idem_core::fingerprint::{Fingerprint, Fingerprints};
use idem_core::record::{Incarnation, Record, State};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Change, Decision};

use super::BrokenStore;
use super::claims::Claims;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "fingerprint-not-compared",
            "the request is not compared: another body gets the first one's answer",
            "R4, R22",
            "table::completed_with_another_request_is_a_mismatch",
            Claims(|found, claim, now, fresh| {
                let same = found.map_or(claim.fingerprints.primary(), |found| found.fingerprint);
                with_prints(found, claim, now, fresh, same)
            }),
        ),
        BrokenStore::new(
            "fingerprint-compared-only-when-finished",
            "another body under a live key is told to wait, and gets a mismatch only afterwards",
            "R4",
            "table::live_with_another_request_is_a_mismatch",
            Claims(|found, claim, now, fresh| match found {
                Some(record) if matches!(record.state, State::InProgress { .. }) => {
                    with_prints(found, claim, now, fresh, record.fingerprint)
                }
                _ => transition::claim(found, claim, now, fresh),
            }),
        ),
        BrokenStore::new(
            "operation-not-compared",
            "two jobs that use one key replay each other",
            "R4",
            "table::completed_with_another_operation_is_a_mismatch",
            Claims(|found, claim, now, fresh| {
                let mut claim = *claim;
                if let Some(record) = transition::visible(found, now) {
                    claim.operation = &record.operation;
                }
                transition::claim(found, &claim, now, fresh)
            }),
        ),
        BrokenStore::new(
            "unknown-scheme-is-a-mismatch",
            "after a downgrade every open key is a false mismatch",
            "R23",
            "table::unknown_scheme_of_a_live_record",
            UnknownScheme { replays: false },
        ),
        BrokenStore::new(
            "unknown-scheme-matches",
            "what cannot be compared is taken for the same, and the reply is handed out",
            "R23",
            "table::unknown_scheme_of_a_completed_record",
            UnknownScheme { replays: true },
        ),
        BrokenStore::new(
            "only-the-first-print-counts",
            "a claim that knows two schemes is compared under its first one alone",
            "R23",
            "table::each_scheme_is_compared_with_its_like",
            Claims(|found, claim, now, fresh| {
                with_prints(found, claim, now, fresh, claim.fingerprints.primary())
            }),
        ),
    ]
}

/// The right table, with what a found record is compared with put in place.
fn with_prints(
    found: Option<&Record>,
    claim: &Claim<'_>,
    now: Timestamp,
    fresh: Incarnation,
    print: Fingerprint,
) -> Decision<Claimed> {
    let mut decision = {
        let prints = Fingerprints::new(print);
        let mut compared = *claim;
        compared.fingerprints = &prints;
        transition::claim(found, &compared, now, fresh)
    };
    if let Change::Put(record) = &mut decision.change
        && record.incarnation == fresh
    {
        record.fingerprint = claim.fingerprints.primary();
    }
    if let Ok(Claimed::Acquired(held)) = &mut decision.outcome
        && held.fence.incarnation == fresh
    {
        held.fingerprint = claim.fingerprints.primary();
    }
    decision
}

struct UnknownScheme {
    replays: bool,
}

impl Rules for UnknownScheme {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let mut decision = transition::claim(found, claim, now, fresh);
        let unknown = |kind| kind == ErrorKind::WrongSchema;
        if decision.outcome.as_ref().is_err_and(|refusal| unknown(refusal.kind))
            && let Some(record) = found
        {
            if self.replays {
                return with_prints(found, claim, now, fresh, record.fingerprint);
            }
            let completed = matches!(record.state, State::Completed { .. });
            decision.outcome = Ok(Claimed::Mismatch { completed });
        }
        decision
    }
}
