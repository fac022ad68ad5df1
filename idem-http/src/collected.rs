//! A body in memory, given out frame by frame.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};

/// What is left of a body in memory. `Debug` shows sizes only (R24).
#[derive(Clone, Default)]
pub(crate) struct Collected {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl Collected {
    pub(crate) fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, trailers }
    }

    pub(crate) fn data(&self) -> &Bytes {
        &self.data
    }

    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// The next frame: all data at once, then the trailers.
    pub(crate) fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        if !self.data.is_empty() {
            return Some(Frame::data(std::mem::take(&mut self.data)));
        }
        self.trailers.take().map(Frame::trailers)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    /// Exact, except where trailers follow: a server that is told the length sends no trailers
    /// over HTTP/1.1.
    pub(crate) fn size_hint(&self) -> SizeHint {
        let bytes = self.data.len() as u64;
        match self.trailers {
            None => SizeHint::with_exact(bytes),
            Some(_) => {
                let mut hint = SizeHint::new();
                hint.set_lower(bytes);
                hint
            }
        }
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected")
            .field("bytes", &self.data.len())
            .field("trailers", &self.trailers.as_ref().map(HeaderMap::len))
            .finish()
    }
}

/// Takes up frames until there are more bytes than a limit.
pub(crate) struct Collector {
    data: BytesMut,
    trailers: Option<HeaderMap>,
    limit: usize,
}

impl Collector {
    pub(crate) fn new(limit: usize) -> Self {
        Self { data: BytesMut::new(), trailers: None, limit }
    }

    /// Takes up a frame. Says whether the limit still holds.
    pub(crate) fn take(&mut self, frame: Frame<Bytes>) -> bool {
        match frame.into_data() {
            Ok(data) => self.data.extend_from_slice(&data),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    self.trailers.get_or_insert_default().extend(trailers);
                }
            }
        }
        self.data.len() <= self.limit
    }

    pub(crate) fn into_collected(self) -> Collected {
        Collected::new(self.data.freeze(), self.trailers)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn data_comes_first_and_trailers_last() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let mut collector = Collector::new(4);
        assert!(collector.take(Frame::data(Bytes::from_static(b"ab"))));
        assert!(collector.take(Frame::data(Bytes::from_static(b"cd"))));
        assert!(collector.take(Frame::trailers(trailers.clone())));
        let mut body = collector.into_collected();
        assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (4, None));
        assert_eq!(body.next_frame().unwrap().into_data().unwrap(), "abcd");
        assert!(!body.is_end());
        assert_eq!(body.next_frame().unwrap().into_trailers().unwrap(), trailers);
        assert!(body.is_end() && body.next_frame().is_none());
    }

    #[test]
    fn one_byte_more_than_the_limit_is_told() {
        let mut collector = Collector::new(4);
        assert!(collector.take(Frame::data(Bytes::from_static(b"abcd"))));
        assert!(!collector.take(Frame::data(Bytes::from_static(b"e"))));
        assert_eq!(collector.into_collected().data(), "abcde");
    }

    #[test]
    fn an_empty_body_has_no_frame_and_an_exact_size() {
        let mut body = Collected::default();
        assert!(body.is_end() && body.next_frame().is_none());
        assert_eq!(body.size_hint().exact(), Some(0));
    }
}
