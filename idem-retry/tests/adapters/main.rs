//! The adapters against a server that answers, refuses and breaks off by a script.

mod keys;
mod reqwest_calls;
mod server;
mod told;
mod tower_calls;

use std::time::Duration;

use idem_retry::{AttemptTimeout, HttpRetry, Policy};

/// Three attempts, close together.
fn quick() -> HttpRetry {
    let policy = Policy::builder()
        .base(Duration::from_millis(1))
        .throttled_base(Duration::from_millis(1))
        .attempt_timeout(AttemptTimeout::Fixed(Duration::from_secs(20)))
        .build()
        .unwrap();
    HttpRetry::new(policy)
}
