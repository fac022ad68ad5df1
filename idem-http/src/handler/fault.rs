//! How a handler ends without an answer.

use axum::response::{IntoResponse, Response};
use idem_core::engine::Failure;

use crate::mark::{Disposition, FailureMark};
use crate::problem::{Code, DEFAULT_PROBLEM_BASE, Problem};

/// Why a handler has no answer. Every error becomes one by `?`, and then means that what was done
/// is not known (R15): the layer answers with a problem, and what follows is the operation's
/// choice.
///
/// ```
/// use axum::http::StatusCode;
/// use idem_http::handler::Fault;
///
/// async fn pay(amount: i64) -> Result<&'static str, Fault> {
///     if amount <= 0 {
///         return Err(Fault::reject((StatusCode::UNPROCESSABLE_ENTITY, "an amount is positive")));
///     }
///     std::fs::metadata("/proc/self")?;
///     Ok("paid")
/// }
/// ```
pub struct Fault(Kind);

enum Kind {
    Failed(Failure),
    Rejected(Box<Response>),
}

impl Fault {
    /// The request was found wanting before anything was done: the client gets this response, and
    /// the key is freed where nothing can have been done (R14).
    pub fn reject(response: impl IntoResponse) -> Self {
        Self(Kind::Rejected(Box::new(response.into_response())))
    }
}

impl<E: Into<Failure>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(Kind::Failed(error.into()))
    }
}

/// Without the layer around the handler, a failure is a 500.
impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        match self.0 {
            Kind::Failed(failure) => {
                let problem = Problem::new(Code::HandlerFailed);
                let mut response = problem.into_response(DEFAULT_PROBLEM_BASE);
                FailureMark::new(failure).mark(&mut response);
                response
            }
            Kind::Rejected(response) => {
                let mut response = *response;
                Disposition::Release.mark(&mut response);
                response
            }
        }
    }
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Failed(failure) => write!(f, "Fault({failure})"),
            Kind::Rejected(response) => write!(f, "Fault(rejected with {})", response.status()),
        }
    }
}
