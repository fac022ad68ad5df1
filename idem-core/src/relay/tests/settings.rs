//! Settings at the ends of their ranges.

use std::time::Duration;

use super::{Book, outbox_of};
use crate::relay::Relay;

#[tokio::test(start_paused = true)]
async fn no_setting_is_too_large_or_too_small_to_work() {
    for (span, count, at_once) in [(Duration::ZERO, 0, 0), (Duration::MAX, u32::MAX, usize::MAX)] {
        let outbox = outbox_of(&[("a1", "a"), ("a2", "a"), ("free", "")]);
        let book = Book::new(|_, _| Ok(Duration::ZERO));
        let relay = Relay::new(outbox, book.clone())
            .interval(span)
            .batch(count)
            .concurrency(at_once)
            .delivery_limit(span.max(Duration::from_secs(1)))
            .max_attempts(count)
            .waits(span, span)
            .sent_retention(Some(span));
        // A lease of no time at all holds nothing.
        let relay = relay.lease(span.max(Duration::from_secs(1)));
        assert_eq!(relay.once().await.unwrap().sent, 3, "{span:?}");
    }
}
