//! The API's own description, with what the layer adds to it.

use std::error::Error;

use idem_core::catalog::Catalog;
use idem_core::operation::Operation;
use idem_http::IdempotencyLayer;
use idem_http::openapi::add_catalog;
use serde_json::{Value, json};

/// The OpenAPI document of the API: how each operation bears being sent twice, the key's header,
/// its lifetime, and the problems that it can meet.
pub(super) fn document<S>(
    layer: &IdempotencyLayer<S, Operation>,
    charge: &Operation,
) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let mut document = skeleton();
    layer.describe(&mut document, "/v1/charges", "post")?;
    let mut catalog = Catalog::new();
    catalog.keyed(charge)?;
    catalog.naturally_idempotent("charges.list")?;
    catalog.naturally_idempotent("charges.retrieve")?;
    add_catalog(&mut document, &catalog)?;
    Ok(document)
}

fn skeleton() -> Value {
    let fields = json!({
        "type": "object",
        "required": ["amount", "currency"],
        "properties": {
            "amount": { "type": "integer", "format": "int64", "minimum": 1,
                        "description": "In minor units, such as cents." },
            "currency": { "type": "string", "description": "A code of ISO 4217.", "example": "eur" },
            "description": { "type": "string", "description": "At most 1,000 bytes." },
        },
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
                    },
                },
                "get": {
                    "operationId": "charges.list",
                    "responses": {
                        "200": { "description": "What the ledger holds for this caller." },
                    },
                },
            },
            "/v1/charges/{id}": { "get": {
                "operationId": "charges.retrieve",
                "parameters": [id],
                "responses": {
                    "200": one("The charge."),
                    "404": { "description": "This caller has no such charge." },
                },
            } },
        },
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Charge": {
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
