//! What the log says, and a log that fails.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;

use super::{Book, LEASE, outbox_of, states};
use crate::outbox::{MessageState, Outbox};
use crate::relay::{Relay, SinkError};

/// Where the log of a test goes.
#[derive(Clone, Default)]
struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    /// The next line panics, and every one that is written because of that.
    panics: Arc<AtomicBool>,
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }

    fn starts(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }
}

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let panics = self.panics.swap(false, Ordering::SeqCst) || std::thread::panicking();
        assert!(!panics, "as the test wants it");
        self.text.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_dropped_tells_of_no_dead_letter() {
    let log = Log::default();
    let _guard = log.starts();
    let outbox = outbox_of(&[("slow", "")]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(10)));
    let relay = Relay::new(outbox.clone(), book.clone()).lease(LEASE).max_attempts(1);
    tokio::select! {
        _ = relay.once() => unreachable!("it takes 10 s"),
        () = book.began.notified() => {}
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(book.running.load(Ordering::SeqCst), 1, "it was dropped in its delivery");
    assert!(!log.text().contains("dead letters"), "{}", log.text());
    assert_eq!(states(&outbox, MessageState::Dead).await, [""; 0]);

    // What became one is told.
    let refuses = Book::new(|_, _| Err(SinkError::poison("422")));
    sleep(LEASE).await;
    Relay::new(outbox.clone(), refuses).once().await.unwrap();
    assert!(log.text().contains("a message goes to the dead letters"), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_leaves_no_message_in_hand() {
    let log = Log::default();
    let _guard = log.starts();
    let outbox = outbox_of(&[("bad", "a"), ("behind", "a"), ("good", "b")]);
    let panics = log.panics.clone();
    let book = Book::new(move |message, _| match message.topic() {
        "bad" => {
            panics.store(true, Ordering::SeqCst);
            Err(SinkError::retryable("503"))
        }
        _ => Ok(Duration::ZERO),
    });
    let relay = Relay::new(outbox.clone(), book.clone()).lease(LEASE);
    let relay = relay.waits(LEASE * 10, LEASE * 10);
    let done = relay.once().await.unwrap();
    assert_eq!((done.sent, done.failed, done.given_back), (1, 1, 1), "{done:?}");
    assert_eq!(states(&outbox, MessageState::Waiting).await, ["bad", "behind"]);
    assert_eq!(outbox.backlog().await.unwrap().leased, 0);
}
