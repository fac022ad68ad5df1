//! What a layer does, in an OpenAPI document.
//!
//! ```
//! use idem_core::engine::Engine;
//! use idem_core::memory::MemoryStore;
//! use idem_core::operation::Operation;
//! use idem_http::IdempotencyLayer;
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(MemoryStore::new()).namespace("shop")?.build()?;
//! let charge = Operation::builder("charges.create").build()?;
//! let layer = IdempotencyLayer::new(engine).operation(&charge);
//!
//! let mut document = json!({
//!     "openapi": "3.1.0",
//!     "paths": { "/v1/charges": { "post": { "responses": { "201": { "description": "made" } } } } }
//! });
//! layer.describe(&mut document, "/v1/charges", "post")?;
//!
//! let operation = &document["paths"]["/v1/charges"]["post"];
//! assert_eq!(operation["parameters"][0]["name"], "Idempotency-Key");
//! assert_eq!(operation["x-idempotency"]["lifetime"], "PT23H45M");
//! assert!(operation["responses"]["422"].is_object());
//! # Ok(()) }
//! ```

mod describe;
mod duration;
mod schema;

use idem_core::catalog::Catalog;
use idem_core::operation::Operation;
use serde_json::{Map, Value};

use crate::layer::IdempotencyLayer;

pub use duration::iso8601;

/// The member of an operation that says how it bears being sent twice.
pub const OPERATION_EXTENSION: &str = "x-idempotency";
/// The member of a document that holds a service's catalogue.
pub const CATALOG_EXTENSION: &str = "x-idempotency-catalog";
/// The name under which the schema of problem documents is added.
pub const PROBLEM_SCHEMA: &str = "IdempotencyProblem";

impl<S> IdempotencyLayer<S, Operation> {
    /// Adds to one operation of an OpenAPI document (3.0 or 3.1): the key's header, the headers of
    /// answers, the problem responses, and how long a key is good for, as an ISO 8601 duration in
    /// [`x-idempotency`](OPERATION_EXTENSION). What the document says already stays.
    ///
    /// `path` and `method` are as in the document: `/v1/charges`, `post`.
    ///
    /// # Errors
    /// [`DescribeError`]; the document is unchanged then.
    pub fn describe(
        &self,
        document: &mut Value,
        path: &str,
        method: &str,
    ) -> Result<(), DescribeError> {
        let mut described = document.clone();
        let operation = described
            .get_mut("paths")
            .and_then(|paths| paths.get_mut(path))
            .and_then(|path| path.get_mut(method))
            .ok_or(DescribeError::NoSuchOperation)?;
        let (protected, settings) = self.protected();
        describe::describe(object(operation)?, protected, settings)?;
        let schemas = member(member(object(&mut described)?, "components")?, "schemas")?;
        schemas.entry(PROBLEM_SCHEMA).or_insert_with(schema::problem);
        *document = described;
        Ok(())
    }
}

/// Puts a service's catalogue into an OpenAPI document, as
/// [`x-idempotency-catalog`](CATALOG_EXTENSION).
///
/// # Errors
/// [`DescribeError::NotAnObject`] when the document is no object.
pub fn add_catalog(document: &mut Value, catalog: &Catalog) -> Result<(), DescribeError> {
    // Names, numbers and reasons: it cannot fail.
    let entries = serde_json::to_value(catalog).unwrap_or_default();
    object(document)?.insert(CATALOG_EXTENSION.into(), entries);
    Ok(())
}

/// Why a document cannot be added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// It has no operation with this path and method.
    #[error("the document has no operation with this path and method")]
    NoSuchOperation,
    /// Something that must be an object is not one.
    #[error("a part of the document that must be an object is not one")]
    NotAnObject,
    /// Something that must be an array is not one.
    #[error("a part of the document that must be an array is not one")]
    NotAnArray,
}

fn object(value: &mut Value) -> Result<&mut Map<String, Value>, DescribeError> {
    value.as_object_mut().ok_or(DescribeError::NotAnObject)
}

fn member<'v>(
    of: &'v mut Map<String, Value>,
    name: &str,
) -> Result<&'v mut Map<String, Value>, DescribeError> {
    object(of.entry(name).or_insert_with(|| Value::Object(Map::new())))
}
