//! What of a request is hashed.

use crate::fingerprint::hash::PartHash;
use crate::fingerprint::scheme::{Fingerprint, Fingerprints};
use crate::fingerprint::{json, multipart};

/// The parts of a request that its fingerprint is made of (R22). No header counts but the
/// content type's essence, unless it is added: headers differ between attempts.
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
#[derive(Clone)]
pub struct Material<'a> {
    method: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    headers: Vec<(Vec<u8>, Vec<&'a [u8]>)>,
    body: &'a [u8],
}

impl<'a> Material<'a> {
    /// A request with this method, to this path as the client sent it.
    pub fn new(
        method: &'a (impl AsRef<[u8]> + ?Sized),
        path: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Self {
        Self {
            method: method.as_ref(),
            path: path.as_ref(),
            query: None,
            content_type: None,
            headers: Vec::new(),
            body: b"",
        }
    }

    /// Sets the query, without its question mark. An absent and an empty one differ.
    #[must_use]
    pub fn query(mut self, query: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.query = Some(query.as_ref());
        self
    }

    /// Sets the content type. Type and subtype count, in any case; parameters do not.
    #[must_use]
    pub fn content_type(mut self, content_type: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.content_type = Some(content_type.as_ref());
        self
    }

    /// Adds a header that makes a difference: its values in their order. An absent one has none.
    #[must_use]
    pub fn header(mut self, name: &str, values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let name = name.to_ascii_lowercase().into_bytes();
        self.headers.push((name, values.into_iter().collect()));
        self
    }

    /// Sets the body. An absent and an empty one are the same.
    #[must_use]
    pub fn body(mut self, body: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.body = body.as_ref();
        self
    }

    /// Under the scheme of this release.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = PartHash::new("idem/fingerprint/1/request");
        let essence = self.content_type.map(essence);
        hash.part(self.method);
        hash.part(self.path);
        hash.optional(self.query);
        hash.optional(essence.as_deref());
        let mut headers = self.headers.clone();
        headers.sort();
        hash.count(headers.len());
        for (name, values) in &headers {
            hash.part(name);
            hash.count(values.len());
            for value in values {
                hash.part(value);
            }
        }
        self.hash_body(&mut hash, essence.as_deref().unwrap_or_default());
        hash.finish()
    }

    /// Under every scheme that this build knows.
    pub fn fingerprints(&self) -> Fingerprints {
        Fingerprints::new(self.fingerprint())
    }

    fn hash_body(&self, hash: &mut PartHash, essence: &[u8]) {
        if is_json(essence) {
            return hash_json(hash, self.body);
        }
        let content_type = self.content_type.unwrap_or_default();
        let parts = (essence == b"multipart/form-data")
            .then(|| multipart::parts(content_type, self.body))
            .flatten();
        match parts {
            Some(parts) => {
                hash.tag(MULTIPART);
                hash.count(parts.len());
                for part in parts {
                    hash.part(part.headers);
                    hash.part(part.content);
                }
            }
            None => {
                hash.tag(RAW);
                hash.part(self.body);
            }
        }
    }
}

impl Fingerprint {
    /// Of an input without HTTP, byte for byte.
    pub fn of_bytes(input: impl AsRef<[u8]>) -> Self {
        let mut hash = PartHash::new("idem/fingerprint/1/bytes");
        hash.tag(RAW);
        hash.part(input.as_ref());
        hash.finish()
    }

    /// Of a JSON input without HTTP, by its meaning; byte for byte where it has no single one.
    pub fn of_json(input: impl AsRef<[u8]>) -> Self {
        let mut hash = PartHash::new("idem/fingerprint/1/bytes");
        hash_json(&mut hash, input.as_ref());
        hash.finish()
    }
}

const RAW: u8 = 0;
const JSON: u8 = 1;
const MULTIPART: u8 = 2;

fn hash_json(hash: &mut PartHash, body: &[u8]) {
    match json::canonical(body) {
        Some(canonical) => {
            hash.tag(JSON);
            hash.part(&canonical);
        }
        None => {
            hash.tag(RAW);
            hash.part(body);
        }
    }
}

/// Type and subtype, in lower case (RFC 9110, section 8.3.1).
fn essence(content_type: &[u8]) -> Vec<u8> {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    content_type[..end].trim_ascii().to_ascii_lowercase()
}

fn is_json(essence: &[u8]) -> bool {
    essence == b"application/json" || essence.ends_with(b"+json")
}
