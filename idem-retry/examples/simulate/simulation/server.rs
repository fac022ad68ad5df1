//! A service with a bounded queue, like most: it does not notice that a client has gone away, so
//! it works on requests that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) const WORKERS: u32 = 8;
pub(crate) const SERVICE_TIME: Duration = Duration::from_millis(64);
pub(crate) const QUEUE: usize = 200;

/// What it can do in a second.
pub(crate) const CAPACITY: u32 = 125;

/// The service. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    workers: Semaphore,
    waiting: AtomicUsize,
    hangs: (Instant, Instant),
}

/// There is no room in its queue.
#[derive(Debug)]
pub(crate) struct Busy;

impl Server {
    /// A service that does nothing between these two instants.
    pub(crate) fn new(hangs: (Instant, Instant)) -> Self {
        let workers = Semaphore::new(WORKERS as usize);
        Self { shared: Arc::new(Shared { workers, waiting: AtomicUsize::new(0), hangs }) }
    }

    pub(crate) async fn handle(&self) -> Result<(), Busy> {
        if self.shared.waiting.load(Ordering::Relaxed) >= QUEUE {
            return Err(Busy);
        }
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let server = self.clone();
        let work = tokio::spawn(async move { server.work().await });
        work.await.expect("the work does not panic");
        Ok(())
    }

    async fn work(&self) {
        let _worker = self.shared.workers.acquire().await.expect("it is never closed");
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        let (from, until) = self.shared.hangs;
        if (from..until).contains(&Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
        tokio::time::sleep(SERVICE_TIME).await;
    }
}
