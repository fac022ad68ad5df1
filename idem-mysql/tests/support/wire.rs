//! How MySQL's packets are told apart, so that a proxy can cut a connection exactly at a COMMIT.

use idem_testkit::faults::messages::{Framing, Sort};

pub(crate) struct Packets;

impl Framing for Packets {
    /// Three bytes of length, one of its number.
    fn head_bytes(&self) -> usize {
        4
    }

    fn body_bytes(&self, head: &[u8]) -> Option<usize> {
        usize::try_from(u32::from_le_bytes([head[0], head[1], head[2], 0])).ok()
    }

    fn sort(&mut self, packet: &[u8]) -> Sort {
        // A command begins a new count of packets; what has another number is part of the
        // handshake, or goes on with a long command.
        match (packet[3], &packet[4..]) {
            (0, command) if command.starts_with(b"\x03COMMIT") => Sort::Commit,
            // A query or the execution of a prepared statement. Preparing one does nothing, and
            // what closes one has no answer.
            (0, [0x03 | 0x17, ..]) => Sort::Request,
            _ => Sort::Passing,
        }
    }
}
