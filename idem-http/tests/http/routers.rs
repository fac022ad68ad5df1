//! Where the layer can stand in axum, and what it sees there (case 71).

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::routing::{MethodRouter, post as on_post};
use http::{Request, Response, StatusCode, Uri};
use idem_core::operation::Operation;
use idem_http::{ClientUri, Disposition, IdempotencyLayer, RequestBody, Scoped, scope};
use tower::{Layer, Service, ServiceExt};

use crate::support::world::Effects;
use crate::support::{World, post, send};

type AnyLayer = IdempotencyLayer<Scoped, Operation>;

/// A router with `/charges`, and the layer at one of the places where it can stand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Router,
    Routes,
    Methods,
    ExistingMethods,
    Handler,
}

const PLACES: [Place; 5] =
    [Place::Router, Place::Routes, Place::Methods, Place::ExistingMethods, Place::Handler];

impl Place {
    fn router(self, layer: AnyLayer, effects: &Effects) -> Router {
        let effects = effects.clone();
        let handler = move || async move { (StatusCode::CREATED, effects.happen().to_string()) };
        let charges: MethodRouter = on_post(handler.clone());
        match self {
            Self::Router => Router::new().route("/charges", charges).layer(layer),
            Self::Routes => Router::new().route("/charges", charges).route_layer(layer),
            Self::Methods => Router::new().route("/charges", charges.layer(layer)),
            Self::ExistingMethods => Router::new().route("/charges", charges.route_layer(layer)),
            Self::Handler => Router::new().route("/charges", on_post(handler.layer(layer))),
        }
    }
}

#[tokio::test]
async fn nested_routers_do_not_share_a_fingerprint() {
    for place in PLACES {
        let world = World::new();
        let inner = || place.router(world.layer(), &world.effects);
        let app = Router::new()
            .nest("/v1", inner())
            .nest("/v2", inner())
            .nest("/t/{tenant}", Router::new().nest("/v1", inner()));
        let request = |path| post(path, "k").body(Body::empty()).unwrap();
        assert_eq!(send(&app, request("/v1/charges")).await.status, 201, "{place:?}");
        for path in ["/v2/charges", "/t/a/v1/charges", "/t/b/v1/charges"] {
            let answer = send(&app, request(path)).await;
            assert_eq!(answer.problem(), (422, "key-reused".into()), "{place:?} {path}");
        }
        assert!(send(&app, request("/v1/charges")).await.is_replay());
        assert_eq!(world.effects.count(), 1);
    }
}

#[tokio::test]
async fn two_tenants_in_the_path_are_two_requests() {
    let world = World::new();
    let inner = Place::Router.router(world.layer(), &world.effects);
    let app = Router::new().nest("/t/{tenant}", inner);
    let request = |path| post(path, "k").body(Body::empty()).unwrap();
    assert_eq!(send(&app, request("/t/a/charges")).await.status, 201);
    assert_eq!(send(&app, request("/t/b/charges")).await.status, 422);
}

#[tokio::test]
async fn one_key_on_two_routes_or_operations_is_never_replayed_across() {
    let world = World::new();
    let effects = world.effects.clone();
    let handler = move || async move { effects.happen().to_string() };
    let refund = Operation::builder("refund").build().unwrap();
    let app = Router::new()
        .route("/charges", on_post(handler.clone()).layer(world.layer()))
        .route("/payouts", on_post(handler.clone()).layer(world.layer()))
        .route("/refunds", on_post(handler).layer(world.layer().operation(&refund)));
    let request = |path| post(path, "k").body(Body::empty()).unwrap();
    assert_eq!(send(&app, request("/charges")).await.body, "1");
    for path in ["/payouts", "/refunds"] {
        assert_eq!(send(&app, request(path)).await.problem(), (422, "key-reused".into()));
    }
    assert_eq!(world.effects.count(), 1);
}

/// What docs/http.md says about each place: whether a path that is not there (404) and a method
/// that is not there (405) reach the layer, and so take up the key.
#[tokio::test]
async fn where_the_layer_stands_decides_whether_404_and_405_take_up_the_key() {
    for (place, takes_404, takes_405) in [
        (Place::Router, true, true),
        (Place::Routes, false, true),
        (Place::Methods, false, true),
        (Place::ExistingMethods, false, false),
        (Place::Handler, false, false),
    ] {
        let world = World::new();
        let app = place.router(world.layer(), &world.effects);
        let request = |status: u16| {
            let path = if status == 404 { "/nothing" } else { "/charges" };
            let mut request = post(path, &format!("k{status}")).body(Body::empty()).unwrap();
            if status == 405 {
                *request.method_mut() = http::Method::PATCH;
            }
            request
        };
        for (status, takes) in [(404, takes_404), (405, takes_405)] {
            let before = world.records().await;
            assert_eq!(send(&app, request(status)).await.status, status, "{place:?}");
            let again = send(&app, request(status)).await;
            assert_eq!((again.status.as_u16(), again.is_replay()), (status, takes), "{place:?}");
            assert_eq!(world.records().await - before, u64::from(takes), "{place:?} {status}");
        }
    }
}

/// A client that was faster than the deploy is served under the same key once the route is there.
#[tokio::test]
async fn a_route_that_comes_late_works_under_a_key_that_got_a_404() {
    for place in [Place::Routes, Place::Methods, Place::ExistingMethods, Place::Handler] {
        let world = World::new();
        let before = place.router(world.layer(), &world.effects);
        let after = Router::new()
            .nest("/v2", place.router(world.layer(), &world.effects))
            .merge(place.router(world.layer(), &world.effects));
        let request = || post("/v2/charges", "k").body(Body::empty()).unwrap();
        assert_eq!(send(&before, request()).await.status, 404, "{place:?}");
        assert_eq!(world.records().await, 0, "{place:?}");
        let answer = send(&after, request()).await;
        assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false), "{place:?}");
        assert_eq!(world.effects.count(), 1, "{place:?}");
    }
}

#[tokio::test]
async fn a_fallback_that_is_marked_leaves_the_key_free() {
    let world = World::new();
    let app: Router = Router::new()
        .fallback(|| async { (StatusCode::NOT_FOUND, Disposition::Release, "nothing here") })
        .layer(world.layer());
    let answer = send(&app, post("/nothing", "k").body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), world.records().await), (404, 0));
}

#[tokio::test]
async fn behind_a_service_that_rewrites_the_path_the_recorded_one_counts() {
    let world = World::new();
    let effects = world.effects.clone();
    let inner = world.layer().layer(tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let number = effects.happen();
        async move { Ok::<_, Infallible>(Response::new(Body::from(number.to_string()))) }
    }));
    let strips = |path: &str, records: bool| {
        let mut request = post(path, "k").body(Body::empty()).unwrap();
        if records {
            let uri = request.uri().clone();
            request.extensions_mut().insert(ClientUri(uri));
        }
        *request.uri_mut() = Uri::from_static("/charges");
        request
    };
    assert_eq!(send(&inner, strips("/v1/charges", true)).await.status, 200);
    assert_eq!(send(&inner, strips("/v2/charges", true)).await.status, 422);
    assert!(send(&inner, strips("/v1/charges", true)).await.is_replay());
    // Without it the layer cannot know.
    assert_eq!(send(&inner, strips("/v1/charges", false)).await.status, 422);
}

#[tokio::test]
async fn a_scope_may_come_from_what_an_outer_layer_found_out() {
    #[derive(Clone)]
    struct Account(&'static str);
    let world = World::new();
    let effects = world.effects.clone();
    let layer = world
        .layer()
        .scope(scope::extension(|account: &Account| idem_core::key::Scope::new(account.0)));
    let handler = move || async move { effects.happen().to_string() };
    let app = Router::new().route("/charges", on_post(handler)).layer(layer);
    let request = |account: Option<&'static str>| {
        let mut request = post("/charges", "k").body(Body::empty()).unwrap();
        request.extensions_mut().extend(
            account
                .map(|account| {
                    let mut extensions = http::Extensions::new();
                    extensions.insert(Account(account));
                    extensions
                })
                .unwrap_or_default(),
        );
        request
    };
    assert_eq!(send(&app, request(None)).await.problem(), (401, "scope-missing".into()));
    assert_eq!(send(&app, request(Some(""))).await.problem(), (400, "scope-invalid".into()));
    assert_eq!(send(&app, request(Some("a"))).await.body, "1");
    assert_eq!(send(&app, request(Some("b"))).await.body, "2");
    assert!(send(&app, request(Some("a"))).await.is_replay());
}

/// Works only where it was polled to readiness; its clone has to be polled itself.
struct Turnstile {
    ready: bool,
    effects: Effects,
}

impl Clone for Turnstile {
    fn clone(&self) -> Self {
        Self { ready: false, effects: self.effects.clone() }
    }
}

impl<B> Service<Request<B>> for Turnstile {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        let number = self.effects.happen();
        std::future::ready(Ok(Response::new(Body::from(number.to_string()))))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_to_readiness_is_the_one_that_is_called() {
    let world = World::new();
    let turnstile = Turnstile { ready: false, effects: world.effects.clone() };
    let mut service = world.layer().layer(turnstile);
    for number in 1..=3 {
        let request = post("/charges", &format!("k{number}")).body(Body::empty()).unwrap();
        let response = ServiceExt::<Request<Body>>::ready(&mut service).await.unwrap();
        let response = response.call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        // A request that passes goes the same way.
        let get = Request::get("/charges").body(Body::empty()).unwrap();
        let service = ServiceExt::<Request<Body>>::ready(&mut service).await.unwrap();
        assert_eq!(service.call(get).await.unwrap().status(), 200);
    }
    assert_eq!(world.effects.count(), 6);
}
