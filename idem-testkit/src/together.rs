//! Starts several things at the same instant, as nearly as a scheduler allows.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Barrier;

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
    pub(crate) async fn run(self) -> Result<Vec<T>, Failure> {
        let barrier = Arc::new(Barrier::new(self.0.len()));
        let tasks: Vec<_> = self
            .0
            .into_iter()
            .map(|run| {
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    run.await
                })
            })
            .collect();
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            let answer = task.await;
            answers.push(answer.map_err(|error| Failure::new("no panic", error.to_string()))?);
        }
        Ok(answers)
    }
}

/// Runs two things of different types together.
pub(crate) async fn both<A: Send + 'static, B: Send + 'static>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> Result<(A, B), Failure> {
    let barrier = Arc::new(Barrier::new(2));
    let other = barrier.clone();
    let first = tokio::spawn(async move {
        barrier.wait().await;
        first.await
    });
    let second = tokio::spawn(async move {
        other.wait().await;
        second.await
    });
    let panicked = |error: tokio::task::JoinError| Failure::new("no panic", error.to_string());
    let (first, second) = (first.await, second.await);
    Ok((first.map_err(panicked)?, second.map_err(panicked)?))
}
