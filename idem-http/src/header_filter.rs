//! Which header fields of a response are stored, and how they come back.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Response, StatusCode};
use idem_core::reply::Fields;

/// Fields that speak of one connection or one moment, and so are not stored: those of RFC 9110,
/// section 7.6.1, a proxy's challenge, and the date of the message.
///
/// `Trailer` is not among them: without it a server sends no trailers over HTTP/1.1, and the
/// stored reply has them.
const NOT_STORED: [HeaderName; 8] = [
    CONNECTION,
    DATE,
    PROXY_AUTHENTICATE,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Decides field by field. Order, repeats and bytes stay as they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeaderFilter {
    /// Not stored, since the service says so.
    dropped: HashSet<HeaderName>,
    /// Those that this layer writes: a handler that passes on an upstream's answer must not make
    /// its own look like a replay.
    reserved: Vec<HeaderName>,
}

impl HeaderFilter {
    pub(crate) fn new(
        dropped: impl IntoIterator<Item = HeaderName>,
        reserved: impl IntoIterator<Item = HeaderName>,
    ) -> Self {
        Self { dropped: dropped.into_iter().collect(), reserved: reserved.into_iter().collect() }
    }

    /// Takes away what would be wrong on the first answer already: this layer's own fields, and a
    /// Content-Length that is not that of the body.
    pub(crate) fn clean<B>(&self, response: &mut Response<B>, body_bytes: Option<usize>) {
        for name in &self.reserved {
            response.headers_mut().remove(name);
        }
        let Some(bytes) = body_bytes else { return };
        if !length_may_stay(response.status(), response.headers(), bytes) {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
    }

    /// The fields to store, in their order. Names are in lower case, as HTTP/2 has them and as
    /// the `http` crate keeps them.
    pub(crate) fn stored(&self, headers: &HeaderMap) -> Fields {
        let named = named_by_connection(headers);
        let keep = |name: &HeaderName| {
            !NOT_STORED.contains(name)
                && !self.dropped.contains(name)
                && !self.reserved.contains(name)
                && !named.iter().any(|named| named.eq_ignore_ascii_case(name.as_str()))
        };
        headers.iter().filter(|(name, _)| keep(name)).map(to_field).collect()
    }
}

/// One field as a reply keeps it.
pub(crate) fn to_field((name, value): (&HeaderName, &HeaderValue)) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes()))
}

/// Stored fields as a header map. `None` when one of them is no header field, so that the reply
/// cannot be sent as it was stored.
pub(crate) fn to_map(fields: &[(Bytes, Bytes)]) -> Option<HeaderMap> {
    let mut map = HeaderMap::try_with_capacity(fields.len()).ok()?;
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name).ok()?;
        let value = HeaderValue::from_bytes(value).ok()?;
        map.try_append(name, value).ok()?;
    }
    Some(map)
}

/// The fields that Connection names belong to that connection too.
fn named_by_connection(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(CONNECTION).iter();
    let lists = values.filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

/// A response without a body may say how long the body would be (a 304, an answer to HEAD), except
/// a 204 or 1xx (RFC 9110, section 8.6). Any other says how long its body is, or nothing.
fn length_may_stay(status: StatusCode, headers: &HeaderMap, body_bytes: usize) -> bool {
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        return false;
    }
    if status == StatusCode::NOT_MODIFIED {
        return true;
    }
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let is_right = |value: &HeaderValue| value.as_bytes() == body_bytes.to_string().as_bytes();
    said.next().is_none_or(is_right) && said.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        map
    }

    fn names(fields: &Fields) -> Vec<&str> {
        fields.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn fields_of_one_connection_are_not_stored() {
        let filter = HeaderFilter::default();
        let stored = filter.stored(&headers(&[
            ("location", "/1"),
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authenticate", "Basic"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("trailer", "x-sum"),
            ("etag", "\"1\""),
        ]));
        assert_eq!(names(&stored), ["location", "trailer", "etag"]);
    }

    #[test]
    fn repeats_stay_apart_in_their_order_and_come_back_so() {
        let filter = HeaderFilter::default();
        let first = headers(&[
            ("set-cookie", "a=1; expires=Thu, 01 Jan 2026 00:00:00 GMT"),
            ("content-disposition", "attachment; filename=\"a, b\""),
            ("set-cookie", "b=2"),
        ]);
        let again = to_map(&filter.stored(&first)).unwrap();
        assert_eq!(again, first);
        let order =
            |map: &HeaderMap| map.iter().map(|(n, v)| (n.clone(), v.clone())).collect::<Vec<_>>();
        assert_eq!(order(&again), order(&first));
    }

    #[test]
    fn a_value_of_any_bytes_survives() {
        let mut first = HeaderMap::new();
        first.insert("x-name", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        let stored = HeaderFilter::default().stored(&first);
        assert_eq!(stored[0].1, &b"caf\xe9"[..]);
        assert_eq!(to_map(&stored).unwrap(), first);
    }

    #[test]
    fn dropped_and_reserved_fields_are_not_stored() {
        let filter = HeaderFilter::new(
            [HeaderName::from_static("set-cookie")],
            [HeaderName::from_static("idempotent-replayed")],
        );
        let all = headers(&[("set-cookie", "a=1"), ("idempotent-replayed", "true"), ("x", "1")]);
        assert_eq!(names(&filter.stored(&all)), ["x"]);

        let mut response = Response::new(());
        *response.headers_mut() = all;
        filter.clean(&mut response, None);
        assert_eq!(response.headers(), &headers(&[("set-cookie", "a=1"), ("x", "1")]));
    }

    #[test]
    fn a_content_length_that_lies_is_taken_away() {
        let keeps = |status: u16, said: &[&str], bytes: usize| {
            let mut response = Response::builder().status(status).body(()).unwrap();
            for said in said {
                response.headers_mut().append(CONTENT_LENGTH, said.parse().unwrap());
            }
            HeaderFilter::default().clean(&mut response, Some(bytes));
            response.headers().contains_key(CONTENT_LENGTH)
        };
        assert!(keeps(200, &["5"], 5));
        assert!(!keeps(200, &["6"], 5));
        assert!(!keeps(200, &["5", "5"], 5));
        assert!(!keeps(200, &["05"], 5));
        assert!(keeps(304, &["5"], 0));
        assert!(!keeps(204, &["0"], 0));
        assert!(!keeps(200, &[], 5));
    }

    #[test]
    fn what_is_no_header_field_cannot_be_sent() {
        assert!(to_map(&[("bad name".into(), "x".into())]).is_none());
        assert!(to_map(&[("x".into(), "a\r\nset-cookie: b=1".into())]).is_none());
        assert!(to_map(&[]).unwrap().is_empty());
    }
}
