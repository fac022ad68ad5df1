//! Waits that the other side asks for, and work that never ends.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Book, outbox_of, relay};
use crate::housekeeping::{Chore, Stop};
use crate::outbox::{MessageState, Outbox, OutboxMessage};
use crate::relay::SinkError;

#[tokio::test(start_paused = true)]
async fn those_that_were_told_the_same_wait_do_not_come_back_together() {
    let topics: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let messages: Vec<_> = topics.iter().map(|topic| (topic.as_str(), "")).collect();
    let outbox = outbox_of(&messages);
    let asked = Duration::from_secs(60);
    let book = Book::new(move |_, attempt| match attempt {
        1 => Err(SinkError::retryable("503").retry_after(asked)),
        _ => Ok(Duration::ZERO),
    });
    let waits = Duration::from_secs(100);
    let relay = relay(&outbox, &book).waits(waits, waits).interval(Duration::from_millis(10));
    let stop = Stop::new();
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = sleep(Duration::from_secs(200)) => {}
    }
    let tries = topics.iter().map(|topic| book.attempts(topic));
    let waited: Vec<Duration> = tries.map(|tries| tries[1] - tries[0]).collect();
    let (least, most) = (*waited.iter().min().unwrap(), *waited.iter().max().unwrap());
    assert!(least >= asked, "{least:?}");
    // Fifty random waits of up to 100 s are not all within ten.
    assert!(most - least > Duration::from_secs(10), "{least:?} to {most:?}");
}

#[tokio::test(start_paused = true)]
async fn sent_messages_are_deleted_though_there_is_always_something_to_deliver() {
    let outbox = outbox_of(&[]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(5)));
    let kept = Duration::from_secs(60);
    let relay = relay(&outbox, &book).sent_retention(Some(kept));
    let stop = Stop::new();
    let pushes = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1_200) {
            outbox.push(OutboxMessage::new("t", "").unwrap()).unwrap();
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = pushes => {}
    }
    let sent = outbox.list(MessageState::Sent, None, 1_000).await.unwrap().entries.len();
    assert!(book.attempts("t").len() > 1_150, "{}", book.attempts("t").len());
    assert!(sent < 150, "{sent} sent ones are kept");
}

#[tokio::test(start_paused = true)]
async fn a_pass_ends_though_there_is_always_something_to_deliver() {
    let outbox = outbox_of(&[]);
    let book = Book::new(|_, _| Ok(Duration::from_secs(5)));
    let relay = relay(&outbox, &book);
    let pushes = async {
        loop {
            outbox.push(OutboxMessage::new("t", "").unwrap()).unwrap();
            sleep(Duration::from_secs(1)).await;
        }
    };
    let stop = Stop::new();
    let began = Instant::now();
    tokio::select! {
        pass = relay.pass(&stop) => assert!(pass.is_ok()),
        () = pushes => {}
        () = sleep(Duration::from_secs(600)) => panic!("it does not end"),
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
