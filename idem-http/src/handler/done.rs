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
/// use idem_http::handler::{Done, Exec, Fault};
///
/// /// The same work as when a reconciler resumes it without the client.
/// async fn charge(exec: Exec) -> Result<Done, Fault> {
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
