//! A message, its id, and its limits.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::Serialize;

/// The most bytes of a payload.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// The most headers of a message.
pub const MAX_HEADERS: usize = 64;
/// The most bytes of a topic, an ordering key, a header's name or a header's value.
pub const MAX_TEXT_BYTES: usize = 255;

/// A message's id: made with the message and the same on every delivery, so that a consumer can
/// tell a repeat. It shows as a lower-case UUID (version 4, RFC 9562).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId([u8; 16]);

impl MessageId {
    /// A fresh one.
    ///
    /// # Panics
    /// When the operating system gives no randomness.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system gives randomness");
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The one with these bytes, as a store read them.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for MessageId {
    type Err = NoMessageId;

    /// Reads the form that it shows as: 36 characters, upper or lower case.
    fn from_str(text: &str) -> Result<Self, NoMessageId> {
        let text = text.as_bytes();
        let hyphens = [8, 13, 18, 23];
        if text.len() != 36 || hyphens.iter().any(|place| text[*place] != b'-') {
            return Err(NoMessageId);
        }
        let mut digits = text.iter().enumerate().filter(|(at, _)| !hyphens.contains(at));
        let mut digit = || {
            let (_, byte) = digits.next().ok_or(NoMessageId)?;
            char::from(*byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
                .ok_or(NoMessageId)
        };
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            *byte = digit()? << 4 | digit()?;
        }
        Ok(Self(bytes))
    }
}

/// The text is not a message's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message's id has 36 characters, like 01234567-89ab-4cde-8f01-23456789abcd")]
pub struct NoMessageId;

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// A message to send once the transaction has committed, at least once, in order within its
/// ordering key. Its limits are checked when it is made, before any transaction is open.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    id: MessageId,
    topic: String,
    ordering_key: Option<String>,
    headers: Vec<(String, String)>,
    payload: Bytes,
}

impl OutboxMessage {
    /// A message with a payload of bytes.
    ///
    /// # Errors
    /// [`MessageError`] when the topic is empty or over [`MAX_TEXT_BYTES`], or the payload is
    /// over [`MAX_PAYLOAD_BYTES`].
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Result<Self, MessageError> {
        let (topic, payload) = (topic.into(), payload.into());
        check_text("topic", &topic)?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(MessageError::TooLarge { what: "payload", bytes: payload.len() });
        }
        Ok(Self {
            id: MessageId::random(),
            topic,
            ordering_key: None,
            headers: Vec::new(),
            payload,
        })
    }

    /// A message whose payload is `value` as JSON.
    ///
    /// # Errors
    /// [`MessageError`] as for [`new`](Self::new), and when `value` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(
        topic: impl Into<String>,
        value: &T,
    ) -> Result<Self, MessageError> {
        let payload = serde_json::to_vec(value).map_err(MessageError::Json)?;
        Self::new(topic, payload)?.with_header("content-type", "application/json")
    }

    /// Sends it after every earlier message of the same ordering key, and before every later one.
    ///
    /// # Errors
    /// [`MessageError`] when the ordering key is empty or over [`MAX_TEXT_BYTES`].
    pub fn ordered_by(mut self, ordering_key: impl Into<String>) -> Result<Self, MessageError> {
        let ordering_key = ordering_key.into();
        check_text("ordering key", &ordering_key)?;
        self.ordering_key = Some(ordering_key);
        Ok(self)
    }

    /// Adds a header.
    ///
    /// # Errors
    /// [`MessageError`] when its name is empty, either is over [`MAX_TEXT_BYTES`], or there are
    /// more than [`MAX_HEADERS`].
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, MessageError> {
        let (name, value) = (name.into(), value.into());
        check_text("header name", &name)?;
        if value.len() > MAX_TEXT_BYTES {
            return Err(MessageError::TooLarge { what: "header value", bytes: value.len() });
        }
        if self.headers.len() == MAX_HEADERS {
            return Err(MessageError::TooManyHeaders);
        }
        self.headers.push((name, value));
        Ok(self)
    }

    /// For store authors: a message as it was read back.
    pub fn from_parts(
        id: MessageId,
        topic: String,
        ordering_key: Option<String>,
        headers: Vec<(String, String)>,
        payload: Bytes,
    ) -> Self {
        Self { id, topic, ordering_key, headers, payload }
    }

    /// For store authors: the same message with an empty payload, as a listing shows it.
    #[must_use]
    pub fn without_payload(&self) -> Self {
        Self { payload: Bytes::new(), ..self.clone() }
    }

    /// The same on every delivery.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What it is about.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// What it is ordered by; without one it has no order.
    pub fn ordering_key(&self) -> Option<&str> {
        self.ordering_key.as_deref()
    }

    /// Its headers, in the order they were added.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// What it says.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }
}

impl fmt::Debug for OutboxMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxMessage")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A text that must say something is empty.
    #[error("the {what} is empty")]
    Empty {
        /// Which text.
        what: &'static str,
    },
    /// Something is over its limit.
    #[error("the {what} has {bytes} bytes, which is over the limit")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// How many bytes it has.
        bytes: usize,
    },
    /// There are more than [`MAX_HEADERS`].
    #[error("a message has at most {MAX_HEADERS} headers")]
    TooManyHeaders,
    /// The value cannot be written as JSON.
    #[error("the payload cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

fn check_text(what: &'static str, text: &str) -> Result<(), MessageError> {
    match text.len() {
        0 => Err(MessageError::Empty { what }),
        1..=MAX_TEXT_BYTES => Ok(()),
        bytes => Err(MessageError::TooLarge { what, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_before_any_transaction() {
        assert!(matches!(OutboxMessage::new("", ""), Err(MessageError::Empty { what: "topic" })));
        let big = vec![0; MAX_PAYLOAD_BYTES + 1];
        assert!(matches!(OutboxMessage::new("t", big), Err(MessageError::TooLarge { .. })));
        let mut message = OutboxMessage::new("t", vec![0; MAX_PAYLOAD_BYTES]).unwrap();
        for _ in 0..MAX_HEADERS {
            message = message.with_header("n", "").unwrap();
        }
        assert!(matches!(message.with_header("n", ""), Err(MessageError::TooManyHeaders)));
    }

    #[test]
    fn ids_are_version_4_uuids() {
        let id = MessageId::random().to_string();
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    }

    #[test]
    fn an_id_is_read_back_from_what_it_shows_as_and_from_nothing_else() {
        let id = MessageId::random();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        let text = id.to_string();
        for bad in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.replace('-', "0"),
            &format!("{}g", &text[..35]),
        ] {
            assert_eq!(bad.parse::<MessageId>(), Err(NoMessageId), "{bad}");
        }
    }
}
