//! What axum handlers take and return (feature `axum`).
//!
//! A handler with an effect in the store's own database is about five lines. Rows and reply
//! commit together, or neither does:
//!
//! ```
//! use axum::Json;
//! use axum::extract::State;
//! use axum::http::StatusCode;
//! use idem_core::transactional::TransactionalStore;
//! use idem_http::handler::{Checked, Done, Exec, Fault};
//!
//! # #[derive(serde::Deserialize, serde::Serialize)] struct Order { sku: String }
//! # async fn insert<C: ?Sized>(_: &mut C, _: &Order) -> Result<(), std::io::Error> { Ok(()) }
//! async fn create_order<S: TransactionalStore + Clone>(
//!     exec: Exec,
//!     State(store): State<S>,
//!     Checked(Json(order)): Checked<Json<Order>>,
//! ) -> Result<Done, Fault> {
//!     let mut transaction = exec.transaction(&store).await?;
//!     insert(transaction.connection(), &order).await?;
//!     let reply = exec.reply((StatusCode::CREATED, Json(order))).await?;
//!     Ok(transaction.commit(reply).await?.into())
//! }
//! ```

mod checked;
mod done;
mod exec;
mod fault;

pub use checked::Checked;
pub use done::Done;
pub use exec::{Exec, MAX_REPLY_IN_MEMORY_BYTES, NotProtected};
pub use fault::Fault;

use axum::response::{IntoResponseParts, ResponseParts};

use crate::mark::Disposition;

/// `(StatusCode::BAD_REQUEST, Disposition::Release, "no such currency")` is a response.
impl IntoResponseParts for Disposition {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}
