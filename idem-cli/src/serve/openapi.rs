//! The API's own description, with what the layer adds to it.

use std::error::Error;

use idem_core::catalog::Catalog;
use idem_core::operation::Operation;
use idem_http::IdempotencyLayer;
use idem_http::openapi::add_catalog;
use serde_json::{Value, json};

use super::listing::MAX_LIMIT;

/// The OpenAPI document of the API: how each operation bears being sent twice, the key's header,
/// its lifetime, and the problems that it can meet.
pub(super) fn document<S>(
    layer: &IdempotencyLayer<S, Operation>,
    charge: &Operation,
) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let mut document = skeleton();
    layer.describe(&mut document, "/v1/charges", "post")?;
    for &(path, method, status, codes) in PROBLEMS {
        add_problem(&mut document["paths"][path][method]["responses"], status, codes);
    }
    let mut catalog = Catalog::new();
    catalog.keyed(charge)?;
    catalog.naturally_idempotent("charges.list")?;
    catalog.naturally_idempotent("charges.retrieve")?;
    add_catalog(&mut document, &catalog)?;
    Ok(document)
}

/// The problems that the service itself answers with, beside those of the layer.
const PROBLEMS: &[(&str, &str, &str, &[&str])] = &[
    (
        "/v1/charges",
        "post",
        "400",
        &[
            "body_invalid",
            "parameter_missing",
            "parameter_unknown",
            "parameter_duplicated",
            "parameter_invalid",
            "parameter_invalid_integer",
            "amount_out_of_range",
            "currency_unknown",
        ],
    ),
    ("/v1/charges", "post", "402", &["card_declined"]),
    (
        "/v1/charges",
        "post",
        "415",
        &["content_type_unsupported", "content_encoding_unsupported", "charset_unsupported"],
    ),
    ("/v1/charges", "post", "503", &["network_unavailable"]),
    ("/v1/charges", "get", "400", &["query_invalid", "parameter_invalid"]),
    ("/v1/charges", "get", "401", &["unauthenticated"]),
    ("/v1/charges", "get", "404", &["resource_missing"]),
    ("/v1/charges", "get", "503", &["network_unavailable"]),
    ("/v1/charges/{id}", "get", "401", &["unauthenticated"]),
    ("/v1/charges/{id}", "get", "404", &["resource_missing"]),
    ("/v1/charges/{id}", "get", "503", &["network_unavailable"]),
    ("/healthz", "get", "503", &["store_unavailable"]),
];

/// Adds the service's own problems to what the layer says of this status.
fn add_problem(responses: &mut Value, status: &str, codes: &[&str]) {
    let own = json!({ "$ref": "#/components/schemas/Problem" });
    let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    let codes = codes.join(", ");
    let response = &mut responses[status];
    response["description"] = match response["description"].as_str() {
        Some(said) => format!("{said} Or, from the service itself: {codes}.").into(),
        None => format!("{codes}.").into(),
    };
    let schema = &mut response["content"]["application/problem+json"]["schema"];
    *schema = match schema.take() {
        Value::Null => own,
        layers => json!({ "anyOf": [layers, own] }),
    };
}

fn skeleton() -> Value {
    let fields = json!({
        "type": "object",
        "required": ["amount", "currency"],
        "description": "Another field is refused, but for some that payment SDKs send.",
        "properties": {
            "amount": { "type": "integer", "format": "int64", "minimum": 1,
                        "description": "In minor units, such as cents." },
            "currency": { "type": "string", "description": "A code of ISO 4217.", "example": "eur" },
            "description": { "type": "string", "description": "At most 1,000 bytes." },
        },
    });
    let limit = json!({
        "name": "limit", "in": "query",
        "schema": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT },
    });
    let starting_after = json!({
        "name": "starting_after", "in": "query", "schema": { "type": "string" },
        "description": "The id of the charge after which the part begins.",
    });
    let id = json!({
        "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "idem payments", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "token": [] }],
        "paths": {
            "/v1/charges": {
                "post": {
                    "operationId": "charges.create",
                    "requestBody": { "required": true, "content": {
                        "application/json": { "schema": fields },
                        "application/x-www-form-urlencoded": { "schema": fields },
                    } },
                    "responses": {
                        "201": one("The charge was made."),
                        "402": { "description": "The charge was declined, for good." },
                        "415": { "description": "The body is in a form that is not read." },
                    },
                },
                "get": {
                    "operationId": "charges.list",
                    "parameters": [limit, starting_after],
                    "responses": {
                        "200": { "description": "What the ledger holds for this caller." },
                    },
                },
            },
            "/v1/charges/{id}": { "get": {
                "operationId": "charges.retrieve",
                "parameters": [id],
                "responses": { "200": one("The charge.") },
            } },
            "/healthz": free("The store can be read; how the loops are, and what is stuck."),
            "/metrics": free("What happens, in the text format of Prometheus."),
            "/openapi.json": free("This document."),
        },
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Problem": problem(), "Charge": {
                "type": "object",
                "required": ["id", "object", "amount", "currency", "status", "created"],
                "properties": {
                    "id": { "type": "string" },
                    "object": { "const": "charge" },
                    "amount": { "type": "integer", "format": "int64" },
                    "currency": { "type": "string" },
                    "description": { "type": ["string", "null"] },
                    "status": { "const": "succeeded" },
                    "created": { "type": "integer", "description": "Seconds since 1970." },
                },
            } },
        },
    })
}

/// What anybody may read.
fn free(description: &str) -> Value {
    let responses = json!({ "200": { "description": description } });
    json!({ "get": { "security": [], "responses": responses } })
}

/// What [`Problem`](super::Problem) writes.
fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A problem of the service itself (RFC 9457).",
        "required": ["type", "title", "status", "detail", "error"],
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "Stable." },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "error": {
                "type": "object",
                "required": ["type", "code", "message"],
                "properties": {
                    "type": { "type": "string" },
                    "code": { "type": "string", "description": "Stable." },
                    "message": { "type": "string" },
                    "param": { "type": "string", "description": "The field that is wrong." },
                },
            },
        },
    })
}

fn one(description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Charge" });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

#[cfg(test)]
mod tests {
    use idem_core::engine::Engine;
    use idem_core::memory::MemoryStore;

    use super::*;

    #[test]
    fn the_key_its_lifetime_and_the_classes_are_published() {
        let engine = Engine::builder(MemoryStore::new()).namespace("test").unwrap();
        let charge = Operation::builder("charges.create").build().unwrap();
        let layer = IdempotencyLayer::new(engine.build().unwrap()).operation(&charge);
        let document = document(&layer, &charge).unwrap();
        let post = &document["paths"]["/v1/charges"]["post"];
        assert_eq!(post["parameters"][0]["name"], "Idempotency-Key");
        assert_eq!(post["x-idempotency"]["lifetime"], "PT23H45M");
        for status in ["201", "402", "400", "409", "422"] {
            assert!(post["responses"][status].is_object(), "{status}");
        }
        let classes = document["x-idempotency-catalog"].as_array().unwrap();
        let classes: Vec<_> =
            classes.iter().map(|entry| (&entry["name"], &entry["class"])).collect();
        assert_eq!(classes[0], (&json!("charges.create"), &json!("keyed")));
        assert_eq!(classes[1], (&json!("charges.list"), &json!("naturally_idempotent")));
    }
}
