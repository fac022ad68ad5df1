//! Calls of hyper's client through the layer.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idem_retry::classify::Safety;
use idem_retry::tower::RetryLayer;
use idem_retry::{Budget, Destination, Failed, Reason, Replayable, Report, Why};
use tower::{Layer as _, ServiceExt as _};

use crate::quick;
use crate::server::{Server, Step, answer, in_flight};

async fn call<B>(
    layer: RetryLayer,
    request: Request<B>,
) -> Result<(Response<Replayable<Incoming>>, Report), Failed>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let client = Client::builder(TokioExecutor::new()).build_http::<Replayable<B>>();
    let response = layer.layer(client).oneshot(request).await?;
    let report = *response.extensions().get::<Report>().expect("the layer tells");
    Ok((response, report))
}

fn post(server: &Server, key: Option<&str>) -> http::request::Builder {
    let request = Request::post(&server.url);
    match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

fn streamed(chunks: &[&'static str]) -> impl http_body::Body<Data = Bytes, Error = std::io::Error> {
    let frames: Vec<_> =
        chunks.iter().map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes())))).collect();
    StreamBody::new(futures_util::stream::iter(frames))
}

fn created() -> Step {
    Step::Answer(answer("201 Created", "", "paid"))
}

fn unavailable() -> Step {
    Step::Answer(answer("503 Service Unavailable", "", "later"))
}

#[tokio::test]
async fn a_retry_sends_the_same_bytes_under_the_same_key() {
    let server = Server::new([unavailable(), Step::Cut, created()]).await;
    let layer = RetryLayer::new(quick().makes_keys(true));
    let request = post(&server, None).body(Full::<Bytes>::from("amount=4200")).unwrap();
    let (response, report) = call(layer, request).await.unwrap();
    assert_eq!((report.attempts, report.why), (3, None));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "paid");
    let received = server.received();
    let key = received[0].header("idempotency-key").expect("it was made");
    assert_eq!(received.len(), 3);
    for (request, announced) in received.iter().zip(["1;max=3", "2;max=3", "3;max=3"]) {
        assert_eq!(request.header("idempotency-key"), Some(key));
        assert_eq!(request.header("retry-attempt"), Some(announced));
        assert_eq!(request.body, b"amount=4200");
    }
}

#[tokio::test]
async fn without_a_key_it_is_sent_once_and_unknown() {
    let server = Server::new([Step::Cut]).await;
    let request = post(&server, None).body(Full::<Bytes>::from("x")).unwrap();
    let failed = call(RetryLayer::new(quick()), request).await.unwrap_err();
    assert!(failed.is_unknown(), "{failed}");
    assert_eq!(failed.report().why, Some(Why::Final(Reason::Unprotected)));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_known_not_to_have_carried_anything() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let request = Request::post(url).body(Full::<Bytes>::from("x")).unwrap();
    let layer = RetryLayer::new(quick().follows_redirects(false));
    let failed = call(layer, request).await.unwrap_err();
    assert!(!failed.is_unknown(), "{failed}");
    assert_eq!((failed.report().attempts, failed.report().why), (3, Some(Why::Attempts)));
}

#[tokio::test]
async fn whether_a_body_can_be_sent_again_is_decided_before_the_first_attempt() {
    // It does not state its size: passed on as it comes, once.
    let server = Server::new([unavailable()]).await;
    let request = post(&server, Some("k")).body(streamed(&["a", "bc"])).unwrap();
    let (response, report) = call(RetryLayer::new(quick()), request).await.unwrap();
    assert_eq!((report.attempts, report.why), (1, Some(Why::OneShot)));
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(server.received()[0].body, b"abc");

    // Read because the caller said so, and kept.
    let server = Server::new([unavailable(), created()]).await;
    let request = post(&server, Some("k")).body(streamed(&["a", "bc"])).unwrap();
    let layer = RetryLayer::new(quick()).reads_unsized(true).kept_bytes(3);
    let (_, report) = call(layer, request).await.unwrap();
    assert_eq!(report.attempts, 2);
    assert!(server.received().iter().all(|request| request.body == b"abc"));

    // Longer than what may be kept: whole, and once. So is one that states so.
    let layer = || RetryLayer::new(quick()).reads_unsized(true).kept_bytes(2);
    let server = Server::new([unavailable()]).await;
    let request = post(&server, Some("k")).body(streamed(&["a", "bc", "def"])).unwrap();
    let (_, report) = call(layer(), request).await.unwrap();
    assert_eq!((report.attempts, report.why), (1, Some(Why::OneShot)));
    assert_eq!(server.received()[0].body, b"abcdef");
    let server = Server::new([unavailable()]).await;
    let request = post(&server, Some("k")).body(Full::<Bytes>::from("abc")).unwrap();
    let (_, report) = call(layer(), request).await.unwrap();
    assert_eq!((report.attempts, report.why), (1, Some(Why::OneShot)));
    assert_eq!(server.received()[0].body, b"abc");
}

#[tokio::test]
async fn a_body_that_fails_before_anything_was_sent_is_no_attempt() {
    let server = Server::new([]).await;
    let body = StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, _>(
        std::io::Error::other("torn"),
    )]));
    let request = post(&server, Some("k")).body(body).unwrap();
    let failed = call(RetryLayer::new(quick()).reads_unsized(true), request).await.unwrap_err();
    assert_eq!((failed.report().attempts, failed.is_unknown()), (0, false));
    assert_eq!(failed.last_error().unwrap().to_string(), "torn");
    assert_eq!(server.received(), []);
}

#[tokio::test]
async fn a_409_of_ours_is_retried_and_its_body_is_given_whole() {
    let server = Server::new([in_flight(0), in_flight(0), in_flight(0)]).await;
    let request = post(&server, Some("k")).body(Full::<Bytes>::from("x")).unwrap();
    let (response, report) = call(RetryLayer::new(quick()), request).await.unwrap();
    assert_eq!((report.attempts, report.is_unknown), (3, true));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(br#"{"type":"urn:idem:problem:key-in-use""#), "{body:?}");
}

#[tokio::test]
async fn a_grpc_status_in_the_head_of_an_answer_is_read() {
    let status = |code: u32| {
        let headers = format!("content-type: application/grpc\r\ngrpc-status: {code}\r\n");
        Step::Answer(answer("200 OK", &headers, ""))
    };
    let server = Server::new([status(14), status(0)]).await;
    let request = post(&server, Some("k")).body(Full::<Bytes>::from("x")).unwrap();
    let (response, report) = call(RetryLayer::new(quick()).grpc(true), request).await.unwrap();
    assert_eq!(report.attempts, 2);
    assert_eq!(response.headers()["grpc-status"], "0");
    // Without the setting it is the answer.
    let server = Server::new([status(14)]).await;
    let request = post(&server, Some("k")).body(Full::<Bytes>::from("x")).unwrap();
    let (_, report) = call(RetryLayer::new(quick()), request).await.unwrap();
    assert_eq!(report.attempts, 1);
}

#[tokio::test]
async fn reads_and_writes_are_measured_apart() {
    let server = Server::new([created(), created()]).await;
    let destination = Destination::separate("apart", Budget::unlimited());
    let layer = RetryLayer::new(quick().destination(destination.clone()));
    let get = Request::get(&server.url).body(Full::<Bytes>::default()).unwrap();
    call(layer.clone(), get).await.unwrap();
    call(layer, post(&server, None).body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    let samples = |safety| destination.latency_of(safety).samples();
    assert_eq!((samples(Safety::Safe), samples(Safety::Neither)), (1, 1));
}
