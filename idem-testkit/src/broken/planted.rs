//! A mistake that shows once in many thousand calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::claim::{Claim, Claimed};
use idem_core::record::{Incarnation, Record};
use idem_core::time::Timestamp;
use idem_core::transition::{self, Decision};

use super::rules::Rules;
use crate::conformance::Conformance;

/// The suite on a store that acquires twice: once in so many claims, the next one that meets a
/// live record is told Acquired and takes the holder's place. A lost update looks like that.
pub fn double_acquirer(once_in_claims: u64) -> Conformance {
    let claims = AtomicU64::new(0);
    super::conformance("double-acquirer", Arc::new(DoubleAcquirer { claims, once_in_claims }))
}

struct DoubleAcquirer {
    claims: AtomicU64,
    once_in_claims: u64,
}

impl Rules for DoubleAcquirer {
    fn claim(
        &self,
        found: Option<&Record>,
        claim: &Claim<'_>,
        now: Timestamp,
        fresh: Incarnation,
    ) -> Decision<Claimed> {
        let decision = transition::claim(found, claim, now, fresh);
        let count = self.claims.fetch_add(1, Ordering::SeqCst) + 1;
        if count >= self.once_in_claims
            && matches!(decision.outcome, Ok(Claimed::InProgress { .. }))
        {
            let acquired = transition::claim(None, claim, now, fresh);
            // A claim that never inserts is left to wait for the next one.
            if matches!(acquired.outcome, Ok(Claimed::Acquired(_))) {
                self.claims.store(0, Ordering::SeqCst);
                return acquired;
            }
        }
        decision
    }
}
