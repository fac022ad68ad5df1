//! Concurrent histories, checked for an order that explains them.

use std::time::Duration;

use crate::case::Case;
use crate::context::Context;
use crate::failure::{CaseResult, Failure, that};
use crate::history::Hunt;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "history::few_clients",
            "R1-R11",
            "what three clients at once are told is explained by some order of their calls",
            |cx| hunt(cx, 3, Duration::from_millis(1_500)),
        ),
        Case::new(
            "history::several_clients",
            "R1-R11",
            "what six clients at once are told is explained by some order of their calls",
            |cx| hunt(cx, 6, Duration::from_millis(1_500)),
        ),
    ]
}

/// As many operations as are worth waiting for on a store that is fast.
const MOST: usize = 20_000;

async fn hunt(cx: Context, clients: usize, budget: Duration) -> CaseResult {
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(cx.store().await?);
    }
    let hunt = Hunt::new(cx.scope("hunt"), cx.seed())
        .clients(clients)
        .budget(budget)
        .most_operations(MOST);
    match hunt.run(&connections).await {
        Ok(checked) => that(checked.undecided * 2 <= checked.keys, "most keys decided", checked),
        Err(violation) => {
            Err(Failure::new("a history that the rules explain", violation.to_string()))
        }
    }
}
