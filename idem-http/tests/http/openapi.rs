//! The layer in an OpenAPI document.

use std::time::Duration;

use http::header::HeaderName;
use idem_core::catalog::Catalog;
use idem_core::operation::Operation;
use idem_core::record::Retention;
use idem_http::openapi::{DescribeError, add_catalog};
use idem_http::problem::Code;
use serde_json::{Value, json};

use crate::support::World;

fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "payments", "version": "1" },
        "paths": {
            "/v1/charges": {
                "get": { "responses": { "200": { "description": "the charges" } } },
                "post": {
                    "parameters": [{ "name": "x-trace", "in": "header" }],
                    "responses": {
                        "201": { "description": "charged" },
                        "202": { "$ref": "#/components/responses/Later" },
                        "422": {
                            "description": "the amount is not one",
                            "content": { "application/json": { "schema": { "type": "object" } } },
                        },
                        "503": { "$ref": "#/components/responses/Down" },
                    },
                },
            },
        },
    })
}

#[test]
fn an_operation_says_what_its_key_does() {
    let world = World::new();
    let mut document = document();
    let untouched = document["paths"]["/v1/charges"]["get"].clone();
    world.layer().describe(&mut document, "/v1/charges", "post").unwrap();
    let operation = &document["paths"]["/v1/charges"]["post"];

    let parameter = &operation["parameters"][1];
    assert_eq!(parameter["name"], "Idempotency-Key");
    assert_eq!((&parameter["in"], &parameter["required"]), (&json!("header"), &json!(true)));
    assert_eq!(
        operation["x-idempotency"],
        json!({
            "class": "keyed", "operation": "charge", "key": "required", "lifetime": "PT23H45M",
        })
    );
    let headers = operation["responses"]["201"]["headers"].as_object().unwrap();
    let names: Vec<_> = headers.keys().collect();
    assert_eq!(names, ["Idempotency-Key-Lifetime", "Idempotency-Stored", "Idempotent-Replayed"]);
    assert_eq!(document["paths"]["/v1/charges"]["get"], untouched);
}

#[test]
fn every_problem_has_a_response_and_is_in_the_schema() {
    let world = World::new();
    let mut document = document();
    world.layer().describe(&mut document, "/v1/charges", "post").unwrap();
    let responses = &document["paths"]["/v1/charges"]["post"]["responses"];
    let codes = &document["components"]["schemas"]["IdempotencyProblem"]["properties"]["error"]["properties"]
        ["code"]["enum"];
    for code in Code::ALL {
        assert!(codes.as_array().unwrap().contains(&json!(code.error_code())), "{code:?}");
        let response = &responses[code.status().as_str()];
        if response.get("$ref").is_some() {
            continue;
        }
        assert_eq!(
            response["content"]["application/problem+json"]["schema"]["$ref"],
            "#/components/schemas/IdempotencyProblem",
            "{code:?}"
        );
    }
    assert!(responses["409"]["headers"]["Retry-After"].is_object());
    assert!(responses["400"]["description"].as_str().unwrap().contains("idempotency_key_missing"));
}

#[test]
fn what_the_document_says_already_stays() {
    let world = World::new();
    let mut described = document();
    world.layer().describe(&mut described, "/v1/charges", "post").unwrap();
    let operation = &described["paths"]["/v1/charges"]["post"];
    let responses = &operation["responses"];
    assert_eq!(responses["422"]["description"], "the amount is not one");
    assert!(responses["422"]["content"]["application/json"].is_object());
    assert!(responses["422"]["content"]["application/problem+json"].is_object());
    assert_eq!(responses["202"], json!({ "$ref": "#/components/responses/Later" }));
    assert_eq!(responses["503"], json!({ "$ref": "#/components/responses/Down" }));

    let mut again = described.clone();
    world.layer().describe(&mut again, "/v1/charges", "post").unwrap();
    assert_eq!(again, described, "describing it twice changes nothing");
}

#[test]
fn settings_show_in_the_document() {
    let world = World::new();
    let mut document = document();
    let layer = world
        .layer_with(|operation| operation.retention(Retention::Forever))
        .optional_key()
        .strict()
        .key_header(HeaderName::from_static("paypal-request-id"))
        .replayed_header(HeaderName::from_static("x-replayed"));
    layer.describe(&mut document, "/v1/charges", "post").unwrap();
    let operation = &document["paths"]["/v1/charges"]["post"];
    assert_eq!(operation["parameters"][1]["name"], "Paypal-Request-Id");
    assert_eq!(operation["parameters"][1]["required"], false);
    assert_eq!(
        operation["x-idempotency"],
        json!({ "class": "keyed", "operation": "charge", "key": "optional" }),
        "a lifetime that is absent is for ever"
    );
    assert!(operation["responses"]["201"]["headers"]["X-Replayed"].is_object());
}

#[test]
fn a_document_without_the_operation_is_refused_and_left_alone() {
    let world = World::new();
    for (path, method) in [("/v2/charges", "post"), ("/v1/charges", "put")] {
        let mut described = document();
        let result = world.layer().describe(&mut described, path, method);
        assert_eq!(result, Err(DescribeError::NoSuchOperation));
        assert_eq!(described, document());
    }
    let mut odd = document();
    odd["paths"]["/v1/charges"]["post"]["parameters"] = json!("none");
    let before = odd.clone();
    let result = world.layer().describe(&mut odd, "/v1/charges", "post");
    assert_eq!((result, odd), (Err(DescribeError::NotAnArray), before));
    assert_eq!(add_catalog(&mut json!([]), &Catalog::new()), Err(DescribeError::NotAnObject));
}

#[test]
fn the_catalogue_goes_into_the_document() {
    let charge = Operation::builder("charge")
        .retention(Retention::of(Duration::from_secs(3_600)))
        .max_run_time(Duration::from_secs(600))
        .build()
        .unwrap();
    let mut catalog = Catalog::new();
    catalog.keyed(&charge).unwrap();
    catalog.naturally_idempotent("charges.list").unwrap();
    catalog.not_idempotent("tickets.draw", "each draw gives a new number").unwrap();
    let mut document = document();
    add_catalog(&mut document, &catalog).unwrap();
    assert_eq!(
        document["x-idempotency-catalog"],
        json!([
            { "name": "charge", "class": "keyed", "lifetime_seconds": 3_000 },
            { "name": "charges.list", "class": "naturally_idempotent" },
            {
                "name": "tickets.draw", "class": "not_idempotent",
                "reason": "each draw gives a new number",
            },
        ])
    );
}
