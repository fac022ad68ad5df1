//! The smallest HTTP client that shows what was really on the wire: one connection per request,
//! no retries.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::process::PATIENCE;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of an error reply.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or("none").to_owned()
    }
}

/// A request that was sent and not answered yet. Dropping it hangs up.
pub(crate) struct Pending(TcpStream);

/// Sends a request. The length of a POST's body is stated, unless a header states another one.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Pending {
    try_send(address, method, path, headers, body).unwrap()
}

/// As [`send`], to a server that may be gone.
pub(crate) fn try_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Pending> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let has_length = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if method == "POST" && !has_length {
        head += &format!("content-length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // The server may answer and close before it has read a body that is too long.
    let _ = stream.write_all(&[head.as_bytes(), b"\r\n", body].concat());
    Ok(Pending(stream))
}

impl Pending {
    /// Reads to the end of the connection. `None` if it was closed without an answer.
    pub(crate) fn reply(self) -> Option<Reply> {
        self.try_reply().unwrap()
    }

    /// As [`reply`](Self::reply), from a server that may die in the middle of its answer.
    pub(crate) fn try_reply(mut self) -> io::Result<Option<Reply>> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
            _ => {}
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        whole(&bytes).map(Some).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn whole(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let body = &bytes[end + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length: usize = length.parse().ok()?;
    (body.len() == length).then(|| Reply { status, body: body.to_vec() })
}

/// Reads a resource that must be there.
pub(crate) fn get(address: SocketAddr, path: &str) -> Value {
    let reply = send(address, "GET", path, &[], b"").reply().expect("an answer");
    assert_eq!(reply.status, 200, "{path}");
    reply.json()
}
