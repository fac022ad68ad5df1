//! One operation's part of a document.

use http::header::HeaderName;
use idem_core::operation::Operation;
use serde_json::{Map, Value, json};

use super::{DescribeError, OPERATION_EXTENSION, PROBLEM_SCHEMA, iso8601, member};
use crate::key_header::KeySyntax;
use crate::problem::{Code, PROBLEM_JSON};
use crate::settings::{LIFETIME_HEADER, STORED_HEADER, Settings};

pub(super) fn describe(
    operation: &mut Map<String, Value>,
    protected: &Operation,
    settings: &Settings,
) -> Result<(), DescribeError> {
    add_parameter(operation, protected, settings)?;
    let extension = extension(protected, settings);
    let is_new = operation.insert(OPERATION_EXTENSION.into(), extension).is_none();
    let responses = member(operation, "responses")?;
    // What is there before the problems are added are the service's own answers.
    for response in responses.values_mut().filter(|_| is_new) {
        add_answer_headers(response, settings)?;
    }
    let mut statuses: Vec<u16> = Code::ALL.iter().map(|code| code.status().as_u16()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        add_problem(responses, status)?;
    }
    Ok(())
}

fn add_parameter(
    operation: &mut Map<String, Value>,
    protected: &Operation,
    settings: &Settings,
) -> Result<(), DescribeError> {
    let name = spelt(&settings.key_header);
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    let parameters = parameters.as_array_mut().ok_or(DescribeError::NotAnArray)?;
    let is_there = parameters.iter().any(|parameter| {
        let said = parameter["name"].as_str().unwrap_or_default();
        parameter["in"] == "header" && said.eq_ignore_ascii_case(&name)
    });
    if is_there {
        return Ok(());
    }
    let form = match settings.key_syntax {
        KeySyntax::BareOrQuoted => "Bare, or a string in double quotes (RFC 9651).",
        KeySyntax::QuotedOnly => "A string in double quotes (RFC 9651).",
    };
    let kept = match protected.published_lifetime() {
        Some(lifetime) => format!("A retry is safe for {} after the first.", iso8601(lifetime)),
        None => "A retry is safe for ever.".to_owned(),
    };
    parameters.push(json!({
        "name": name,
        "in": "header",
        "required": settings.key_required,
        "description": format!(
            "Names this request among those of its caller, the same with each retry: 1 to 255 \
             characters of printable ASCII, the quotes not counted. {form} {kept}"
        ),
        // Quotes, and an escape before each character.
        "schema": { "type": "string", "minLength": 1, "maxLength": 2 + 2 * 255 },
        "example": match settings.key_syntax {
            KeySyntax::BareOrQuoted => "8e03978e-40d5-43dd-bc93-6894a57f9324",
            KeySyntax::QuotedOnly => "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
        },
    }));
    Ok(())
}

fn extension(protected: &Operation, settings: &Settings) -> Value {
    let mut extension = json!({
        "class": "keyed",
        "operation": protected.name().as_str(),
        "key": if settings.key_required { "required" } else { "optional" },
    });
    // Absent is for ever.
    if let Some(lifetime) = protected.published_lifetime() {
        extension["lifetime"] = iso8601(lifetime).into();
    }
    extension
}

fn add_answer_headers(response: &mut Value, settings: &Settings) -> Result<(), DescribeError> {
    if response.get("$ref").is_some() {
        return Ok(()); // Shared with other operations: what it says is not this one's to change.
    }
    let headers = member(super::object(response)?, "headers")?;
    let described = [
        (
            spelt(&settings.replayed_header),
            "`true` when this is the stored answer to an earlier request under the key.",
            json!({ "type": "string", "enum": ["true"] }),
        ),
        (
            spelt(&LIFETIME_HEADER),
            "How many more seconds a retry under the key is safe; absent is for ever.",
            json!({ "type": "integer", "minimum": 0 }),
        ),
        (
            spelt(&STORED_HEADER),
            "`false` when the answer is not stored, so that a retry may be answered differently.",
            json!({ "type": "string", "enum": ["false"] }),
        ),
    ];
    for (name, description, schema) in described {
        let header = json!({ "description": description, "schema": schema });
        headers.entry(name).or_insert(header);
    }
    Ok(())
}

fn add_problem(responses: &mut Map<String, Value>, status: u16) -> Result<(), DescribeError> {
    let codes = Code::ALL.iter().filter(|code| code.status() == status);
    let titles: Vec<_> =
        codes.map(|code| format!("{} (`{}`)", code.title(), code.error_code())).collect();
    let response = responses
        .entry(status.to_string())
        .or_insert_with(|| json!({ "description": format!("{}.", titles.join("; ")) }));
    if response.get("$ref").is_some() {
        return Ok(());
    }
    let response = super::object(response)?;
    if status == 409 || status == 503 {
        let header = json!({
            "description": "In how many seconds to retry with the same key; absent where a retry \
                            brings nothing.",
            "schema": { "type": "integer", "minimum": 1 },
        });
        member(response, "headers")?.entry("Retry-After").or_insert(header);
    }
    let reference = format!("#/components/schemas/{PROBLEM_SCHEMA}");
    member(response, "content")?
        .entry(PROBLEM_JSON)
        .or_insert_with(|| json!({ "schema": { "$ref": reference } }));
    Ok(())
}

/// A header's name as documents write it: `Idempotency-Key`.
fn spelt(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}
