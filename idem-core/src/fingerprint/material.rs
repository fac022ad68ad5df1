//! What of a request counts.

use std::collections::BTreeMap;
use std::fmt;

use super::body::Body;
use super::content_type;
use super::hash::PartHash;
use super::scheme::{Fingerprint, Fingerprints};

const DOMAIN: &str = "idem request fingerprint 1";

/// What of a request its fingerprint is made of (R22).
///
/// | part | how it counts |
/// |---|---|
/// | method, path, query | byte for byte, as the client sent them. No query and an empty one differ |
/// | content type | type and subtype, in any case; no parameter. None and an empty one differ |
/// | other headers | only those that are added, since headers differ between attempts |
/// | body | JSON by its meaning, multipart/form-data by its parts, any other byte for byte. None and an empty one are the same: a handler reads no byte either way |
///
/// ```
/// use idem_core::fingerprint::Material;
///
/// let one = Material::new("POST", "/v1/charges")
///     .content_type("application/json")
///     .body(br#"{"amount": 100, "currency": "eur"}"#);
/// let same = Material::new("POST", "/v1/charges")
///     .content_type("application/json; charset=utf-8")
///     .body(br#"{"currency":"eur","amount":1e2}"#);
/// assert_eq!(one.fingerprint(), same.fingerprint());
/// ```
///
/// The work is linear in the size of the body, times the nesting where members have to be sorted;
/// the memory is a small multiple of it. The caller bounds the size. `Debug` shows only sizes
/// (R24).
#[derive(Clone)]
pub struct Material<'a> {
    method: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    headers: BTreeMap<String, Vec<&'a [u8]>>,
    body: &'a [u8],
}

impl<'a> Material<'a> {
    /// A request with this method, to this path. The path is the one that the client sent, neither
    /// decoded nor cut by a router: `/v1/charges` and `/v2/charges` are two requests.
    pub fn new(
        method: &'a (impl AsRef<[u8]> + ?Sized),
        path: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Self {
        Self {
            method: method.as_ref(),
            path: path.as_ref(),
            query: None,
            content_type: None,
            headers: BTreeMap::new(),
            body: b"",
        }
    }

    /// Sets the query, without its question mark.
    #[must_use]
    pub fn query(mut self, query: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.query = Some(query.as_ref());
        self
    }

    /// Sets the content type: the whole value of the header, as it was sent.
    #[must_use]
    pub fn content_type(mut self, content_type: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.content_type = Some(content_type.as_ref());
        self
    }

    /// Adds a header that makes a difference: its name in any case, and its values byte for byte,
    /// in their order. The order of the names does not count.
    ///
    /// A header without values changes nothing. So an operation that asks for one more header
    /// still agrees with its earlier self about requests that do not carry it.
    #[must_use]
    pub fn header(mut self, name: &str, values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.headers.entry(name.to_ascii_lowercase()).or_default().extend(values);
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.body = body.as_ref();
        self
    }

    /// The fingerprint under the scheme of this release.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = PartHash::new(DOMAIN);
        hash.part(self.method);
        hash.part(self.path);
        hash.optional(self.query);
        self.hash_content_type(&mut hash);
        hash.count(self.headers.len());
        for (name, values) in &self.headers {
            hash.part(name.as_bytes());
            hash.count(values.len());
            for value in values {
                hash.part(value);
            }
        }
        Body::of(self.content_type.unwrap_or_default(), self.body).hash_into(&mut hash);
        hash.finish()
    }

    /// The fingerprints under every scheme that this build knows, for a claim to carry (R23).
    pub fn fingerprints(&self) -> Fingerprints {
        Fingerprints::new(self.fingerprint())
    }

    /// A value without an essence counts whole. It equals no essence, since it has none.
    fn hash_content_type(&self, hash: &mut PartHash) {
        let essence = self.content_type.and_then(content_type::essence);
        hash.optional(essence.as_deref().or(self.content_type));
    }
}

impl fmt::Debug for Material<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("path_bytes", &self.path.len())
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
