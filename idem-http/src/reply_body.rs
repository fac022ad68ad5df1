//! The body that the layer answers with.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::collected::Collected;

pin_project! {
    /// What the layer answers with: the service's own body, where the request passed untouched;
    /// one in memory, which is the same for the first answer and for each replay; or the service's
    /// body from where the layer stopped reading it, since it is too large to keep.
    ///
    /// `Debug` does not show content.
    pub struct ReplyBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Passed { #[pin] body: B },
        Collected { body: Collected },
        Streamed { read: Collected, rest: Pin<Box<B>> },
    }
}

impl<B> ReplyBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self { kind: Kind::Passed { body } }
    }

    pub(crate) fn collected(body: Collected) -> Self {
        Self { kind: Kind::Collected { body } }
    }

    /// What was `read` already, and the `rest` of the same body.
    pub(crate) fn streamed(read: Collected, rest: Pin<Box<B>>) -> Self {
        Self { kind: Kind::Streamed { read, rest } }
    }
}

/// An empty body.
impl<B> Default for ReplyBody<B> {
    fn default() -> Self {
        Self::collected(Collected::default())
    }
}

/// A body in memory.
impl<B> From<Bytes> for ReplyBody<B> {
    fn from(data: Bytes) -> Self {
        Self::collected(Collected::new(data, None))
    }
}

impl<B: Body<Data = Bytes>> Body for ReplyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Passed { body } => body.poll_frame(cx),
            KindProjection::Collected { body } => Poll::Ready(body.next_frame().map(Ok)),
            KindProjection::Streamed { read, rest } => match read.next_frame() {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => rest.as_mut().poll_frame(cx),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body } => body.is_end_stream(),
            Kind::Collected { body } => body.is_end(),
            Kind::Streamed { read, rest } => read.is_end() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body } => body.size_hint(),
            Kind::Collected { body } => body.size_hint(),
            Kind::Streamed { read, rest } => {
                let (read, rest) = (read.data().len() as u64, rest.size_hint());
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(read));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
                    hint.set_upper(upper);
                }
                hint
            }
        }
    }
}

impl<B> std::fmt::Debug for ReplyBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.kind {
            Kind::Passed { .. } => "ReplyBody(passed)",
            Kind::Collected { .. } => "ReplyBody(collected)",
            Kind::Streamed { .. } => "ReplyBody(streamed)",
        })
    }
}
