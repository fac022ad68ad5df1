//! An attempt that goes on from an earlier one sees what that one saw (R15, R26, claim table).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::post as on_post;
use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, StatusCode, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use idem_core::engine::{Engine, Execution, Failure};
use idem_core::memory::MemoryStore;
use idem_core::operation::{Begun, Operation};
use idem_core::reply::Reply;
use idem_core::store::Store;
use idem_core::time::ManualClock;
use idem_http::handler::{Done, Exec, Fault};

use crate::support::world::{Effects, layer_on};
use crate::support::{LEASE, post, send};

fn json(key: &str, content_type: &str, body: &'static str) -> Request<Body> {
    post("/v1/charges?trace=1", key)
        .header("content-type", content_type)
        .header("content-length", body.len())
        .body(Body::from(body))
        .unwrap()
}

/// What each attempt saw of the request: the attempt, the headers, the body.
type Seen = Arc<Mutex<Vec<(u32, HeaderMap, Bytes)>>>;

#[tokio::test]
async fn a_second_attempt_sees_the_request_of_the_first() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let engine = Engine::builder(store).namespace("test").unwrap().build().unwrap();
    let operation = Operation::builder("charge").lease(LEASE).resumable().build().unwrap();
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let handler = move |exec: Exec, headers: HeaderMap, body: Bytes| async move {
        record.lock().unwrap().push((exec.attempt(), headers, body));
        match exec.attempt() {
            1 => Err(Fault::from(Failure::unknown("the gateway hung up"))),
            _ => Ok("charged"),
        }
    };
    let layer = layer_on(&engine, &operation);
    let app = Router::new().route("/v1/charges", on_post(handler).layer(layer));

    let first = json("k", "application/json", r#"{"amount": 100}"#);
    assert_eq!(send(&app, first).await.problem(), (409, "outcome-unknown".into()));
    clock.advance(LEASE);
    let respelt = json("k", "Application/JSON; charset=utf-8", r#"{"amount":1e2}"#);
    assert_eq!(send(&app, respelt).await.body, "charged");

    let seen = seen.lock().unwrap();
    let [(1, first, first_body), (2, second, second_body)] = &seen[..] else {
        panic!("two attempts: {seen:?}")
    };
    assert_eq!(first_body, second_body);
    assert_eq!(second_body, r#"{"amount": 100}"#);
    assert_eq!(second["content-type"], first["content-type"]);
    assert_eq!(second["content-length"], second_body.len().to_string());
    assert_eq!(second["authorization"], "Bearer alice", "what is not stored is the retry's");
}

/// Where requests are not compared, a retry may ask for something else: what runs is what the
/// first one asked for, its query and its trailers included, or nothing.
#[tokio::test]
async fn a_takeover_runs_what_the_first_request_asked_for_where_requests_are_not_compared() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let engine = Engine::builder(store).namespace("test").unwrap().build().unwrap();
    let operation = Operation::builder("event").lease(LEASE).resumable().without_comparison();
    let operation = operation.build().unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&seen);
    let handler = move |exec: Exec, Path(id): Path<u32>, uri: Uri, body: Body| async move {
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().is_some();
        let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        record.lock().unwrap().push(format!("{id} {uri} {body} {trailers}"));
        match exec.attempt() {
            1 => Err(Fault::from(Failure::unknown("the gateway hung up"))),
            _ => Ok("done"),
        }
    };
    let route = on_post(handler).layer(layer_on(&engine, &operation));
    let app = Router::new().nest("/v1", Router::new().route("/events/{id}", route));
    let request = |target: &str, body: &'static str| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(body.as_bytes())), Frame::trailers(trailers)];
        let frames = futures_util::stream::iter(frames.map(Ok::<_, std::io::Error>));
        post(target, "evt_1").body(Body::new(StreamBody::new(frames))).unwrap()
    };
    let first = send(&app, request("/v1/events/7?try=1", "first")).await;
    assert_eq!(first.problem(), (409, "outcome-unknown".into()));
    clock.advance(LEASE);
    let elsewhere = send(&app, request("/v1/events/8?try=1", "second")).await;
    assert_eq!(elsewhere.problem(), (422, "key-reused".into()));
    assert_eq!(send(&app, request("/v1/events/7?try=2", "second")).await.body, "done");
    assert_eq!(*seen.lock().unwrap(), ["7 /events/7?try=1 first false"; 2]);
}

struct Service {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    engine: Engine,
    effects: Effects,
    app: Router,
}

/// A charge whose HTTP handler checks the request and then calls the registered one, which fails
/// the first time after its effect.
fn service() -> Service {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let operation = Operation::builder("charge")
        .lease(LEASE)
        .resumable()
        .begun(Begun::ByHandler)
        .build()
        .unwrap();
    let effects = Effects::default();
    let engine = Engine::builder(store.clone())
        .namespace("test")
        .unwrap()
        .register(&operation, {
            let effects = effects.clone();
            move |execution| charge(execution, effects.clone())
        })
        .build()
        .unwrap();
    let handler = |exec: Exec, body: String| async move {
        if body.is_empty() {
            return Err(Fault::reject((StatusCode::BAD_REQUEST, "an amount is needed")));
        }
        Ok::<Done, Fault>(exec.registered().await?.into())
    };
    let layer = layer_on(&engine, &operation);
    let app = Router::new().route("/v1/charges", on_post(handler).layer(layer));
    Service { clock, store, engine, effects, app }
}

async fn charge(execution: Execution, effects: Effects) -> Result<Reply, Failure> {
    let input = execution.input().expect("it is stored").clone();
    let charged: u32 =
        execution.step("charge", |_| async move { Ok::<_, Failure>(effects.happen()) }).await?;
    if execution.attempt() == 1 {
        return Err(Failure::unknown("the process was killed"));
    }
    let target = String::from_utf8_lossy(input.target().unwrap()).into_owned();
    let body = String::from_utf8_lossy(input.body()).into_owned();
    Ok(Reply::new(201)?
        .with_header("location", format!("/v1/charges/{charged}"))
        .with_body(format!("{target} {body}")))
}

#[tokio::test]
async fn work_that_a_reconciler_resumed_is_replayed_to_the_client() {
    let service = service();
    let request = || json("k", "text/plain", "100 eur");
    assert_eq!(send(&service.app, request()).await.problem(), (409, "outcome-unknown".into()));
    service.clock.advance(LEASE);
    let lapsed = service.store.lapsed(None, 10).await.unwrap();
    let resumed = service.engine.resume(&lapsed.records[0]).await.unwrap();
    assert_eq!(resumed.attempt, 2);

    let answer = send(&service.app, request()).await;
    assert!(answer.is_replay());
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, Some("/v1/charges/1")));
    assert_eq!(answer.body, "/v1/charges?trace=1 100 eur");
    assert_eq!(service.effects.count(), 1, "the step was not called again");
}

#[tokio::test]
async fn a_retry_of_the_client_goes_on_from_the_recovery_point_too() {
    let service = service();
    let request = || json("k", "text/plain", "100 eur");
    assert_eq!(send(&service.app, request()).await.problem(), (409, "outcome-unknown".into()));
    service.clock.advance(LEASE + Duration::from_secs(1));
    let second = send(&service.app, request()).await;
    assert_eq!((second.status.as_u16(), second.is_replay()), (201, false));
    assert!(send(&service.app, request()).await.is_replay());
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_rejection_before_it_began_frees_the_key() {
    let service = service();
    let empty = json("k", "text/plain", "");
    assert_eq!(send(&service.app, empty).await.status, 400);
    assert_eq!(service.effects.count(), 0);
    let corrected = json("k", "text/plain", "100 eur");
    assert_eq!(send(&service.app, corrected).await.problem(), (409, "outcome-unknown".into()));
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn credentials_are_not_stored_with_the_input() {
    let service = service();
    let mut request = json("k", "text/plain", "100 eur");
    request.headers_mut().insert("cookie", "session=1".parse().unwrap());
    send(&service.app, request).await;
    service.clock.advance(LEASE);
    let lapsed = service.store.lapsed(None, 10).await.unwrap();
    let record = &lapsed.records[0].record;
    let sealed = record.input.as_ref().expect("it is stored");
    let stored = service.engine.codec().decode_input(sealed, &record.scope, &record.key).unwrap();
    let input = stored.input.unwrap();
    let names: Vec<_> = input.headers().iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, [b"content-type"]);
    assert_eq!(input.method().unwrap(), "POST");
}
