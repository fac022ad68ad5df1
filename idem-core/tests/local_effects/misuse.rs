//! What a handler may not do with a transaction is refused before it does harm.

use idem_core::engine::{Engine, Execution, Failure, Misuse, RunError};
use idem_core::operation::{LocalForm, Operation};

use crate::store::TxStore;
use crate::{BOTH, World, body, ordered};

fn refuses<T>(result: Result<T, Failure>, misuse: Misuse) {
    let shown = result.err().expect("it is refused").to_string();
    assert!(shown.contains(&misuse.to_string()), "{shown}");
}

async fn step(execution: &Execution) -> Result<String, Failure> {
    execution.step("mail", |_| async { Ok::<_, std::io::Error>("sent".to_owned()) }).await
}

#[tokio::test(start_paused = true)]
async fn a_second_transaction_is_refused_while_one_is_open() {
    for form in BOTH {
        let world = World::new(form);
        let outcome = world
            .run(async |execution, store| {
                let first = ordered(&execution, &store).await?;
                refuses(execution.transaction(&store).await, Misuse::TransactionOpen);
                first.commit("first".to_owned()).await
            })
            .await
            .unwrap();
        assert_eq!((body(&outcome), world.rows()), ("first", 1));
    }
}

/// A call elsewhere from inside a transaction would hold the row for as long as that takes.
#[tokio::test(start_paused = true)]
async fn no_step_and_no_downstream_key_while_a_transaction_is_open() {
    let world = World::new(LocalForm::ClaimFirst);
    let outcome = world
        .run(async |execution, store| {
            execution.begin().await?;
            let open = ordered(&execution, &store).await?;
            refuses(step(&execution).await, Misuse::TransactionOpen);
            refuses(execution.downstream_key("mail").await, Misuse::TransactionOpen);
            refuses(execution.next_generation("mail").await, Misuse::TransactionOpen);
            assert_eq!(execution.done::<String>("mail").await?, None, "reading is allowed");
            open.commit("done".to_owned()).await
        })
        .await
        .unwrap();
    assert_eq!(body(&outcome), "done");
}

/// The reply stands: an effect after it would be on no record.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_after_the_commit() {
    let world = World::new(LocalForm::ClaimFirst);
    world
        .run(async |execution, store| {
            let committed = ordered(&execution, &store).await?.commit("done".to_owned()).await?;
            refuses(step(&execution).await, Misuse::ExecutionEnded);
            refuses(execution.downstream_key("mail").await, Misuse::ExecutionEnded);
            refuses(execution.next_generation("mail").await, Misuse::ExecutionEnded);
            refuses(execution.transaction(&store).await, Misuse::TransactionEnded);
            Ok(committed)
        })
        .await
        .unwrap();
    assert_eq!(world.rows(), 1);
}

/// An execution that the handler kept, used after its end.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_after_the_handler_has_ended() {
    for form in BOTH {
        let world = World::new(form);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        world
            .run(async move |execution, _| {
                sender.send(execution).ok();
                Ok("done".to_owned())
            })
            .await
            .unwrap();
        let execution = receiver.await.unwrap();
        refuses(execution.transaction(&world.store).await, Misuse::TransactionEnded);
        let misuse = match form {
            LocalForm::ClaimFirst => Misuse::ExecutionEnded,
            _ => Misuse::OneCommitHasNoSteps,
        };
        refuses(execution.downstream_key("mail").await, misuse);
        refuses(step(&execution).await, misuse);
        assert_eq!(body(&world.retry().await.unwrap()), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn the_one_commit_form_has_no_steps() {
    let world = World::new(LocalForm::OneCommit);
    world
        .run(async |execution, store| {
            refuses(step(&execution).await, Misuse::OneCommitHasNoSteps);
            refuses(execution.begin().await, Misuse::OneCommitHasNoSteps);
            let transaction = ordered(&execution, &store).await?;
            let stepped = transaction.commit_step("first", &1).await;
            refuses(stepped, Misuse::OneCommitHasNoSteps);
            Ok("done".to_owned())
        })
        .await
        .unwrap();
    assert_eq!((world.rows(), world.is_completed().await), (0, true));
}

#[tokio::test(start_paused = true)]
async fn the_one_commit_form_needs_the_engines_own_store() {
    let world = World::new(LocalForm::OneCommit);
    let lonely = Engine::builder(world.store.clone()).namespace("test").unwrap().build().unwrap();
    let refused = lonely.run(&world.operation, World::call(), async |_| Ok::<_, Failure>(())).await;
    assert!(matches!(refused, Err(RunError::Invalid { .. })));
    assert!(world.record().await.is_none());
}

/// Without protection there is no record to commit with.
#[tokio::test(start_paused = true)]
async fn an_unprotected_execution_has_no_transaction() {
    let world = World::with(LocalForm::ClaimFirst, |builder| {
        builder.store_down(idem_core::operation::StoreDown::RunWithoutProtection)
    });
    world.store.fail(idem_core::error::Verb::Claim, idem_core::error::ErrorKind::NotApplied);
    let result = world
        .run(async |execution, store| {
            refuses(execution.transaction(&store).await, Misuse::Unprotected);
            Ok("nothing done".to_owned())
        })
        .await
        .unwrap();
    assert_eq!((body(&result), result.stored, world.rows()), ("nothing done", false, 0));
}

/// Settings of any length are taken; none overflows.
#[tokio::test(start_paused = true)]
async fn the_longest_settings_do_not_overflow() {
    const LONGEST: std::time::Duration = std::time::Duration::MAX;
    for form in BOTH {
        let operation = Operation::builder("order")
            .local_form(form)
            .lease(LONGEST)
            .max_run_time(LONGEST)
            .transaction_limit(LONGEST)
            .claim_limit(LONGEST)
            .reply_delay_limit(LONGEST)
            .wait(LONGEST)
            .build()
            .unwrap();
        let world = World { operation, ..World::new(form) };
        assert_eq!(body(&world.order("created").await.unwrap()), "created");
        assert_eq!(body(&world.retry().await.unwrap()), "created");
        let _: TxStore = world.store;
    }
}
