//! Stores whose transaction does not hold together what it should.

use super::BrokenStore;
use super::rules::{InTransaction, Rules};

pub(super) fn stores() -> Vec<BrokenStore> {
    let broken = |name, mistake, rules, caught_by, lever| {
        BrokenStore::new(name, mistake, rules, caught_by, Lever(lever))
    };
    vec![
        broken(
            "claim-commits-by-itself",
            "a claim inside a transaction is committed at once, on another connection",
            "R19",
            "transactions::one_commit_rolled_back",
            InTransaction::ClaimsOutside,
        ),
        broken(
            "reply-commits-by-itself",
            "a reply inside a transaction stands although the handler's rows are rolled back",
            "R19",
            "transactions::claim_first_rolls_back_rows_and_reply",
            InTransaction::CompletesOutside,
        ),
        broken(
            "recovery-point-commits-by-itself",
            "a recovery point stands although its step's rows are rolled back",
            "R19",
            "transactions::rows_of_a_step_commit_with_its_checkpoint",
            InTransaction::ChecksPointsOutside,
        ),
        broken(
            "repeat-inside-is-ok",
            "a completion that finds itself done says Ok, and the rows beside it stand twice",
            "R5, R19",
            "transactions::completion_run_again_is_refused",
            InTransaction::RepeatedCompletionIsOk,
        ),
        broken(
            "repeated-step-is-ok",
            "a checkpoint that finds itself done says Ok, and its step's rows stand twice",
            "R5, R19",
            "transactions::checkpoint_run_again_is_refused",
            InTransaction::RepeatedCheckpointIsOk,
        ),
        broken(
            "dropped-transaction-commits",
            "a transaction that is dropped is committed",
            "R19, R25",
            "transactions::dropped_is_rolled_back",
            InTransaction::DropCommits,
        ),
        broken(
            "savepoint-loses-the-claim",
            "undoing to the savepoint takes back the claim as well",
            "R19",
            "transactions::savepoint_keeps_the_claim",
            InTransaction::SavepointMarksNothing,
        ),
        broken(
            "savepoint-keeps-the-rows",
            "undoing to the savepoint keeps what was written since",
            "R19",
            "transactions::savepoint_keeps_the_claim",
            InTransaction::UndoesNothing,
        ),
        broken(
            "message-leaves-at-once",
            "a message is sent although its transaction rolls back",
            "R21",
            "transactions::messages_commit_with_the_reply",
            InTransaction::PushesOutside,
        ),
        broken(
            "hold-looks-at-nothing",
            "a holder that was taken over is told that it holds its record",
            "R8, R19",
            "transactions::hold_in_checks_the_fence",
            InTransaction::HoldsAnything,
        ),
        broken(
            "commit-forgets-the-rows",
            "the reply is committed, and the handler's rows are not",
            "R19",
            "transactions::claim_first_commits_rows_and_reply",
            InTransaction::CommitsTheRecordAlone,
        ),
        broken(
            "rollback-commits",
            "a rollback commits, since the driver does so when it closes",
            "R19",
            "transactions::claim_first_rolls_back_rows_and_reply",
            InTransaction::RollbackCommits,
        ),
        broken(
            "claim-waits-for-ever",
            "a claim waits for somebody's open transaction for as long as that takes",
            "R6",
            "transactions::claim_behind_an_uncommitted_claim",
            InTransaction::WaitsForEver,
        )
        .hanging(),
        broken(
            "lease-counted-from-before-the-wait",
            "a claim that waited for a lock gets a lease that is already over",
            "R6",
            "transactions::never_born_lapsed",
            InTransaction::CountsFromBeforeTheWait,
        ),
    ]
}

struct Lever(InTransaction);

impl Rules for Lever {
    fn transaction(&self) -> InTransaction {
        self.0
    }
}
