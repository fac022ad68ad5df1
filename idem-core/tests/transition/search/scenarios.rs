//! Who calls, and how much may go wrong.

use super::model::{Does, Policy, Role};

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) roles: &'static [Role],
    /// How many requests may be lost, late or repeated, and how many replies lost.
    pub(super) faults: u8,
    pub(super) ticks: u8,
}

pub(super) fn all() -> &'static [Scenario] {
    SCENARIOS
}

const fn role(owner: u8, body: u8) -> Role {
    Role { owner, body, marks: true, policy: Policy::Below(3), does: Does::Acts, heartbeats: 0 }
}

const A: Role = role(0xa, 1);
const B: Role = role(0xb, 1);
const OTHER: Role = role(0xc, 2);

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a retry and another request", roles: &[A, B, OTHER], faults: 1, ticks: 3 },
    Scenario {
        name: "without marking begun; one finds the request invalid",
        roles: &[
            Role { marks: false, ..A },
            Role { marks: false, does: Does::Rejects, ..B },
            Role { marks: false, ..OTHER },
        ],
        faults: 1,
        ticks: 3,
    },
    Scenario {
        name: "rejections free the key",
        roles: &[Role { does: Does::Rejects, ..A }, Role { does: Does::Rejects, ..B }, OTHER],
        faults: 1,
        ticks: 3,
    },
    Scenario {
        name: "one rejects after it began",
        roles: &[Role { does: Does::RejectsLate, ..A }, OTHER],
        faults: 1,
        ticks: 3,
    },
    Scenario {
        name: "two recovery points",
        roles: &[
            Role { does: Does::ActsAndRecords, ..A },
            Role { does: Does::ActsAndRecords, ..B },
        ],
        faults: 1,
        ticks: 3,
    },
    Scenario { name: "heartbeats", roles: &[Role { heartbeats: 2, ..A }, B], faults: 1, ticks: 3 },
    Scenario {
        name: "giving up",
        roles: &[Role { heartbeats: 1, does: Does::GivesUp, ..A }, B],
        faults: 2,
        ticks: 3,
    },
    Scenario {
        name: "a reconciler",
        roles: &[A, OTHER, Role { policy: Policy::Reconciles, ..role(0xd, 1) }],
        faults: 1,
        ticks: 4,
    },
    Scenario {
        name: "hold",
        roles: &[
            Role { policy: Policy::Never, ..A },
            Role { policy: Policy::Never, ..B },
            Role { policy: Policy::Never, ..OTHER },
        ],
        faults: 1,
        ticks: 3,
    },
    Scenario {
        name: "two releases, one of which does not mark begun",
        roles: &[A, Role { marks: false, ..B }, OTHER],
        faults: 1,
        ticks: 3,
    },
];
