//! What the end of an HTTP call says of its last attempt: a status or an error, and no secret.

use http_body_util::Full;
use idem_retry::reqwest::{RetryMiddleware, send};
use idem_retry::tower::RetryLayer;
use idem_retry::{Applied, Failed, HttpRetry, Outcome, Report, Unfinished, Why};
use reqwest::{Client, Response};
use reqwest_middleware::ClientBuilder;
use tower::{Layer as _, ServiceExt as _};

use crate::quick;
use crate::server::{Server, Step, answer, in_flight};

const SECRETS: [&str; 3] = ["token", "key-of-a-payment", "amount"];

type Ended = Unfinished<Response, reqwest::Error>;

fn direct() -> Client {
    Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// Where nobody listens.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1/charges", listener.local_addr().unwrap())
}

/// A keyed POST with secrets all over.
async fn post(retry: &HttpRetry, client: &Client, url: &str) -> Outcome<Response, reqwest::Error> {
    let request = client
        .post(format!("{url}?token=secret"))
        .header("idempotency-key", "key-of-a-payment")
        .body("amount=4200");
    send(retry, client, request.build().unwrap(), None).await
}

#[track_caller]
fn unknown(outcome: Outcome<Response, reqwest::Error>) -> Ended {
    let Outcome::Unknown(ended) = outcome else { panic!("{outcome:?}") };
    shows_no_secret(&ended.to_string());
    ended
}

#[track_caller]
fn shows_no_secret(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_409_in_flight_is_named_as_what_it_is() {
    let server = Server::new([Step::Cut, in_flight(0), in_flight(0)]).await;
    let ended = unknown(post(&quick(), &direct(), &server.url).await);
    assert_eq!((ended.status.map(|status| status.as_u16()), ended.is_in_flight), (Some(409), true));
    let text = ended.to_string();
    assert!(
        text.ends_with(
            "all attempts were made; the last answer was 409 Conflict (the first request under \
             the key still runs, or its lease is not over), to come back after 0ns; it may have \
             been applied"
        ),
        "{text}"
    );
    // The 409 of somebody else, a 502, and what the middleware tells.
    let server =
        Server::new([Step::Answer(answer("502 Bad Gateway", "", "x")), Step::Cut, in_flight(0)]);
    let server = server.await;
    let client = ClientBuilder::new(direct()).with(RetryMiddleware::new(quick())).build();
    let request = client.post(&server.url).header("idempotency-key", "k").body("x");
    let response = request.send().await.unwrap();
    let report = response.extensions().get::<Report>().unwrap();
    assert!(report.is_in_flight && report.hint.is_some(), "{report:?}");
    let server =
        Server::new([(); 3].map(|()| Step::Answer(answer("502 Bad Gateway", "", "x")))).await;
    let ended = unknown(post(&quick(), &direct(), &server.url).await);
    assert!(!ended.is_in_flight);
    assert!(ended.to_string().contains("the last answer was 502 Bad Gateway;"), "{ended}");
}

#[tokio::test]
async fn a_closed_port_is_named_and_nothing_was_applied() {
    let url = closed();
    let outcome = post(&quick().follows_redirects(false), &direct(), &url).await;
    let Outcome::GaveUp(ended) = outcome else { panic!("{outcome:?}") };
    assert_eq!((ended.applied, ended.why, ended.attempts), (Applied::No, Why::Attempts, 3));
    let text = ended.to_string();
    shows_no_secret(&text);
    assert!(text.starts_with("gave up after 3 attempts in "), "{text}");
    assert!(text.contains("the last attempt failed: Connection refused"), "{text}");
    assert!(text.ends_with("; it was not applied"), "{text}");
    // A client that follows redirects does not tell which hop was refused, and that is said.
    let text = unknown(post(&quick(), &Client::new(), &url).await).to_string();
    assert!(text.contains("Connection refused"), "{text}");
    assert!(text.contains("(perhaps after a redirect: see `follows_redirects`)"), "{text}");
}

#[tokio::test]
async fn one_attempt_that_was_lost_before_the_refused_ones_leaves_it_unknown() {
    let server = Server::new([Step::Leave]).await;
    let ended = unknown(post(&quick().follows_redirects(false), &direct(), &server.url).await);
    assert_eq!((ended.attempts, ended.applied), (3, Applied::Maybe));
    assert!(ended.to_string().contains("Connection refused"), "{ended}");
}

#[tokio::test]
async fn the_layer_and_the_middleware_say_the_same() {
    let url = closed();
    let retry = || quick().follows_redirects(false);
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    let client = client.build_http();
    let request = http::Request::post(&url).body(Full::<bytes::Bytes>::from("amount")).unwrap();
    let layered = RetryLayer::new(retry()).layer(client).oneshot(request).await.unwrap_err();
    let client = ClientBuilder::new(direct()).with(RetryMiddleware::new(retry())).build();
    let error = client.post(&url).body("amount").send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    for failed in [layered, error.downcast::<Failed>().unwrap()] {
        let text = failed.to_string();
        assert_eq!((failed.is_unknown(), failed.applied()), (false, Applied::No), "{text}");
        assert!(text.contains("the last attempt failed: Connection refused"), "{text}");
        assert!(text.ends_with("; it was not applied"), "{text}");
    }
}
