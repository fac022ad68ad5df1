//! How Postgres' messages are told apart, so that a proxy can cut a connection exactly at a COMMIT.

use idem_testkit::faults::messages::{Framing, Sort};

#[derive(Default)]
pub(crate) struct Messages {
    /// Whether the client's messages begin with their type by now.
    has_type: bool,
}

impl Framing for Messages {
    /// Its type, once there is one, and four bytes of length.
    fn head_bytes(&self) -> usize {
        if self.has_type { 5 } else { 4 }
    }

    /// The length counts its own bytes.
    fn body_bytes(&self, head: &[u8]) -> Option<usize> {
        let length = head.last_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))?;
        usize::try_from(length).ok()?.checked_sub(4)
    }

    fn sort(&mut self, message: &[u8]) -> Sort {
        // The first message that is not a question about TLS is the last without a type.
        self.has_type |= message.get(4..8) != Some(&[0x04, 0xd2, 0x16, 0x2f]);
        match message {
            [b'Q', _, _, _, _, query @ ..] if query.starts_with(b"COMMIT") => Sort::Commit,
            // A query, the end of a batch, and nothing of the handshake.
            [b'Q' | b'S', ..] if self.has_type => Sort::Request,
            _ => Sort::Passing,
        }
    }
}
