//! Keys, bodies and tokens stay out of logs and problems (R24).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post as on_post;
use http::{Request, StatusCode};
use idem_core::error::{ErrorKind, Verb};
use idem_http::handler::{Exec, Fault};
use idem_http::{Disposition, Switch};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::{World, send};

/// Everything that is logged in this process at any level from its start on.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// For one test of the process: one subscriber sees them all. One of a thread would not do,
    /// since what is logged first by another thread is then not logged by any.
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("it is the only one");
        log
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const SECRETS: [&str; 5] =
    ["key-hunter2", "token-hunter2", "body-hunter2", "reply-hunter2", "query-hunter2"];

fn request(key: &str, body: &str) -> Request<Body> {
    Request::post("/charges?q=query-hunter2")
        .header("authorization", "Bearer token-hunter2")
        .header("idempotency-key", key)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

#[tokio::test]
async fn nothing_of_a_request_or_its_reply_is_logged_or_told_in_a_problem() {
    let log = Log::start();
    let world = World::new();
    let switch = Switch::new();
    let layer = world
        .layer_with(|operation| operation.claim_limit(Duration::from_millis(20)))
        .switch(&switch);
    let handler = |_: Option<Exec>, body: String| async move {
        match &body[..] {
            "panics" => panic!("the handler panics on purpose"),
            "fails" => Err(Fault::from(io::Error::other("no answer"))),
            "rejects" => Err(Fault::reject((StatusCode::BAD_REQUEST, "reply-hunter2"))),
            _ => Ok((Disposition::Store, "reply-hunter2")),
        }
    };
    let app = Router::new().route("/charges", on_post(handler).layer(layer));
    let mut problems = String::new();
    let key = |number: u32| format!("key-hunter2-{number}");
    for (number, body) in
        ["body-hunter2", "body-hunter2", "panics", "fails", "rejects"].iter().enumerate()
    {
        let answer = send(&app, request(&key(number as u32), body)).await;
        if answer.header("content-type") == Some("application/problem+json") {
            problems.push_str(&String::from_utf8_lossy(&answer.body));
        }
    }
    for bad in ["key-hunter2 key-hunter2", "key-hunter2, key-hunter2", "\"key-hunter2"] {
        problems.push_str(&String::from_utf8_lossy(&send(&app, request(bad, "")).await.body));
    }
    let other = send(&app, request(&key(0), "body-hunter2 again")).await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    problems.push_str(&String::from_utf8_lossy(&other.body));
    for kind in [ErrorKind::NotApplied, ErrorKind::CorruptRecord] {
        world.faults.fail(Verb::Claim, kind);
        let answer = send(&app, request(&key(9), "body-hunter2")).await;
        assert_eq!(answer.status, 503);
        problems.push_str(&String::from_utf8_lossy(&answer.body));
        world.faults.heal();
    }
    switch.turn_off();
    send(&app, request(&key(10), "body-hunter2")).await;

    let log = log.text();
    for secret in SECRETS {
        assert!(!log.contains(secret), "{secret} is logged:\n{log}");
        assert!(!problems.contains(secret), "{secret} is told:\n{problems}");
    }
    // What is logged is enough to find the request again.
    let (scope, key) = (
        idem_http::scope::hashed_header(http::header::AUTHORIZATION),
        idem_core::key::Key::new(key(0)).unwrap(),
    );
    let scope = scope(&request("k", "").into_parts().0).unwrap();
    let hash = world.engine.key_hasher().hash(&scope, &key).to_string();
    assert!(log.contains(&format!("key_hash={hash}")), "{log}");
    for said in ["executed", "rejected", "key-reused", "WITHOUT PROTECTION", "panicked"] {
        assert!(log.contains(said), "{said:?} is not in the log:\n{log}");
    }
}

#[test]
fn debug_shows_no_content() {
    use bytes::Bytes;
    use idem_http::ReplyBody;
    let body: ReplyBody<Body> = Bytes::from_static(b"reply-hunter2").into();
    assert_eq!(format!("{body:?}"), "ReplyBody(collected)");
    let world = World::new();
    assert!(format!("{:?}", world.layer()).starts_with("IdempotencyLayer"));
}
