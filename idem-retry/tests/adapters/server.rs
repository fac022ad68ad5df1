//! A server with a script: one step for each request, and a record of what it was sent.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is done with one request.
#[derive(Clone)]
pub(crate) enum Step {
    /// These bytes are answered, and the connection is closed.
    Answer(Vec<u8>),
    /// The connection is closed without an answer.
    Cut,
    /// The same, and nobody listens any more.
    Leave,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Received {
    /// The value of a header, if it is there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().filter_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        value
    }
}

impl Server {
    /// Serves these steps, one request each. More requests are a failure of the test: they are
    /// answered with a 599, and recorded.
    pub(crate) async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/charges", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let mut steps: Vec<Step> = steps.into_iter().collect();
        steps.reverse();
        let record = received.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = read(&mut stream).await else { continue };
                record.lock().unwrap().push(request);
                match steps.pop().unwrap_or_else(|| Step::Answer(answer("599 Too Many", "", ""))) {
                    Step::Answer(bytes) => stream.write_all(&bytes).await.unwrap(),
                    Step::Cut => {}
                    // The listener first: what comes after the connection's end is refused.
                    Step::Leave => return drop((listener, stream)),
                }
            }
        });
        Self { url, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// A whole answer, after which the connection is closed.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// The answer of `idem-http` while the first request runs.
pub(crate) fn in_flight(padding: usize) -> Step {
    let padding = "x".repeat(padding);
    Step::Answer(answer(
        "409 Conflict",
        "content-type: application/problem+json\r\nretry-after: 0\r\n",
        &format!(r#"{{"type":"urn:idem:problem:key-in-use","padding":"{padding}"}}"#),
    ))
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut request = Received { head, body: bytes.split_off(end + 4) };
    if request.header("transfer-encoding") == Some("chunked") {
        while !request.body.ends_with(b"0\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request.body).await.unwrap(), 0);
        }
        request.body = unchunked(&request.body);
    }
    let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
    while request.body.len() < length {
        assert_ne!(stream.read_buf(&mut request.body).await.unwrap(), 0);
    }
    Some(request)
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(str::from_utf8(&chunks[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[line + 2..][..size]);
        chunks = &chunks[line + 2 + size + 2..];
    }
}
