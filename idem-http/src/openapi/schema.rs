//! The schema of problem documents.

use serde_json::{Value, json};

use crate::problem::Code;

/// RFC 9457 with this crate's members.
pub(super) fn problem() -> Value {
    let codes: Vec<String> = Code::ALL.iter().map(|code| code.error_code()).collect();
    let mut kinds: Vec<&str> = Code::ALL.iter().map(|code| code.error_type()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    json!({
        "type": "object",
        "description": "A problem of the idempotency layer (RFC 9457).",
        "required": ["type", "title", "status", "detail", "error"],
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "Stable." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "original_status": {
                "type": "integer",
                "description": "Of `idempotency_reply_not_kept`: the status of the first answer.",
            },
            "error": {
                "type": "object",
                "description": "For clients that look for an error under this name.",
                "required": ["type", "code", "message"],
                "properties": {
                    "type": { "type": "string", "enum": kinds },
                    "code": { "type": "string", "enum": codes },
                    "message": { "type": "string" },
                },
            },
        },
    })
}
