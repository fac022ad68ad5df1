//! Waits that the other side asks for, and work that never ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::faulty::Faulty;
use super::{Book, LEASE, outbox_of, relay};
use crate::housekeeping::{Chore, Stop};
use crate::outbox::{LeaseMessages, MemoryOutbox, MessageState, Outbox, OutboxMessage};
use crate::relay::{Relay, SinkError};

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
async fn more_sent_messages_than_one_pass_deletes_are_deleted_soon() {
    let outbox = outbox_of(&[("t", ""); 500]);
    let book = Book::new(|_, _| Ok(Duration::ZERO));
    let mut relay = relay(&outbox, &book).sent_retention(Some(Duration::from_secs(60)));
    relay.settings.delete_batch = 1;
    let stop = Stop::new();
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        // They are old after a minute, it is looked every minute, and 20 go in a pass.
        () = sleep(Duration::from_secs(60 + 60 + 100)) => {}
    }
    let sent = outbox.list(MessageState::Sent, None, 1_000).await.unwrap().entries.len();
    assert_eq!(sent, 0);
}

#[tokio::test(start_paused = true)]
async fn sent_messages_that_another_relay_deletes_are_left_to_it() {
    let outbox = Faulty::new(&outbox_of(&[]), |_, _| false);
    outbox.sent_are_locked.store(true, Ordering::SeqCst);
    let relay = Relay::new(outbox.clone(), Book::new(|_, _| Ok(Duration::ZERO)));
    let stop = Stop::new();
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = sleep(Duration::from_secs(600)) => {}
    }
    let asked = outbox.deletes.load(Ordering::SeqCst);
    assert!((10..=21).contains(&asked), "once in half a minute to a minute, not {asked} times");
}

/// Pushes one each time for ever.
async fn pushing(outbox: &MemoryOutbox, topic: &str, each: Duration) {
    loop {
        outbox.push(OutboxMessage::new(topic, "").unwrap()).unwrap();
        sleep(each).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_ends_though_there_is_always_something_to_deliver() {
    let outbox = outbox_of(&[("t", ""); 100]);
    let book = Book::new(|_, _| Ok(Duration::from_millis(100)));
    // Sixteen at once are 160 in a second, and 200 come.
    let relay = relay(&outbox, &book);
    let stop = Stop::new();
    tokio::select! {
        pass = relay.pass(&stop) => assert!(pass.is_ok()),
        () = pushing(&outbox, "t", Duration::from_millis(5)) => {}
        () = sleep(Duration::from_secs(60)) => panic!("it does not end"),
    }
    assert!(book.attempts("t").len() > 1_500, "{}", book.attempts("t").len());
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_tries_to_end_does_not_keep_others_waiting_for_slow_deliveries() {
    let outbox = outbox_of(&[("slow", "")]);
    let book = Book::new(|message, _| match message.topic() {
        "quick" => Ok(Duration::ZERO),
        _ => Ok(Duration::from_secs(9)),
    });
    let relay = relay(&outbox, &book);
    let quick = async {
        sleep(Duration::from_secs(13)).await;
        outbox.push(OutboxMessage::new("quick", "").unwrap()).unwrap();
        sleep(Duration::from_secs(2)).await;
    };
    let stop = Stop::new();
    tokio::select! {
        _ = relay.pass(&stop) => panic!("something slow is always in hand"),
        () = pushing(&outbox, "slow", Duration::from_secs(1)) => {}
        () = quick => {}
    }
    assert_eq!(book.attempts("quick").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_has_its_turn_though_there_is_always_something_slow_to_deliver() {
    let outbox = outbox_of(&[("suspect", "")]);
    for _ in 0..6 {
        outbox.lease(&LeaseMessages::new(LEASE, 1)).await.unwrap();
        sleep(LEASE).await;
    }
    let book = Book::new(|_, _| Ok(Duration::from_secs(12)));
    let relay = relay(&outbox, &book);
    let stop = Stop::new();
    let pushes = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(120) {
            outbox.push(OutboxMessage::new("t", "").unwrap()).unwrap();
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = pushes => {}
    }
    assert_eq!(book.attempts("suspect").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_another_relay_took_slows_nothing_down() {
    let outbox = outbox_of(&[("suspect", "")]);
    for _ in 0..5 {
        outbox.lease(&LeaseMessages::new(LEASE, 1)).await.unwrap();
        sleep(LEASE).await;
    }
    outbox.push(OutboxMessage::new("slow", "").unwrap()).unwrap();
    let book = Book::new(|message, _| match message.topic() {
        "quick" => Ok(Duration::ZERO),
        _ => Ok(Duration::from_secs(3)),
    });
    let relay = relay(&outbox, &book);
    let others = async {
        sleep(Duration::from_millis(10)).await;
        // It was given back, and goes to somebody else.
        let taken = outbox.lease(&LeaseMessages::new(LEASE, 1)).await.unwrap();
        assert_eq!(taken.messages[0].message.topic(), "suspect");
        // After 3 s its turn is over, and the slow ones are taken.
        sleep(Duration::from_millis(4_490)).await;
        outbox.push(OutboxMessage::new("quick", "").unwrap()).unwrap();
        sleep(Duration::from_millis(1_400)).await;
    };
    tokio::select! {
        _ = relay.once() => panic!("something slow is always in hand"),
        () = pushing(&outbox, "slow", Duration::from_secs(1)) => {}
        () = others => {}
    }
    assert_eq!(book.attempts("quick").len(), 1, "while slow ones are on their way");
}
