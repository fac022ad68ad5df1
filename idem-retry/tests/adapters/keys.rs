//! Calls under a key that the caller kept.

use http_body_util::Full;
use idem_retry::reqwest::{RetryMiddleware, send_under_key};
use idem_retry::tower::RetryLayer;
use idem_retry::{IdempotencyKey, Outcome};
use reqwest::Client;
use reqwest_middleware::ClientBuilder;
use tower::{Layer as _, ServiceExt as _};

use crate::quick;
use crate::server::{Server, Step, answer};

fn replayed() -> Step {
    Step::Answer(answer("201 Created", "idempotent-replayed: true\r\n", "paid"))
}

fn keys(server: &Server) -> Vec<String> {
    let received = server.received();
    received.iter().map(|it| it.header("idempotency-key").unwrap_or("none").to_owned()).collect()
}

#[tokio::test]
async fn after_a_restart_the_call_goes_on_under_the_stored_key() {
    let server = Server::new([Step::Cut, Step::Cut, Step::Cut, replayed()]).await;
    let client = Client::new();
    let request = || client.post(&server.url).body("amount=4200").build().unwrap();
    let stored = {
        let key = IdempotencyKey::random();
        let stored = key.to_string();
        let outcome = send_under_key(&quick(), &client, request(), &key).await;
        assert!(outcome.is_unknown(), "{outcome:?}");
        stored
    };
    let key: IdempotencyKey = stored.parse().unwrap();
    match send_under_key(&quick(), &client, request(), &key).await {
        Outcome::Replayed(answered) => assert_eq!(answered.answer.status().as_u16(), 201),
        other => panic!("{other:?}"),
    }
    assert_eq!(keys(&server), [0; 4].map(|_| stored.clone()));
}

#[tokio::test]
async fn the_middleware_and_the_layer_take_the_key_of_a_request() {
    let key = IdempotencyKey::new("order 7").unwrap();
    let server = Server::new([Step::Cut, replayed(), Step::Cut, replayed()]).await;
    let client = ClientBuilder::new(Client::new())
        .with(RetryMiddleware::new(quick().makes_keys(true)))
        .build();
    let request = client.post(&server.url).with_extension(key.clone()).body("x");
    assert_eq!(request.send().await.unwrap().status().as_u16(), 201);

    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    let layered = RetryLayer::new(quick().makes_keys(true)).layer(client.build_http());
    let request = http::Request::post(&server.url).extension(key);
    let request = request.body(Full::<bytes::Bytes>::from("x")).unwrap();
    assert_eq!(layered.oneshot(request).await.unwrap().status().as_u16(), 201);
    // It has a space, so that it goes in quotes.
    assert_eq!(keys(&server), [r#""order 7""#; 4]);
}

#[tokio::test]
async fn a_header_of_the_caller_stays() {
    let server = Server::new([replayed()]).await;
    let client = Client::new();
    let request = client.post(&server.url).header("idempotency-key", "theirs").build().unwrap();
    let _ = send_under_key(&quick(), &client, request, &IdempotencyKey::random()).await;
    assert_eq!(keys(&server), ["theirs"]);
}
