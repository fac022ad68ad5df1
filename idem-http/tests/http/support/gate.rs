//! Holds a handler where a test wants it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Longer than anything here takes, however slow the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A handler passes through it; the test learns that it arrived, and says when it may go on.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// For the handler.
    pub(crate) async fn pass(&self) {
        self.arrived.add_permits(1);
        self.open.acquire().await.expect("the gate is never closed").forget();
    }

    /// For the test: waits until one more handler has arrived.
    pub(crate) async fn arrival(&self) {
        let arrived = timeout(PATIENCE, self.arrived.acquire()).await;
        arrived.expect("a handler arrives").expect("the gate is never closed").forget();
    }

    /// For the test: lets one handler go on.
    pub(crate) fn let_one_pass(&self) {
        self.open.add_permits(1);
    }
}
