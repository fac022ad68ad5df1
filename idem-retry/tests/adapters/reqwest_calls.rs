//! Calls of reqwest, alone and through reqwest-middleware.

use idem_retry::classify::{Safety, Traits};
use idem_retry::reqwest::{RetryMiddleware, send};
use idem_retry::{Budget, Destination, Failed, HttpRetry, Last, Outcome, Reason, Report, Why};
use reqwest::{Body, Client, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};

use crate::quick;
use crate::server::{Server, Step, answer, in_flight};

fn client(retry: HttpRetry) -> ClientWithMiddleware {
    ClientBuilder::new(Client::new()).with(RetryMiddleware::new(retry)).build()
}

fn created() -> Step {
    Step::Answer(answer("201 Created", "", "paid"))
}

fn unavailable() -> Step {
    Step::Answer(answer("503 Service Unavailable", "", "later"))
}

fn report(response: &Response) -> Report {
    *response.extensions().get::<Report>().expect("the middleware tells")
}

fn failed(error: Error) -> Failed {
    let Error::Middleware(error) = error else { panic!("{error:?}") };
    error.downcast().unwrap()
}

#[tokio::test]
async fn a_retry_sends_the_same_bytes_under_the_same_key() {
    let server = Server::new([unavailable(), Step::Cut, created()]).await;
    let client = client(quick().makes_keys(true));
    let response = client.post(&server.url).body("amount=4200").send().await.unwrap();
    let told = report(&response);
    assert_eq!((told.attempts, told.is_replayed, told.is_unknown), (3, false, false));
    assert_eq!(told.why, None);
    assert_eq!(response.url().as_str(), server.url);
    assert_eq!(response.text().await.unwrap(), "paid");
    let received = server.received();
    assert_eq!(received.len(), 3);
    let key = received[0].header("idempotency-key").expect("it was made");
    assert_eq!(key.len(), 36);
    for (request, announced) in received.iter().zip(["1;max=3", "2;max=3", "3;max=3"]) {
        assert_eq!(request.header("idempotency-key"), Some(key));
        assert_eq!(request.header("retry-attempt"), Some(announced));
        assert_eq!(request.body, b"amount=4200");
    }
}

#[tokio::test]
async fn the_callers_own_key_stays_and_a_replay_is_final() {
    let replayed = answer("500 Internal Server Error", "idempotent-replayed: true\r\n", "first");
    let server = Server::new([Step::Cut, Step::Answer(replayed)]).await;
    let client = client(quick().makes_keys(true));
    let request = client.post(&server.url).header("idempotency-key", "order-7");
    let response = request.send().await.unwrap();
    let told = report(&response);
    assert_eq!((told.attempts, told.is_replayed, told.why), (2, true, None));
    assert_eq!((response.status().as_u16(), response.text().await.unwrap()), (500, "first".into()));
    for request in server.received() {
        assert_eq!(request.header("idempotency-key"), Some("order-7"));
    }
}

#[tokio::test]
async fn a_post_without_a_key_is_sent_once_and_what_became_of_it_is_unknown() {
    let server = Server::new([Step::Cut]).await;
    let failed = failed(client(quick()).post(&server.url).body("x").send().await.unwrap_err());
    assert!(failed.is_unknown());
    let told = failed.report();
    assert_eq!((told.attempts, told.why), (1, Some(Why::Final(Reason::Unprotected))));
    assert!(failed.last_error().is_some());
    assert!(failed.to_string().contains("may have been applied"), "{failed}");
    assert_eq!(server.received().len(), 1);

    let server = Server::new([Step::Answer(answer("502 Bad Gateway", "", "?"))]).await;
    let response = client(quick()).post(&server.url).body("x").send().await.unwrap();
    let told = report(&response);
    assert_eq!((told.attempts, told.is_unknown), (1, true));
    assert_eq!(told.why, Some(Why::Final(Reason::Unprotected)));
    assert_eq!(response.text().await.unwrap(), "?");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_known_not_to_have_carried_anything() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let without_redirects = Client::builder().redirect(reqwest::redirect::Policy::none());
    let direct = ClientBuilder::new(without_redirects.build().unwrap())
        .with(RetryMiddleware::new(quick().follows_redirects(false)))
        .build();
    let known = failed(direct.post(&url).body("x").send().await.unwrap_err());
    assert!(!known.is_unknown(), "{known}");
    assert_eq!((known.report().attempts, known.report().why), (3, Some(Why::Attempts)));
    // With redirects it may be the second hop that is refused.
    let failed = failed(client(quick()).post(&url).body("x").send().await.unwrap_err());
    assert!(failed.is_unknown(), "{failed}");
    assert_eq!(failed.report().attempts, 1);
}

#[tokio::test]
async fn a_redirect_to_what_is_not_there_does_not_repeat_what_was_done() {
    for target in ["http://127.0.0.1:1/receipt", "ftp://127.0.0.1/receipt"] {
        let location = format!("location: {target}\r\n");
        let server = Server::new([Step::Answer(answer("303 See Other", &location, ""))]).await;
        let failed = failed(client(quick()).post(&server.url).body("x").send().await.unwrap_err());
        assert!(failed.is_unknown(), "{target}: {failed}");
        assert_eq!(server.received().len(), 1, "{target}");
    }
}

#[tokio::test]
async fn a_503_that_says_that_the_reply_was_not_stored_is_not_given_up_as_undone() {
    let not_stored = || {
        Step::Answer(answer(
            "503 Service Unavailable",
            "content-type: application/problem+json\r\nretry-after: 0\r\n",
            r#"{"type":"urn:idem:problem:reply-not-stored"}"#,
        ))
    };
    let server = Server::new([not_stored(), not_stored(), not_stored()]).await;
    let request = client(quick()).post(&server.url).header("idempotency-key", "k");
    let told = report(&request.send().await.unwrap());
    assert_eq!((told.attempts, told.is_unknown), (3, true));
}

#[tokio::test]
async fn a_body_of_one_shot_has_one_attempt_and_an_answer() {
    let server = Server::new([unavailable()]).await;
    let body = Body::wrap(http_body_util::StreamBody::new(futures_util::stream::iter([Ok::<
        _,
        std::io::Error,
    >(
        http_body::Frame::data(bytes::Bytes::from("streamed")),
    )])));
    let request = client(quick()).post(&server.url).header("idempotency-key", "k").body(body);
    let response = request.send().await.unwrap();
    let told = report(&response);
    assert_eq!((told.attempts, told.why), (1, Some(Why::OneShot)));
    assert_eq!(response.status().as_u16(), 503);
    let received = server.received();
    assert_eq!((received.len(), &received[0].body[..]), (1, &b"streamed"[..]));
}

#[tokio::test]
async fn a_409_of_ours_is_retried_and_its_body_is_given_whole() {
    let server = Server::new([in_flight(0), created()]).await;
    let keyed = |url: &str| client(quick()).post(url).header("idempotency-key", "k");
    let response = keyed(&server.url).send().await.unwrap();
    assert_eq!((response.status().as_u16(), report(&response).attempts), (201, 2));

    // Another 409 is an answer; so is one whose document is too large to be looked at.
    for (step, bytes) in [
        (
            Step::Answer(answer(
                "409 Conflict",
                "content-type: application/problem+json\r\n",
                "{}",
            )),
            2,
        ),
        (in_flight(100_000), 100_051),
    ] {
        let server = Server::new([step]).await;
        let response = keyed(&server.url).send().await.unwrap();
        assert_eq!((response.status().as_u16(), report(&response).attempts), (409, 1));
        assert_eq!(response.url().as_str(), server.url);
        assert_eq!(response.bytes().await.unwrap().len(), bytes);
    }

    let server = Server::new([in_flight(0), in_flight(0), in_flight(0)]).await;
    let response = keyed(&server.url).send().await.unwrap();
    let told = report(&response);
    assert_eq!((told.attempts, told.why, told.is_unknown), (3, Some(Why::Attempts), true));
    assert!(response.text().await.unwrap().starts_with(r#"{"type":"urn:idem:problem:key-in-use""#));
}

#[tokio::test]
async fn an_outcome_without_middleware_and_a_post_that_only_searches() {
    let server = Server::new([unavailable(), unavailable(), created()]).await;
    let client = Client::new();
    let request = || client.post(&server.url).body("q").build().unwrap();
    let searches = Traits::new(Safety::Safe, false);
    match send(&quick(), &client, request(), Some(searches)).await {
        Outcome::Answered(answered) => {
            assert_eq!((answered.attempts, answered.answer.status().as_u16()), (3, 201));
        }
        other => panic!("{other:?}"),
    }
    let server = Server::new([unavailable()]).await;
    let request = client.post(&server.url).body("q").build().unwrap();
    match send(&quick(), &client, request, None).await {
        Outcome::Unknown(unfinished) => {
            assert_eq!((unfinished.attempts, server.received().len()), (1, 1));
            assert!(matches!(unfinished.last, Last::Answer(answer) if answer.status() == 503));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn reads_and_writes_are_measured_apart() {
    let server = Server::new([created(), created(), created(), created()]).await;
    let destination = Destination::separate("apart", Budget::unlimited());
    let retry = quick().destination(destination.clone());
    let client = client(retry.clone());
    client.get(&server.url).send().await.unwrap();
    client.get(&server.url).send().await.unwrap();
    client.post(&server.url).send().await.unwrap();
    // A POST that only searches.
    let search = Client::new().post(&server.url).build().unwrap();
    let traits = Traits::new(Safety::Safe, false);
    let _ = send(&retry, &Client::new(), search, Some(traits)).await;
    let samples = |safety| destination.latency_of(safety).samples();
    assert_eq!(samples(Safety::Safe), 3);
    assert_eq!((samples(Safety::Idempotent), samples(Safety::Neither)), (0, 1));
    assert_eq!(destination.latency().samples(), 0);
}
