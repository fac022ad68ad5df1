//! A handler's answer that is a reply already.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use idem_core::engine::Committed;
use idem_core::reply::Reply;

use crate::mark::replied;

/// An answer that stands as it is: one that was committed with the handler's own rows, or the
/// reply of a registered handler.
///
/// ```
/// use axum::Json;
/// use idem_http::handler::{Checked, Done, Exec, Fault};
///
/// /// The same work as when a reconciler resumes it without the client. The operation is
/// /// `resumable().begun(Begun::ByHandler)`, so that a body that is no number leaves the key free.
/// async fn charge(exec: Exec, Checked(Json(_)): Checked<Json<u64>>) -> Result<Done, Fault> {
///     Ok(exec.registered().await?.into())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done(pub Reply);

impl From<Reply> for Done {
    fn from(reply: Reply) -> Self {
        Self(reply)
    }
}

impl From<Committed> for Done {
    fn from(committed: Committed) -> Self {
        Self(committed.into())
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        replied::<Body>(self.0)
    }
}
