//! Starts several things at the same instant, as nearly as a scheduler allows, and now and then
//! a moment apart: some races are only lost by whoever comes second.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::context::Context;
use crate::failure::Failure;

/// Futures that start together, each on a task of its own.
pub(crate) struct Together<T>(Vec<BoxFuture<'static, T>>);

impl<T: Send + 'static> Together<T> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    #[must_use]
    pub(crate) fn and(mut self, run: impl Future<Output = T> + Send + 'static) -> Self {
        self.0.push(run.boxed());
        self
    }

    /// Runs all of them; their answers in the order in which they were added.
    pub(crate) async fn run(self, cx: &Context) -> Result<Vec<T>, Failure> {
        let barrier = Arc::new(Barrier::new(self.0.len()));
        let tasks: Vec<_> = self.0.into_iter().map(|run| start(cx, &barrier, run)).collect();
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            answers.push(finished(task).await?);
        }
        Ok(answers)
    }
}

/// Runs two things of different types together.
pub(crate) async fn both<A: Send + 'static, B: Send + 'static>(
    cx: &Context,
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> Result<(A, B), Failure> {
    let barrier = Arc::new(Barrier::new(2));
    let first = start(cx, &barrier, first);
    let second = start(cx, &barrier, second);
    let (first, second) = (finished(first).await, finished(second).await);
    Ok((first?, second?))
}

fn start<T: Send + 'static>(
    cx: &Context,
    barrier: &Arc<Barrier>,
    run: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (barrier, late) = (barrier.clone(), Late::draw(cx));
    tokio::spawn(async move {
        barrier.wait().await;
        late.wait().await;
        run.await
    })
}

async fn finished<T>(task: JoinHandle<T>) -> Result<T, Failure> {
    task.await.map_err(|error| Failure::new("no panic", error.to_string()))
}

/// How much later than the others one of them starts.
#[derive(Clone, Copy)]
enum Late {
    Not,
    Yields(usize),
    Sleeps(Duration),
}

impl Late {
    fn draw(cx: &Context) -> Self {
        let mut random = cx.random();
        match random.index(8) {
            0..=3 => Self::Not,
            4..=6 => Self::Yields(1 + random.index(6)),
            _ => Self::Sleeps(Duration::from_micros(200 * (1 + random.index(8) as u64))),
        }
    }

    async fn wait(self) {
        match self {
            Self::Not => {}
            Self::Yields(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Self::Sleeps(time) => tokio::time::sleep(time).await,
        }
    }
}
