//! The path as the client sent it.

use http::Uri;
use http::request::Parts;

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

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

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
