//! How a body is read: by its meaning where that is beyond doubt, as it is otherwise.

use super::hash::PartHash;
use super::multipart::{self, Part};
use super::{content_type, json};

/// A body, read as far as its meaning is beyond doubt. Each kind has a tag of its own, so that a
/// body of one kind never has the fingerprint of a body of another.
pub(super) enum Body<'b> {
    /// As it is.
    Raw(&'b [u8]),
    /// The canonical form of a JSON text.
    Json(Vec<u8>),
    /// The parts of a multipart/form-data body.
    Form(Vec<Part<'b>>),
    /// Another multipart body as it is. Its Content-Type says where to cut it, so that it counts
    /// whole: the same bytes under another boundary are another body.
    Multipart { content_type: &'b [u8], bytes: &'b [u8] },
}

impl<'b> Body<'b> {
    /// Reads a body as its content type says.
    pub(super) fn of(content_type: &'b [u8], bytes: &'b [u8]) -> Self {
        let essence = content_type::essence(content_type).unwrap_or_default();
        if content_type::is_json(&essence) {
            return Self::json(bytes);
        }
        if !essence.starts_with(b"multipart/") {
            return Self::Raw(bytes);
        }
        match multipart::parts(content_type, bytes) {
            Some(parts) if essence == b"multipart/form-data" => Self::Form(parts),
            _ => Self::Multipart { content_type, bytes },
        }
    }

    /// Reads a body as JSON.
    pub(super) fn json(bytes: &'b [u8]) -> Self {
        json::canonical(bytes).map_or(Self::Raw(bytes), Self::Json)
    }

    pub(super) fn hash_into(&self, hash: &mut PartHash) {
        match self {
            Self::Raw(bytes) => {
                hash.tag(0);
                hash.part(bytes);
            }
            Self::Json(canonical) => {
                hash.tag(1);
                hash.part(canonical);
            }
            Self::Form(parts) => {
                hash.tag(2);
                hash.count(parts.len());
                for part in parts {
                    hash.part(part.headers);
                    hash.part(part.content);
                }
            }
            Self::Multipart { content_type, bytes } => {
                hash.tag(3);
                hash.part(content_type);
                hash.part(bytes);
            }
        }
    }
}
