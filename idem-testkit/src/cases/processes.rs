//! Several processes on the same data (R2).

use std::time::Duration;

use idem_core::store::Store;

use crate::ask::{Ask, LONG, sealed};
use crate::capability::Capability;
use crate::case::Case;
use crate::context::{Context, acquire, key, present};
use crate::failure::{CaseResult, Failure, equal};
use crate::worker::{Told, Worker};

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "processes::one_winner",
            "R1, R2",
            "of the claims of several processes, exactly one wins each key",
            one_winner,
        ),
        Case::new(
            "processes::one_taker_of_a_dead_claim",
            "R2, R8",
            "of several processes that take over the same dead claims, one gets each",
            one_taker,
        ),
        Case::new(
            "processes::killed_holder",
            "R7, R10",
            "what a killed process held is free once its lease is over, and not before",
            killed_holder,
        ),
    ];
    cases.into_iter().map(|case| case.needing(&[Capability::Processes])).collect()
}

const KEYS: u32 = 40;

/// Lets three processes claim the same keys at once; which attempt won each, and how often.
async fn claim_together(cx: &Context) -> Result<Vec<Vec<u32>>, Failure> {
    let scope = cx.scope("s");
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(Worker::start(cx, &scope, KEYS, LONG).await?);
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    let mut won = vec![Vec::new(); KEYS as usize];
    for worker in &mut workers {
        for attempts in &mut won {
            match worker.told().await? {
                Told::Acquired { attempt } => attempts.push(attempt),
                Told::InProgress => {}
                Told::Other(other) => {
                    return Err(Failure::new("Acquired or InProgress", other));
                }
            }
        }
    }
    Ok(won)
}

async fn one_winner(cx: Context) -> CaseResult {
    for (number, attempts) in claim_together(&cx).await?.into_iter().enumerate() {
        equal(&format!("the attempts that won k{number}"), attempts, vec![1])?;
    }
    Ok(())
}

async fn one_taker(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    for number in 0..KEYS {
        let held = acquire(&peer, &cx.ask(&format!("k{number}"))).await?;
        peer.renew(&held.fence, Duration::ZERO).await?;
    }
    for (number, attempts) in claim_together(&cx).await?.into_iter().enumerate() {
        equal(&format!("the attempts that won k{number}"), attempts, vec![2])?;
    }
    Ok(())
}

async fn killed_holder(cx: Context) -> CaseResult {
    let peer = cx.connect().await?;
    // One lease that runs out soon, and one that does not.
    let mut brief = Worker::start(&cx, &cx.scope("s"), 1, cx.brief()).await?;
    let mut long = Worker::start(&cx, &cx.scope("long"), 1, LONG).await?;
    for worker in [&mut brief, &mut long] {
        worker.go().await?;
        equal("the worker's claim", worker.told().await?, Told::Acquired { attempt: 1 })?;
    }
    brief.kill().await?;
    long.kill().await?;
    let ask = cx.ask("k0");
    cx.lapse(&peer, &ask).await?;
    let taken = acquire(&peer, &ask).await?;
    equal("the attempt", taken.fence.attempt, 2)?;
    peer.complete(&taken.fence, &sealed("resumed")).await?;
    let held = Ask::new(cx.scope("long"), key("k0"), cx.owner());
    let seen = present(&peer, &held).await?;
    equal("how long the other one is lapsed", seen.lapsed_for(), None)
}
