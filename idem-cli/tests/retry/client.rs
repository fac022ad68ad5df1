//! A client of the payments API whose network loses a share of the answers.

use std::net::SocketAddr;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use idem_cli::wire::{Answer, WireError};
use idem_retry::classify::{self, Fault, HttpRules, Traits};
use idem_retry::random::{Random, SplitMix};
use idem_retry::{Attempt, Attempted, Class, Destination, IdempotencyKey, Outcome, Retry};
use idem_testkit::faults::proxy::{self, Proxy};

use crate::support::payments::charge;
use crate::support::process::PATIENCE;

/// One in so many per cent is lost.
const LOST_PERCENT: u64 = 30;

/// A client with a network of its own.
pub(crate) struct Client {
    retry: Retry,
    destination: Destination,
    proxy: Proxy,
    random: SplitMix,
}

/// What one call came to, and what its network did.
pub(crate) struct Called {
    pub(crate) key: IdempotencyKey,
    pub(crate) amount: i64,
    pub(crate) outcome: Outcome<Answer, WireError>,
    /// How many of its answers were lost.
    pub(crate) lost: usize,
    /// The status of each answer that came through, in order.
    pub(crate) statuses: Vec<u16>,
}

impl Client {
    pub(crate) async fn new(
        server: SocketAddr,
        retry: Retry,
        destination: Destination,
        seed: u64,
    ) -> Self {
        let proxy = Proxy::to(server).await.unwrap();
        Self { retry, destination, proxy, random: SplitMix::from_seed(seed) }
    }

    /// Charges this amount, as one logical call.
    pub(crate) async fn charge(&self, amount: i64) -> Called {
        self.charge_under(IdempotencyKey::random(), amount).await
    }

    pub(crate) async fn charge_under(&self, key: IdempotencyKey, amount: i64) -> Called {
        let (lost_before, mut statuses) = (self.proxy.fired(), Vec::new());
        let call = self.retry.call(
            &self.destination,
            |attempted: Attempted<'_, Answer, WireError>| {
                if let Attempted::Answer(answer) = attempted {
                    statuses.push(answer.status);
                }
                classify(attempted)
            },
            |attempt| self.attempt(attempt, &key, amount),
        );
        let outcome = call.await;
        let lost = self.proxy.fired() - lost_before;
        Called { key, amount, outcome, lost, statuses }
    }

    async fn attempt(
        &self,
        attempt: Attempt,
        key: &IdempotencyKey,
        amount: i64,
    ) -> Result<Answer, WireError> {
        if self.random.next() % 100 < LOST_PERCENT {
            // All of the answer is lost, or it breaks off in its first bytes.
            let arrived = (self.random.next() % 2) * (self.random.next() % 100);
            self.proxy.arm(proxy::Fault::lose_reply().after(arrived));
        } else {
            self.proxy.disarm();
        }
        let mut headers = HeaderMap::new();
        attempt.announce(&mut headers);
        let announced = headers[idem_retry::ATTEMPT_HEADER].as_bytes();
        let request = charge(key.as_str(), amount).header("Retry-Attempt", announced);
        request.send(self.proxy.address(), PATIENCE).await
    }
}

fn classify(attempted: Attempted<'_, Answer, WireError>) -> Class {
    let (rules, request) = (HttpRules::new(), Traits::of(&Method::POST, true));
    let answer = match attempted {
        Attempted::Answer(answer) => answer,
        Attempted::Error(WireError::Connect(_)) => return rules.fault(request, Fault::NotSent),
        _ => return rules.fault(request, Fault::Lost),
    };
    let (status, headers) = (StatusCode::from_u16(answer.status).unwrap(), headers(answer));
    let problem = rules
        .needs_problem(status, &headers)
        .then(|| classify::problem_type(&answer.body))
        .flatten();
    let seen = classify::Answer::new(status, &headers, SystemTime::now());
    rules.answer(request, &seen.problem_type(problem.as_deref()))
}

fn headers(answer: &Answer) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}
