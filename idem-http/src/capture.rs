//! From the service's response to the engine's answer.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use idem_core::engine::{Answer, Failure};
use idem_core::reply::Reply;
use tokio::time::{Instant, timeout_at};

use crate::collected::{Collected, Collector};
use crate::guard::Guard;
use crate::header_filter::to_field;
use crate::mark::{self, Disposition, Marked};
use crate::reply_body::ReplyBody;

/// Stands in the reply that the engine sees of a response that is streamed past it, so that it
/// equals no other reply. No store sees it: the engine stores a tombstone.
const STREAMED: &[u8] = b"streamed past the engine";

/// The response, on its way from the handler's task to the caller: with what is not stored, such
/// as its dropped headers, its extensions, or a body that is too large.
pub(crate) struct Slot<B>(Arc<Mutex<Option<Handed<B>>>>);

struct Handed<B> {
    /// What the engine was given of it.
    reply: Reply,
    response: Response<ReplyBody<B>>,
}

impl<B> Slot<B> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    fn put(&self, reply: Reply, response: Response<ReplyBody<B>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Handed { reply, response });
    }

    /// The response, if `reply` is what the engine was given of it. It is not where the handler
    /// committed another one.
    pub(crate) fn take(&self, reply: &Reply) -> Option<Response<ReplyBody<B>>> {
        let handed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        handed.filter(|handed| handed.reply == *reply).map(|handed| handed.response)
    }
}

impl<B> Clone for Slot<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Guard {
    /// What the engine is told of this response. The response itself goes into the slot.
    pub(crate) async fn answer_of<B>(
        &self,
        method: &Method,
        mut response: Response<B>,
        slot: &Slot<B>,
    ) -> Result<Answer, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let disposition = match mark::take(&mut response, self.settings.unmarked_server_errors) {
            Marked::Failed(failure) => return Err(failure),
            Marked::Reply(reply) => return Ok(reply.into()),
            Marked::Response(Disposition::Unknown) => {
                return Err(Failure::unknown("the response is marked as of unknown outcome"));
            }
            Marked::Response(disposition) => disposition,
        };
        let (head, body) = response.into_parts();
        let mut response = Response::from_parts(head, ());
        let body = Box::pin(body);
        let read = match self.streams_at_once(disposition, &response, &*body) {
            true => Read::Partly(Collected::default(), body),
            false => self.read(body).await?,
        };
        match read {
            Read::Whole(body) => {
                let bytes = (method != Method::HEAD).then_some(body.data().len());
                self.filter.clean(&mut response, bytes);
                let reply = self.reply_of(&response, &body)?;
                slot.put(reply.clone(), response.map(|()| ReplyBody::collected(body)));
                match disposition {
                    Disposition::Release => Err(Failure::reject(reply)),
                    _ => Ok(reply.into()),
                }
            }
            Read::Partly(read, rest) => {
                self.filter.clean(&mut response, None);
                let head = head_of(response.status())?;
                slot.put(head.clone(), response.map(|()| ReplyBody::streamed(read, rest)));
                Ok(Answer::streamed(head))
            }
        }
    }

    /// Whether waiting for the body would be wrong, or in vain.
    fn streams_at_once<B: Body>(
        &self,
        disposition: Disposition,
        response: &Response<()>,
        body: &B,
    ) -> bool {
        let status = response.status();
        disposition == Disposition::Stream
            || status.is_informational()
            || is_event_stream(response)
            || Reply::new(status.as_u16()).is_err()
            || body.size_hint().lower() > self.operation.max_reply_bytes() as u64
    }

    async fn read<B>(&self, mut body: std::pin::Pin<Box<B>>) -> Result<Read<B>, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let deadline =
            Instant::now() + self.settings.stream_after.min(idem_core::time::MAX_DURATION);
        let mut collector = Collector::new(self.operation.max_reply_bytes());
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Ok(None) => return Ok(Read::Whole(collector.into_collected())),
                Ok(Some(frame)) => frame.map_err(Failure::unknown)?,
                Err(_) => return Ok(Read::Partly(collector.into_collected(), body)),
            };
            if !collector.take(frame) {
                return Ok(Read::Partly(collector.into_collected(), body));
            }
        }
    }

    /// The reply that stands for a response whose body is in memory.
    pub(crate) fn reply_of(
        &self,
        response: &Response<()>,
        body: &Collected,
    ) -> Result<Reply, Failure> {
        let reply = Reply::new(response.status().as_u16())?
            .with_headers(self.filter.stored(response.headers()));
        let reply = match body.data().is_empty() {
            true => reply,
            false => reply.with_body(body.data().clone()),
        };
        Ok(match body.trailers() {
            Some(trailers) => reply.with_trailers(trailers.iter().map(to_field)),
            None => reply,
        })
    }
}

enum Read<B> {
    Whole(Collected),
    /// Over a limit: what was read, and the body from there on.
    Partly(Collected, std::pin::Pin<Box<B>>),
}

/// What the engine sees of a streamed response. A status that no reply can have counts as 500.
fn head_of(status: StatusCode) -> Result<Reply, Failure> {
    let reply = Reply::new(status.as_u16()).or_else(|_| Reply::new(500))?;
    Ok(reply.with_trailer(STREAMED, ""))
}

fn is_event_stream(response: &Response<()>) -> bool {
    let value = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
