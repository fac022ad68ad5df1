//! Rows of a step that is not the last commit together with its recovery point (R19).

use idem_core::engine::{Execution, Failure, RunError};
use idem_core::operation::LocalForm;
use idem_core::reply::Reply;
use tokio::time::sleep;

use crate::store::{Commit, TxStore};
use crate::{LEASE, LIMIT, World, body, ordered};

/// Reserves stock in one transaction, charges, and writes the order in a second one.
async fn order(
    execution: Execution,
    store: TxStore,
    dies_after: &'static str,
    charged: impl Fn(String),
) -> Result<Reply, Failure> {
    let reserved: u32 = match execution.done("reserve").await? {
        Some(reserved) => reserved,
        None => {
            let mut transaction = execution.transaction(&store).await?;
            transaction.connection().insert("reserved");
            transaction.commit_step("reserve", &7_u32).await?;
            7
        }
    };
    dies(dies_after == "reserve")?;
    let charge: String = execution
        .step("charge", |key| async move {
            charged(key.to_string());
            Ok::<_, std::io::Error>("ch_1".to_owned())
        })
        .await?;
    dies(dies_after == "charge")?;
    let transaction = ordered(&execution, &store).await?;
    dies(dies_after == "order")?;
    Ok(transaction.commit(format!("{reserved} {charge}")).await?.into())
}

fn dies(now: bool) -> Result<(), Failure> {
    if now { Err(Failure::unknown("killed")) } else { Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn each_step_is_done_once_wherever_the_execution_is_killed() {
    for dies_after in ["reserve", "charge", "order"] {
        let world = World::new(LocalForm::ClaimFirst);
        let calls = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let run = async |dies_after| {
            let calls = std::sync::Arc::clone(&calls);
            world
                .run(async move |execution, store| {
                    order(execution, store, dies_after, |key| calls.lock().unwrap().push(key)).await
                })
                .await
        };
        let error = run(dies_after).await.unwrap_err();
        // Something stands or may stand, so it is not told as rolled back.
        assert!(matches!(error, RunError::Unknown), "{dies_after}: {error}");
        // A transaction prolongs the lease by its own limit.
        sleep(LEASE + LIMIT).await;
        let outcome = run("never").await.unwrap();
        assert_eq!((body(&outcome), outcome.attempt), ("7 ch_1", 2), "{dies_after}");
        assert_eq!(world.store.rows().rows, ["reserved", "order"], "{dies_after}");
        assert_eq!(calls.lock().unwrap().len(), 1, "{dies_after}: the charge is on record");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lost_acknowledgement_of_a_step_is_resolved_by_the_record() {
    for (fate, stands) in [
        (Commit::Unacknowledged { applied: true }, true),
        (Commit::Silent { applied: true }, true),
        (Commit::Pending { applied: true, after: LEASE / 10 }, true),
        (Commit::Unacknowledged { applied: false }, false),
        (Commit::NotApplied, false),
    ] {
        let world = World::new(LocalForm::ClaimFirst);
        world.store.commits_go([fate]);
        let result = world
            .run(async |execution, store| order(execution, store, "never", |_| {}).await)
            .await;
        match result {
            Ok(outcome) => assert!(stands && body(&outcome) == "7 ch_1", "{fate:?}"),
            Err(error) => {
                // It is known that nothing stands.
                assert!(!stands && matches!(error, RunError::RolledBack), "{fate:?} {error}");
                sleep(LEASE + LIMIT).await;
                let next = world
                    .run(async |execution, store| order(execution, store, "never", |_| {}).await)
                    .await
                    .unwrap();
                assert_eq!(body(&next), "7 ch_1");
            }
        }
        assert_eq!(world.store.rows().rows, ["reserved", "order"], "{fate:?}");
    }
}

/// The record stands at the step before: the second one is not taken for done.
#[tokio::test(start_paused = true)]
async fn the_second_step_is_not_taken_for_the_first() {
    let world = World::new(LocalForm::ClaimFirst);
    let result = world
        .run(async |execution, store| {
            for step in ["first", "second"] {
                let mut transaction = execution.transaction(&store).await?;
                transaction.connection().insert(step);
                let committed = transaction.commit_step(step, &1).await;
                assert_eq!(committed.is_ok(), step == "first");
                committed?;
                store.commits_go([Commit::Unacknowledged { applied: false }]);
            }
            Ok(())
        })
        .await;
    // Rows of the first one stand, so it is not told as rolled back.
    assert!(matches!(result, Err(RunError::Unknown)), "{result:?}");
    assert_eq!(world.store.rows().rows, ["first"]);
}

/// A step beside a transaction waits for the row, and its recovery point follows.
#[tokio::test(start_paused = true)]
async fn a_step_that_ends_while_a_transaction_is_open_is_recorded_after_it() {
    let world = World::new(LocalForm::ClaimFirst);
    let outcome = world
        .run(async |execution, store| {
            let beside = execution.clone();
            let charge = tokio::spawn(async move {
                beside
                    .step("charge", |_| async {
                        sleep(LEASE / 10).await;
                        Ok::<_, std::io::Error>("ch_1".to_owned())
                    })
                    .await
            });
            sleep(LEASE / 30).await;
            let mut transaction = execution.transaction(&store).await?;
            transaction.connection().insert("reserved");
            sleep(LEASE / 6).await;
            assert!(!charge.is_finished(), "it waits for the row");
            transaction.commit_step("reserve", &1).await?;
            assert_eq!(charge.await??, "ch_1");
            assert_eq!(execution.done::<String>("charge").await?.as_deref(), Some("ch_1"));
            ordered(&execution, &store).await?.commit("done".to_owned()).await
        })
        .await
        .unwrap();
    assert_eq!((body(&outcome), world.rows()), ("done", 2));
}
