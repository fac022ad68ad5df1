//! For a caller that must know the outcome.

use std::time::Duration;

use super::{MAX_ATTEMPTS, Policy, PolicyError};

/// For the attempts themselves, and for a server that has to start first.
const ROOM: Duration = Duration::from_secs(30);

impl Policy {
    /// For a caller that must know what came of its call, where the server may die at work and its
    /// record is then leased for `lease`: it goes on until two leases and 30 s are over.
    ///
    /// One lease is that of a server that died. The second is for the attempt that takes the work
    /// over and may be lost too. The deadline ends the call, not the attempts ([`MAX_ATTEMPTS`]);
    /// the backoff grows from 1 s to a tenth of the deadline, since waiting is all there is to do.
    ///
    /// With a lease of 30 s it is about ten attempts until that lease is over, and twice as many
    /// until the deadline. Each retry takes from the destination's budget. The default one allows
    /// one in a second, enough for a handful of calls that wait at the same time; where more of them
    /// do, [configure](crate::Destination::configure) one with a higher
    /// [floor](crate::budget::BudgetBuilder::floor).
    ///
    /// It is still not certain: a server that stays away, or one that works longer than that and
    /// renews its lease, leaves the outcome unknown. Go on later, under the same key.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idem_retry::Policy;
    ///
    /// // The lease that the server's operation has.
    /// let policy = Policy::outlasting(Duration::from_secs(30))?;
    /// assert_eq!(policy.deadline(), Duration::from_secs(90));
    /// # Ok::<_, idem_retry::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// [`PolicyError::Deadline`] when the deadline would be over [`MAX_SPAN`](super::MAX_SPAN).
    pub fn outlasting(lease: Duration) -> Result<Self, PolicyError> {
        let deadline = lease.saturating_mul(2).saturating_add(ROOM);
        Self::builder()
            .base(Duration::from_secs(1))
            .cap(deadline / 10)
            .attempts(MAX_ATTEMPTS)
            .deadline(deadline)
            .build()
    }
}
