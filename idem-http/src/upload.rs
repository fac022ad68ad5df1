//! Reading a request's body before anything is claimed.

use std::error::Error;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError};

use crate::collected::{Collected, Collector};
use crate::problem::Code;

/// Reads a body of at most `limit` bytes, whether its length was announced or not. One that says
/// that it is longer is not read at all.
pub(crate) async fn collect<B>(
    headers: &HeaderMap,
    body: B,
    limit: usize,
) -> Result<Collected, UploadError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let over = |bytes: u64| bytes > limit as u64;
    if over(body.size_hint().lower()) || announced(headers).is_some_and(over) {
        return Err(UploadError::TooLarge);
    }
    let mut body = std::pin::pin!(body);
    let mut collector = Collector::new(limit);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| UploadError::of(&*error.into()))?;
        if !collector.take(frame) {
            return Err(UploadError::TooLarge);
        }
    }
    Ok(collector.into_collected())
}

/// Why there is no whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadError {
    /// It is over the limit, or over that of a layer outside.
    TooLarge,
    /// It broke off.
    Incomplete,
}

impl UploadError {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut error = Some(error);
        while let Some(current) = error {
            if current.is::<LengthLimitError>() {
                return Self::TooLarge;
            }
            error = current.source();
        }
        Self::Incomplete
    }

    pub(crate) fn code(self) -> Code {
        match self {
            Self::TooLarge => Code::BodyTooLarge,
            Self::Incomplete => Code::BodyIncomplete,
        }
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;
    use http_body_util::{Full, Limited};

    use super::*;

    /// Frames one after the other, with no length announced.
    struct Chunks(Vec<Result<&'static [u8], io::Error>>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            if self.0.is_empty() {
                return Poll::Ready(None);
            }
            Poll::Ready(Some(self.0.remove(0).map(|chunk| Frame::data(Bytes::from_static(chunk)))))
        }
    }

    async fn read<B>(body: B, limit: usize) -> Result<Bytes, UploadError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        collect(&HeaderMap::new(), body, limit).await.map(|body| body.data().clone())
    }

    #[tokio::test]
    async fn a_body_up_to_the_limit_is_read() {
        let chunks = || Chunks(vec![Ok(b"ab"), Ok(b""), Ok(b"cd")]);
        assert_eq!(read(chunks(), 4).await.unwrap(), "abcd");
        assert_eq!(read(chunks(), 3).await, Err(UploadError::TooLarge));
        assert_eq!(read(Full::new(Bytes::from_static(b"abcd")), 4).await.unwrap(), "abcd");
        assert_eq!(read(Chunks(vec![]), 0).await.unwrap(), "");
    }

    #[tokio::test]
    async fn one_that_says_that_it_is_too_long_is_not_read() {
        /// Panics when it is read.
        struct Unread;
        impl Body for Unread {
            type Data = Bytes;
            type Error = Infallible;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
                panic!("it was read")
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, "5".parse().unwrap());
        let read = collect(&headers, Unread, 4).await;
        assert_eq!(read.unwrap_err(), UploadError::TooLarge);
    }

    #[tokio::test]
    async fn one_that_breaks_off_is_incomplete() {
        let broken = Chunks(vec![Ok(b"ab"), Err(io::Error::other("reset"))]);
        assert_eq!(read(broken, 4).await, Err(UploadError::Incomplete));
    }

    #[tokio::test]
    async fn the_limit_of_a_layer_outside_counts_as_too_large() {
        let limited = Limited::new(Chunks(vec![Ok(b"abcd")]), 3);
        assert_eq!(read(limited, 100).await, Err(UploadError::TooLarge));
    }
}
