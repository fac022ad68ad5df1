//! Three of ten answers are lost. What was charged is what the card network's ledger holds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use idem_cli::network::CardNetwork;
use idem_retry::budget::Deposits;
use idem_retry::random::SplitMix;
use idem_retry::{AttemptTimeout, Budget, Destination, Outcome, Policy, Retry, Why};

use crate::client::{Called, Client};
use crate::support::payments::{Bench, RUNTIME};
use crate::support::process::{PATIENCE, Server};

const SEED: u64 = 20_261_129;
const CLIENTS: usize = 125;
const CALLS_OF_EACH: usize = 80;

fn policy(attempts: u32) -> Policy {
    Policy::builder()
        .base(Duration::from_millis(5))
        .attempts(attempts)
        .deadline(PATIENCE)
        .attempt_timeout(AttemptTimeout::Fixed(PATIENCE))
        .build()
        .unwrap()
}

/// All the calls of all the clients, at the same time; each has an amount of its own.
fn calls(server: &Server, destination: &Destination, policy: Policy, each: usize) -> Vec<Called> {
    println!("seed {SEED}");
    let retry = Retry::new(policy).random(SplitMix::from_seed(SEED));
    let clients = (0..CLIENTS).map(|client| {
        let (retry, destination) = (retry.clone(), destination.clone());
        let address = server.address;
        RUNTIME.spawn(async move {
            let seed = SEED ^ ((client as u64) << 32);
            let network = Client::new(address, retry, destination, seed).await;
            let mut called = Vec::new();
            for call in 0..each {
                called.push(network.charge(100 + (client * each + call) as i64).await);
            }
            called
        })
    });
    let clients: Vec<_> = clients.collect();
    let joined = clients.into_iter().map(|client| RUNTIME.block_on(client).unwrap());
    joined.flatten().collect()
}

/// The amount of every charge in the ledger, by its id.
fn ledger(bench: &Bench) -> HashMap<String, i64> {
    let network = CardNetwork::new(&bench.network.url(), PATIENCE).unwrap();
    let mut charges = HashMap::new();
    loop {
        let page = RUNTIME.block_on(network.ledger(None, charges.len())).unwrap();
        for entry in page.data {
            let (id, amount) = (entry.charge.id, entry.charge.request.amount as i64);
            assert_eq!(charges.insert(id, amount), None, "an id is there twice");
        }
        if !page.has_more {
            assert_eq!(charges.len() as u64, page.effects);
            return charges;
        }
    }
}

#[test]
fn ten_thousand_calls_are_ten_thousand_charges() {
    let (bench, count) = (Bench::new(), CLIENTS * CALLS_OF_EACH);
    let server = bench.serve(&[]);
    // As many retries as calls: three of ten attempts fail, all the time.
    let budget = Budget::builder().deposits(Deposits::EachCall(10)).build().unwrap();
    let destination = Destination::separate("payments", budget);
    let called = calls(&server, &destination, policy(40), CALLS_OF_EACH);
    assert_eq!(called.len(), count);

    let charged = ledger(&bench);
    let (mut ids, mut lost, mut attempts) = (HashSet::new(), 0, 0);
    for call in &called {
        let Called { amount, lost: lost_here, statuses, .. } = call;
        let about = format!("{amount}: {lost_here} lost, {statuses:?}, {:?}", call.outcome);
        // The answer is that of the first attempt, or its replay where that was lost.
        let (answer, is_replay) = match &call.outcome {
            Outcome::Answered(answered) => (&answered.answer, false),
            Outcome::Replayed(answered) => (&answered.answer, true),
            _ => panic!("{about}"),
        };
        assert_eq!((answer.status, is_replay), (201, *lost_here > 0), "{about}");
        let charge = answer.json();
        assert_eq!(charge["amount"], *amount, "{about}");
        let id = charge["id"].as_str().unwrap().to_owned();
        assert_eq!(charged.get(&id), Some(amount), "{about}");
        assert!(ids.insert(id), "two calls have one charge: {about}");
        lost += lost_here;
        attempts += call.outcome.attempts() as usize;
    }
    // Exactly one charge for each call, and no other.
    assert_eq!((ids.len(), charged.len()), (count, count));
    assert_eq!(bench.ledger_of(crate::support::payments::TOKEN).effects, count as u64);
    println!("{attempts} attempts, {lost} answers lost, {} charges", charged.len());
    let share = lost as f64 / attempts as f64;
    assert!((0.28..0.32).contains(&share), "{share}");
    assert_eq!(destination.stats().calls, count as u64);
    assert_eq!(destination.stats().retries as usize, attempts - count);
    assert_eq!(destination.stats().refused_by_budget, 0);
}

#[test]
fn a_call_whose_answer_was_lost_for_good_is_unknown_and_was_charged() {
    let bench = Bench::new();
    let server = bench.serve(&[]);
    let destination = Destination::separate("payments", Budget::default());
    let called = calls(&server, &destination, policy(1), 4);

    let charged: HashSet<i64> = ledger(&bench).into_values().collect();
    assert_eq!(charged.len(), called.len());
    let again = Client::new(server.address, Retry::new(policy(40)), destination, SEED);
    let again = RUNTIME.block_on(again);
    let mut unknown = 0;
    for call in called {
        assert!(charged.contains(&call.amount));
        match call.outcome {
            Outcome::Answered(answered) => {
                assert_eq!((answered.answer.status, call.lost), (201, 0));
            }
            Outcome::Unknown(unfinished) => {
                assert_eq!((unfinished.why, call.lost), (Why::Attempts, 1));
                unknown += 1;
                // Whoever goes on under the same key finds out, and charges nothing.
                let settled = RUNTIME.block_on(again.charge_under(call.key, call.amount));
                assert!(matches!(settled.outcome, Outcome::Replayed(_)), "{:?}", settled.outcome);
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{unknown} unknown");
    assert!(unknown > 100);
    assert_eq!(ledger(&bench).len(), charged.len());
}
