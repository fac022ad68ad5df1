//! The path as the client sent it.

use http::Uri;
use http::request::Parts;
use http::uri::PathAndQuery;
use idem_core::input::Input;

/// The URI as the client sent it, for services outside axum that rewrite it before the layer sees
/// it: put it into the request's extensions where the request comes in.
///
/// Inside axum's nested routers nothing is needed: the layer reads axum's own `OriginalUri`.
#[derive(Debug, Clone)]
pub struct ClientUri(pub Uri);

/// The URI that counts for the fingerprint. A nested router cuts its own part off the request's
/// URI: by that alone, `/v1/charges` and `/v2/charges` would be the same request.
pub(crate) fn of(parts: &Parts) -> &Uri {
    if let Some(ClientUri(uri)) = parts.extensions.get() {
        return uri;
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get() {
        return uri;
    }
    &parts.uri
}

/// Whether axum had no route for this request when the layer saw it: it has been to a router, which
/// keeps the URI, and none of its paths was matched. A fallback looks so, and so does a service
/// that `nest_service` holds, which does work: it is a reason to warn and not one to free a key.
pub(crate) fn is_unmatched(parts: &Parts) -> bool {
    #[cfg(feature = "axum")]
    {
        use axum::extract::{MatchedPath, OriginalUri};
        parts.extensions.get::<OriginalUri>().is_some()
            && parts.extensions.get::<MatchedPath>().is_none()
    }
    #[cfg(not(feature = "axum"))]
    {
        let _ = parts;
        false
    }
}

/// Puts the stored request's query in place of this one's, wherever the URI is kept. The paths
/// are the same: a request to another path does not take over.
pub(crate) fn restore_query(parts: &mut Parts, first: &Input) {
    let Some(target) = first.target() else { return };
    let query = target.iter().position(|byte| *byte == b'?').map(|at| target.slice(at + 1..));
    let query = query.as_deref();
    if of(parts).query().map(str::as_bytes) == query {
        return;
    }
    parts.uri = with_query(&parts.uri, query);
    if let Some(ClientUri(uri)) = parts.extensions.get_mut() {
        *uri = with_query(uri, query);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(uri)) = parts.extensions.get_mut() {
        *uri = with_query(uri, query);
    }
}

/// A query that makes no URI was never sent by a client: it leaves the URI as it is.
fn with_query(uri: &Uri, query: Option<&[u8]>) -> Uri {
    let mut target = uri.path().as_bytes().to_vec();
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(target).ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn the_query_is_restored_wherever_the_uri_is_kept() {
        for (target, query) in [("/v1/charges?a=1", Some("a=1")), ("/v1/charges", None)] {
            let request = Request::builder().uri("http://host/charges?a=2").body(()).unwrap();
            let mut parts = request.into_parts().0;
            #[cfg(feature = "axum")]
            {
                let original = Uri::from_static("http://host/v1/charges?a=2");
                parts.extensions.insert(axum::extract::OriginalUri(original));
            }
            parts.extensions.insert(ClientUri(Uri::from_static("/api/v1/charges?a=2")));
            restore_query(&mut parts, &Input::new("").with_target(target));
            assert_eq!((parts.uri.path(), parts.uri.query()), ("/charges", query));
            assert_eq!(parts.uri.host(), Some("host"));
            assert_eq!((of(&parts).path(), of(&parts).query()), ("/api/v1/charges", query));
            #[cfg(feature = "axum")]
            {
                let original: &axum::extract::OriginalUri = parts.extensions.get().unwrap();
                assert_eq!((original.0.path(), original.0.query()), ("/v1/charges", query));
            }
        }
    }

    #[test]
    fn what_was_recorded_outside_counts_first() {
        let request = Request::builder().uri("/charges").body(()).unwrap();
        let mut parts = request.into_parts().0;
        assert_eq!(of(&parts), "/charges");
        #[cfg(feature = "axum")]
        {
            let original = axum::extract::OriginalUri(Uri::from_static("/v1/charges"));
            parts.extensions.insert(original);
            assert_eq!(of(&parts), "/v1/charges");
        }
        parts.extensions.insert(ClientUri(Uri::from_static("/api/v1/charges?a=1")));
        assert_eq!(of(&parts), "/api/v1/charges?a=1");
    }
}
