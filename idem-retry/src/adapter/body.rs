//! Bodies whose beginning was read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// A body whose beginning, or all of it, was read: a request's that is kept to be sent again, or a
/// response's that was looked at. It gives the same bytes as the one it was made of.
pub struct Replayable<B> {
    front: Bytes,
    trailers: Option<HeaderMap>,
    /// What was not read.
    rest: Option<Pin<Box<B>>>,
}

impl<B> Replayable<B> {
    /// Nothing was read of it.
    #[cfg(feature = "tower")]
    pub(crate) fn unread(body: B) -> Self {
        Self { front: Bytes::new(), trailers: None, rest: Some(Box::pin(body)) }
    }

    /// What was read of it.
    pub(crate) fn front(&self) -> &Bytes {
        &self.front
    }

    /// Whether all of it was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// The same once more, if all of it was read.
    #[cfg(feature = "tower")]
    pub(crate) fn again(&self) -> Option<Self> {
        let (front, trailers) = (self.front.clone(), self.trailers.clone());
        self.is_whole().then_some(Self { front, trailers, rest: None })
    }
}

/// Reads a body up to `limit` bytes, and a little over to know that it is longer.
pub(crate) async fn front_of<B: Body>(body: B, limit: usize) -> Result<Replayable<B>, B::Error> {
    let mut body = Box::pin(body);
    let mut front = BytesMut::new();
    let mut trailers = None;
    while front.len() <= limit {
        let Some(frame) = body.frame().await.transpose()? else {
            return Ok(Replayable { front: front.freeze(), trailers, rest: None });
        };
        match frame.into_data() {
            Ok(mut data) => front.extend_from_slice(&data.copy_to_bytes(data.remaining())),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(Replayable { front: front.freeze(), trailers, rest: Some(body) })
}

impl<B: Body> Body for Replayable<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.front.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.front)))));
        }
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
        };
        let to_bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        rest.as_mut().poll_frame(context).map_ok(|frame| frame.map_data(to_bytes))
    }

    fn is_end_stream(&self) -> bool {
        let rest_is_over = self.rest.as_ref().is_none_or(|rest| rest.is_end_stream());
        self.front.is_empty() && self.trailers.is_none() && rest_is_over
    }

    fn size_hint(&self) -> SizeHint {
        let front = self.front.len() as u64;
        let Some(rest) = &self.rest else { return SizeHint::with_exact(front) };
        let rest = rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(front));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(front)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl<B> std::fmt::Debug for Replayable<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (read, is_whole) = (self.front.len(), self.is_whole());
        f.debug_struct("Replayable").field("read", &read).field("is_whole", &is_whole).finish()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn chunks(sizes: &[usize]) -> impl Body<Data = Bytes, Error = std::convert::Infallible> {
        let mut at = 0_u8;
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| {
                at += 1;
                Ok(Frame::data(Bytes::from(vec![at; *size])))
            })
            .collect();
        StreamBody::new(futures_util::stream::iter(frames))
    }

    #[tokio::test]
    async fn it_gives_what_it_was_made_of_whether_read_or_not() {
        for (sizes, is_whole) in
            [(&[][..], true), (&[3, 4], true), (&[7, 1], false), (&[8], false), (&[0, 2, 9], false)]
        {
            let expected = chunks(sizes).collect().await.unwrap().to_bytes();
            let kept = front_of(chunks(sizes), 7).await.unwrap();
            assert_eq!(kept.is_whole(), is_whole, "{sizes:?}");
            assert_eq!(kept.size_hint().lower() as usize, kept.front().len());
            assert_eq!(kept.collect().await.unwrap().to_bytes(), expected, "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn trailers_are_kept() {
        let trailers: HeaderMap =
            [(http::header::ETAG, http::HeaderValue::from_static("1"))].into_iter().collect();
        let all = trailers.clone();
        let body = Full::<Bytes>::from("abc").with_trailers(async move { Some(Ok(all)) });
        let kept = front_of(body, 10).await.unwrap();
        assert!(!kept.is_end_stream());
        let collected = kept.collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), "abc");
    }
}
