//! Calls of reqwest, and a middleware for reqwest-middleware.
//!
//! ```
//! use idem_retry::{HttpRetry, Policy, Report, reqwest::RetryMiddleware};
//!
//! # let call = async move {
//! // Without redirects a refused connection is known to have carried nothing.
//! let direct = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
//! // Our server honours keys, so every POST may have one.
//! let retry = HttpRetry::new(Policy::default()).follows_redirects(false).makes_keys(true);
//! let client = reqwest_middleware::ClientBuilder::new(direct)
//!     .with(RetryMiddleware::new(retry))
//!     .build();
//! let response = client.post("http://bank.example/v1/charges").body("amount=4200").send().await?;
//! let report = response.extensions().get::<Report>().expect("the middleware tells");
//! if report.is_unknown {
//!     // A 502, say: the charge may have been made. Look before charging again.
//! }
//! # Ok::<_, reqwest_middleware::Error>(())
//! # };
//! # drop(call);
//! ```
//!
//! [`send`] and [`send_under_key`] give the [`Outcome`] itself and need no middleware. Through the
//! middleware a call has a key of the caller's as an extension: `request.with_extension(key)`.
//!
//! A body that reqwest cannot clone, as a stream is, can be sent once only: the call has one
//! attempt, and its end says [`Why::OneShot`](crate::Why::OneShot).
//!
//! The client's own redirects and its own retries happen inside one attempt. Turn its retries of
//! refused HTTP/2 streams off, or count them in. Build it with `redirect::Policy::none()` and say so
//! ([`HttpRetry::follows_redirects`]), as above: where every attempt was refused, the call is then
//! [given up](Outcome::GaveUp), surely not applied. With redirects it is unknown: the errors of
//! reqwest do not tell the first hop from the one after it, and the first may have had its effect.

use std::sync::Mutex;

use http::{Extensions, HeaderMap, StatusCode};
use reqwest::{Body, Client, Request, Response, ResponseBuilderExt as _, Url};
use reqwest_middleware::{Middleware, Next};

use crate::adapter::{Failed, HttpRetry, Prepared, Report, Said, Seen, cause_of, front_of};
use crate::attempt::Attempt;
use crate::classify::{Fault, MAX_PROBLEM_BYTES, Traits, problem_type};
use crate::key::IdempotencyKey;
use crate::outcome::Outcome;

/// Sends a request until it is answered.
///
/// A [`Traits`] for the request may say what its method does not, as of a POST that only searches.
///
/// # Cancel safety
/// Dropped, it makes no further attempt. What the attempt under way came to is unknown.
pub async fn send(
    retry: &HttpRetry,
    client: &Client,
    request: Request,
    traits: Option<Traits>,
) -> Outcome<Response, reqwest::Error> {
    send_as(retry, client, request, Said { traits, key: None }).await
}

/// Sends a request under this key until it is answered: as [`send`], with the key header set on
/// each attempt, unless the request has it already.
///
/// ```
/// use idem_retry::{HttpRetry, IdempotencyKey, Outcome, reqwest::send_under_key};
///
/// /// `stored` was written together with the decision to pay, before anything was sent. Whoever
/// /// finds an order without an outcome calls this, after a restart too.
/// async fn pay(
///     retry: &HttpRetry,
///     client: &reqwest::Client,
///     stored: &str,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let key: IdempotencyKey = stored.parse()?;
///     let request = client.post("http://bank.example/v1/charges").body("amount=4200").build()?;
///     match send_under_key(retry, client, request, &key).await {
///         Outcome::Answered(answered) | Outcome::Replayed(answered) => {
///             println!("store with the order: {}", answered.answer.status());
///         }
///         Outcome::GaveUp(why) => println!("not paid, may be tried again: {why}"),
///         Outcome::Unknown(why) => println!("go on later, under the same key: {why}"),
///         other => println!("{other:?}"),
///     }
///     Ok(())
/// }
/// ```
///
/// # Cancel safety
/// As [`send`].
pub async fn send_under_key(
    retry: &HttpRetry,
    client: &Client,
    request: Request,
    key: &IdempotencyKey,
) -> Outcome<Response, reqwest::Error> {
    send_as(retry, client, request, Said { traits: None, key: Some(key.clone()) }).await
}

/// Retries what goes through a client of reqwest-middleware.
///
/// Put it before what has to see every attempt, such as a middleware that signs. It is the one
/// that retries: take others of that kind out.
#[derive(Debug, Clone)]
pub struct RetryMiddleware {
    retry: HttpRetry,
}

impl RetryMiddleware {
    /// With these settings.
    pub fn new(retry: HttpRetry) -> Self {
        Self { retry }
    }
}

#[async_trait::async_trait]
impl Middleware for RetryMiddleware {
    /// Responses have a [`Report`] among their extensions; where there is none at all, the error
    /// is one of a middleware, with a [`Failed`] inside.
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let prepared = prepare(&self.retry, &mut request, Said::in_extensions(extensions));
        let request = Source::new(request);
        // An attempt that is dropped leaves them as they were before it.
        let kept = Mutex::new(extensions.clone());
        let (prepared_ref, kept_ref) = (&prepared, &kept);
        let op = |attempt: Attempt| {
            let request = announced(prepared_ref, attempt, request.next());
            let next = next.clone();
            async move {
                let mut extensions = lock(kept_ref).clone();
                let response = next.run(request, &mut extensions).await;
                *lock(kept_ref) = extensions;
                Ok(read(prepared_ref, response?).await?)
            }
        };
        let fault_of = |error: &reqwest_middleware::Error| match error {
            reqwest_middleware::Error::Reqwest(error) => fault_of(error),
            // Another middleware's: what it did before it failed is not known.
            reqwest_middleware::Error::Middleware(_) => Fault::Lost,
        };
        let outcome =
            prepared.run(head, |_, _, _| None, fault_of, |error| cause_of(error), op).await;
        *extensions = lock(&kept).clone();
        match Failed::split(outcome) {
            Ok((seen, report)) => Ok(reported(seen.response, report)),
            Err(failed) => Err(reqwest_middleware::Error::middleware(failed)),
        }
    }
}

async fn send_as(
    retry: &HttpRetry,
    client: &Client,
    mut request: Request,
    said: Said,
) -> Outcome<Response, reqwest::Error> {
    let prepared = prepare(retry, &mut request, said);
    let request = Source::new(request);
    let op = async |attempt: Attempt, request| {
        let request = announced(&prepared, attempt, request);
        read(&prepared, client.execute(request).await?).await
    };
    let op = |attempt| op(attempt, request.next());
    let outcome = prepared.run(head, |_, _, _| None, fault_of, |error| cause_of(error), op).await;
    Seen::responses(outcome)
}

/// What an error of reqwest says of the request.
pub fn fault_of(error: &reqwest::Error) -> Fault {
    if error.is_connect() {
        Fault::NotSent
    } else if error.is_builder() {
        Fault::Unusable
    } else if error.is_decode() {
        Fault::AnswerCut
    } else {
        Fault::Lost
    }
}

/// The request of each attempt.
struct Source {
    whole: Option<Request>,
    once: Mutex<Option<Request>>,
}

impl Source {
    fn new(request: Request) -> Self {
        match request.try_clone() {
            Some(whole) => Self { whole: Some(whole), once: Mutex::default() },
            None => Self { whole: None, once: Mutex::new(Some(request)) },
        }
    }

    fn next(&self) -> Request {
        let again = self.whole.as_ref().and_then(Request::try_clone);
        again.or_else(|| lock(&self.once).take()).expect("a body of one shot has one attempt")
    }
}

fn prepare(retry: &HttpRetry, request: &mut Request, said: Said) -> Prepared {
    let one_shot = request.body().is_some_and(|body| body.as_bytes().is_none());
    let (method, destination) = (request.method().clone(), authority(request.url()));
    retry.prepare(&method, &destination, request.headers_mut(), said, one_shot)
}

fn authority(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

fn announced(prepared: &Prepared, attempt: Attempt, mut request: Request) -> Request {
    prepared.announce(attempt, request.headers_mut());
    request
}

fn head(response: &Response) -> (StatusCode, &HeaderMap) {
    (response.status(), response.headers())
}

/// Reads as much of an answer as its meaning needs, and puts it together again.
async fn read(prepared: &Prepared, response: Response) -> Result<Seen<Response>, reqwest::Error> {
    if !prepared.rules().needs_problem(response.status(), response.headers()) {
        return Ok(Seen { response, problem_type: None });
    }
    let url = response.url().clone();
    let (parts, body) = http::Response::from(response).into_parts();
    let body = front_of(body, MAX_PROBLEM_BYTES).await?;
    let problem_type = problem_type(body.front()).filter(|_| body.is_whole());
    let mut rebuilt = http::Response::builder().url(url).body(Body::wrap(body)).expect("no header");
    *rebuilt.status_mut() = parts.status;
    *rebuilt.version_mut() = parts.version;
    *rebuilt.headers_mut() = parts.headers;
    rebuilt.extensions_mut().extend(parts.extensions);
    Ok(Seen { response: rebuilt.into(), problem_type })
}

fn reported(mut response: Response, report: Report) -> Response {
    response.extensions_mut().insert(report);
    response
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
