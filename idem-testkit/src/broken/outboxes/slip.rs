//! The mistakes, one for each broken outbox.

/// What an outbox does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slip {
    /// Nothing.
    None,
    /// A push holds no lock of its ordering key, so a later one commits first.
    LocksNoKey,
    /// A push is committed at once, on another connection.
    PushesOutside,
    /// Numbers are given at the push, and relays look past the highest they have seen.
    PassesOverLateCommits,
    /// A batch comes in the order of the topics.
    OrdersByTopic,
    /// A lease holds its messages, and not their ordering keys.
    HoldsNoKeys,
    /// What others hold is not looked at.
    SeesNoLeases,
    /// A batch is bounded by messages, and not by bytes.
    CountsNoBytes,
    /// A message that failed is put aside, and those behind it are sent.
    FailuresStepAside,
    /// What is behind a dead letter is sent, whatever was asked for.
    PassesTheDead,
    /// A settlement is by the message's id.
    SettlesUnfenced,
    /// A lease that ran out is lost, though nobody took over.
    LapsedIsLost,
    /// A settlement that arrives again is lost.
    RepeatIsLost,
    /// A renewal says Ok and sets nothing.
    RenewsNothing,
    /// What was sent is deleted whatever its age.
    DeletesTheYoung,
    /// What is not waiting is deleted, dead letters among it.
    DeletesTheDead,
    /// A dead letter that is put back is deleted from the dead, and pushed nowhere.
    ForgetsOnRequeue,
    /// A dead letter that is put back goes to the end of its ordering key.
    RequeuesAtTheEnd,
    /// The backlog counts what was sent and is not deleted yet.
    CountsTheSent,
    /// A page has one entry more than its limit.
    PagesTooLong,
}
