//! Stores in which a new life of a key is not told from the old one.

use idem_core::claim::Claim;
use idem_core::codec::Sealed;
use idem_core::record::{Incarnation, Record, State};

use super::BrokenStore;
use super::rules::Rules;

pub(super) fn stores() -> Vec<BrokenStore> {
    vec![
        BrokenStore::new(
            "incarnation-from-the-owner",
            "the incarnation is the owner's bytes: a delayed copy of a claim brings back a fence",
            "R8",
            "table::expired_by_the_same_owner_is_a_new_life",
            IncarnationOfOwner,
        ),
        BrokenStore::new(
            "incarnation-always-the-same",
            "every life of a key has the same incarnation",
            "R8",
            "sweep::swept_key_is_new",
            OneIncarnation,
        ),
        BrokenStore::new(
            "new-life-goes-on-counting",
            "after expiry the attempt goes on from the old life's",
            "R8, R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, old| record.attempt = old.attempt + 1),
        ),
        BrokenStore::new(
            "new-life-keeps-the-old-input",
            "an insert over an expired record leaves the columns that it does not name",
            "R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, _| {
                if record.input.is_none() {
                    record.input = Some(Sealed::from_bytes(&b"old"[..]));
                }
            }),
        ),
        BrokenStore::new(
            "new-life-keeps-the-old-print",
            "an insert over an expired record leaves the old fingerprint",
            "R4, R11",
            "table::expired_is_inserted_anew",
            NewLife(|record, old| record.fingerprint = old.fingerprint),
        ),
    ]
}

struct IncarnationOfOwner;

impl Rules for IncarnationOfOwner {
    fn incarnation(&self, claim: &Claim<'_>) -> Incarnation {
        Incarnation::from_bytes(*claim.owner.as_bytes())
    }
}

struct OneIncarnation;

impl Rules for OneIncarnation {
    fn incarnation(&self, _: &Claim<'_>) -> Incarnation {
        Incarnation::from_bytes([1; 16])
    }
}

/// Something of an expired record gets into the life that takes its place.
struct NewLife(fn(&mut Record, &Record));

impl Rules for NewLife {
    fn stored(&self, mut record: Record, old: Option<&Record>) -> Record {
        if let Some(old) = old
            && matches!(old.state, State::Completed { .. })
            && old.incarnation != record.incarnation
        {
            (self.0)(&mut record, old);
        }
        record
    }
}
