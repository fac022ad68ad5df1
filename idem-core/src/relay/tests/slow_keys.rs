//! Keys whose messages take long, and all the others.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Book, LEASE, outbox_of, relay};
use crate::housekeeping::Stop;
use crate::outbox::{LeaseMessages, Outbox, OutboxMessage};

#[tokio::test(start_paused = true)]
async fn a_slow_key_with_many_messages_does_not_keep_others_waiting() {
    for keys in [1, 3, 15] {
        let outbox = outbox_of(&[]);
        for number in 0..300 {
            let slow = OutboxMessage::new(number.to_string(), "").unwrap();
            outbox.push(slow.ordered_by(format!("slow {}", number % keys)).unwrap()).unwrap();
        }
        outbox.push(OutboxMessage::new("free", "").unwrap()).unwrap();
        outbox.push(OutboxMessage::new("free", "").unwrap().ordered_by("b").unwrap()).unwrap();
        let book = Book::new(|message, _| match message.topic() {
            "free" => Ok(Duration::ZERO),
            _ => Ok(Duration::from_secs(10)),
        });
        let began = Instant::now();
        let (relay, stop) = (relay(&outbox, &book), Stop::new());
        tokio::select! {
            () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
            () = sleep(Duration::from_secs(4_000)) => {}
        }
        let waited: Vec<_> = book.attempts("free").iter().map(|at| *at - began).collect();
        assert_eq!(waited.len(), 2);
        assert!(waited.iter().all(|waited| *waited < Duration::from_secs(30)), "{keys} {waited:?}");
        assert_eq!(outbox.backlog().await.unwrap().waiting, 0);
        let mut last = vec![None; keys];
        for number in book.topics().iter().filter_map(|topic| topic.parse::<usize>().ok()) {
            assert!(last[number % keys].replace(number) < Some(number), "{keys}: {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_does_not_keep_a_suspect_and_all_others_waiting() {
    let outbox = outbox_of(&[("suspect", "")]);
    for _ in 0..6 {
        outbox.lease(&LeaseMessages::new(LEASE, 1)).await.unwrap();
        sleep(LEASE).await;
    }
    for _ in 0..90 {
        outbox.push(OutboxMessage::new("slow", "").unwrap().ordered_by("a").unwrap()).unwrap();
    }
    let book = Book::new(|message, _| match message.topic() {
        "slow" => Ok(Duration::from_secs(10)),
        _ => Ok(Duration::ZERO),
    });
    let (relay, stop) = (relay(&outbox, &book), Stop::new());
    let pushes = async {
        sleep(Duration::from_secs(5)).await;
        outbox.push(OutboxMessage::new("free", "").unwrap()).unwrap();
        sleep(Duration::from_secs(25)).await;
    };
    tokio::select! {
        () = relay.run(&stop) => unreachable!("nobody asks it to stop"),
        () = pushes => {}
    }
    assert_eq!((book.attempts("suspect").len(), book.attempts("free").len()), (1, 1));
}
