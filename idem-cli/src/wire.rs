//! The smallest HTTP/1.1 client that shows what was really on the wire: header fields as bytes,
//! in the order in which they came. One connection per request, nothing retried, nothing pooled.
//!
//! The demo and the tests compare replays with it; a client that sorts or joins header fields
//! could not see what a replay lost.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes of an answer, head and body.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// A request.
#[derive(Clone)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

/// An answer, whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header fields in their order, names in the case in which they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, without the framing that it travelled in.
    pub body: Vec<u8>,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// No connection: nothing was sent.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection ended before the answer did. The request may have been carried out.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// No whole answer in time. The request may have been carried out.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// What came back is not HTTP/1.1 as this client reads it.
    #[error("the answer is not HTTP/1.1: {0}")]
    Malformed(&'static str),
}

impl Request {
    /// A request without a body.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// A request with a body, whose length is stated.
    pub fn post(path: impl Into<String>, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let request =
            Self { method: "POST", path: path.into(), headers: Vec::new(), body: body.into() };
        request.header("content-type", content_type)
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Leaves out the header fields with this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(found, _)| !found.eq_ignore_ascii_case(name));
        self
    }

    /// The first line, without the version.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The value of a header field, as text.
    pub fn text(&self, name: &str) -> Option<String> {
        text(&self.headers, name)
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Sends it, and reads the whole answer within `limit`.
    ///
    /// # Errors
    /// [`WireError`] says whether anything was sent.
    ///
    /// # Cancel safety
    /// Dropping it hangs up.
    pub async fn send(&self, to: SocketAddr, limit: Duration) -> Result<Answer, WireError> {
        let exchange = async {
            let mut stream = TcpStream::connect(to).await.map_err(WireError::Connect)?;
            let _ = stream.set_nodelay(true);
            let written = stream.write_all(&self.bytes(to)).await;
            let mut bytes = Vec::new();
            let mut answer = (&mut stream).take(MAX_ANSWER_BYTES);
            let read = answer.read_to_end(&mut bytes).await;
            // A server may answer, and close, before it has read a body that is too long.
            match parse(&bytes) {
                Err(Incomplete::Malformed(why)) => Err(WireError::Malformed(why)),
                Err(Incomplete::TooShort) => {
                    let error = written.and(read.map(drop)).err();
                    Err(WireError::Lost(error.unwrap_or(io::ErrorKind::UnexpectedEof.into())))
                }
                Ok(answer) => Ok(answer),
            }
        };
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(WireError::TimedOut(limit)))
    }

    /// What goes over the wire.
    pub fn bytes(&self, to: SocketAddr) -> Vec<u8> {
        let mut bytes = format!("{} HTTP/1.1\r\nhost: {to}\r\n", self.line()).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if self.method == "POST" {
            bytes.extend_from_slice(format!("content-length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"connection: close\r\n\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl Answer {
    /// The value of a header field, as text.
    pub fn text(&self, name: &str) -> Option<String> {
        text(&self.headers, name)
    }

    /// The header fields with these names left out.
    pub fn headers_without(&self, names: &[&str]) -> Vec<(&str, &[u8])> {
        let left_out =
            |name: &str| names.iter().any(|left_out| name.eq_ignore_ascii_case(left_out));
        let headers = self.headers.iter().filter(|(name, _)| !left_out(name));
        headers.map(|(name, value)| (name.as_str(), value.as_slice())).collect()
    }

    /// The body as JSON; `null` when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("line", &self.line()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

fn text(headers: &[(String, Vec<u8>)], name: &str) -> Option<String> {
    let (_, value) = headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[derive(Debug, PartialEq, Eq)]
enum Incomplete {
    TooShort,
    Malformed(&'static str),
}

fn parse(bytes: &[u8]) -> Result<Answer, Incomplete> {
    let malformed = Incomplete::Malformed;
    let end = find(bytes, b"\r\n\r\n").ok_or(Incomplete::TooShort)?;
    let mut lines = split(&bytes[..end]);
    let status = lines
        .next()
        .and_then(|line| {
            str::from_utf8(line.strip_prefix(b"HTTP/1.1 ")?).ok()?.get(..3)?.parse().ok()
        })
        .ok_or(malformed("its first line"))?;
    let headers = lines.map(header).collect::<Option<Vec<_>>>().ok_or(malformed("a header"))?;
    let rest = &bytes[end + 4..];
    let body = if text(&headers, "transfer-encoding").is_some() {
        chunks(rest)?
    } else if let Some(length) = text(&headers, "content-length") {
        let length = length.parse().map_err(|_| malformed("its length"))?;
        rest.get(..length).ok_or(Incomplete::TooShort)?.to_vec()
    } else if matches!(status, 204 | 304) {
        Vec::new()
    } else {
        return Err(malformed("a body of unknown length"));
    };
    Ok(Answer { status, headers, body })
}

fn header(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let at = line.iter().position(|&byte| byte == b':')?;
    let name = str::from_utf8(&line[..at]).ok()?.to_owned();
    Some((name, line[at + 1..].trim_ascii().to_vec()))
}

fn chunks(mut rest: &[u8]) -> Result<Vec<u8>, Incomplete> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n").ok_or(Incomplete::TooShort)?;
        let size = str::from_utf8(&rest[..end])
            .ok()
            .and_then(|line| usize::from_str_radix(line.split(';').next()?.trim(), 16).ok())
            .ok_or(Incomplete::Malformed("the size of a chunk"))?;
        if size == 0 {
            return Ok(body);
        }
        let after = size.checked_add(end + 4).ok_or(Incomplete::Malformed("a huge chunk"))?;
        let chunk = rest.get(end + 2..after).ok_or(Incomplete::TooShort)?;
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[after..];
    }
}

fn split(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_keep_their_order_case_and_bytes() {
        let answer = parse(
            b"HTTP/1.1 201 Created\r\nSet-Cookie: a=1, b\r\nx-m: caf\xe9\r\nset-cookie: b=2\r\n\
              content-length: 2\r\n\r\nokIGNORED",
        )
        .unwrap();
        assert_eq!((answer.status, &answer.body[..]), (201, &b"ok"[..]));
        assert_eq!(
            answer.headers_without(&["content-LENGTH"]),
            [("Set-Cookie", &b"a=1, b"[..]), ("x-m", b"caf\xe9"), ("set-cookie", b"b=2")]
        );
    }

    #[test]
    fn every_shorter_answer_is_too_short() {
        for whole in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n",
        ] {
            assert_eq!(parse(whole).unwrap().body, b"hello");
            for length in 0..whole.len() - 1 {
                assert_eq!(parse(&whole[..length]), Err(Incomplete::TooShort), "{length}");
            }
        }
    }

    #[test]
    fn what_is_not_http_is_an_error_and_not_a_panic() {
        for bytes in [
            &b"\r\n\r\n"[..],
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.1 2xx OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(matches!(parse(bytes), Err(Incomplete::Malformed(_))), "{bytes:?}");
        }
    }
}
