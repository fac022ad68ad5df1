//! From an HTTP request to a call of the engine, and back to the request that the service sees.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use idem_core::engine::{Call, Execution};
use idem_core::fingerprint::{Fingerprints, Material};
use idem_core::input::Input;
use idem_core::key::{Key, Scope};
use idem_core::operation::OnUnknown;
use idem_core::reply::Reply;

use crate::client_uri;
use crate::collected::Collected;
use crate::guard::Guard;
use crate::header_filter::{to_field, to_map};
use crate::problem::Problem;
use crate::request_body::RequestBody;

impl Guard {
    /// The call that this request makes.
    pub(crate) fn call(&self, scope: Scope, key: Key, parts: &Parts, body: &Bytes) -> Call {
        let call = Call::new(scope, key, self.fingerprints(parts, body));
        let call = call.with_input(self.input(parts, body));
        match self.operation.on_unknown() {
            OnUnknown::StoreServerError => call.with_server_error(self.server_error()),
            _ => call,
        }
    }

    /// What is stored where the operation wants a server error stored.
    fn server_error(&self) -> Reply {
        Problem::server_error().into_reply(&self.settings.problem_base)
    }

    fn fingerprints(&self, parts: &Parts, body: &Bytes) -> Fingerprints {
        if !self.operation.compares() {
            return Fingerprints::not_compared();
        }
        let uri = client_uri::of(parts);
        let mut material = Material::new(parts.method.as_str(), uri.path()).body(body);
        if let Some(query) = uri.query() {
            material = material.query(query);
        }
        let mut types = parts.headers.get_all(CONTENT_TYPE).iter();
        match (types.next(), types.next()) {
            (None, _) => {}
            (Some(one), None) => material = material.content_type(one.as_bytes()),
            // Readers differ about two of them: each counts, and the body as it is.
            _ => material = with_header(material, &parts.headers, &CONTENT_TYPE),
        }
        for name in &self.settings.fingerprint_headers {
            material = with_header(material, &parts.headers, name);
        }
        material.fingerprints()
    }

    fn input(&self, parts: &Parts, body: &Bytes) -> Input {
        let uri = client_uri::of(parts);
        let target = uri.path_and_query().map_or_else(|| uri.path(), |target| target.as_str());
        let mut input = Input::new(body.clone())
            .with_method(Bytes::copy_from_slice(parts.method.as_str().as_bytes()))
            .with_target(Bytes::copy_from_slice(target.as_bytes()));
        for name in &self.settings.stored_request_headers {
            for value in parts.headers.get_all(name) {
                let (name, value) = to_field((name, value));
                input = input.with_header(name, value);
            }
        }
        input
    }

    /// What the service gets to see. From the second attempt on that is what the first one saw,
    /// where it is stored: a retry may spell the same request differently. Trailers are not
    /// stored, so where an input is kept no attempt sees any.
    pub(crate) fn request_for<B>(
        self: &Arc<Self>,
        execution: &Execution,
        mut parts: Parts,
        body: Collected,
    ) -> Request<RequestBody<B>> {
        let body = match execution.input() {
            Some(first) if self.operation.keeps_input() && execution.attempt() > 1 => {
                self.restore_headers(&mut parts.headers, first);
                client_uri::restore_query(&mut parts, first);
                Collected::new(first.body().clone(), None)
            }
            _ if self.operation.keeps_input() => Collected::new(body.data().clone(), None),
            _ => body,
        };
        parts.extensions.insert(execution.clone());
        parts.extensions.insert(Arc::clone(self));
        Request::from_parts(parts, RequestBody::collected(body))
    }

    fn restore_headers(&self, headers: &mut HeaderMap, first: &Input) {
        // One that is no header field was never sent by a client; the record keeps it as it is.
        let stored = to_map(first.headers()).unwrap_or_default();
        for name in self.settings.stored_request_headers.iter().chain(stored.keys()) {
            headers.remove(name);
        }
        headers.extend(stored);
        if headers.contains_key(CONTENT_LENGTH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(first.body().len()));
        }
    }
}

fn with_header<'a>(
    material: Material<'a>,
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Material<'a> {
    let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    material.header(name.as_str(), values)
}
