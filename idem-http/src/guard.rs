//! What is decided about a request before its body is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Response;
use http::header::HeaderName;
use http::request::Parts;
use idem_core::engine::{Engine, Execution};
use idem_core::key::{Key, Scope};
use idem_core::operation::Operation;

use crate::header_filter::HeaderFilter;
use crate::key_header::{KeyError, read_key};
use crate::layer::ScopeOf;
use crate::mark::Disposition;
use crate::problem::{Code, Problem};
use crate::settings::Settings;

/// One operation behind one layer.
pub(crate) struct Guard {
    pub(crate) engine: Engine,
    pub(crate) operation: Operation,
    pub(crate) settings: Settings,
    pub(crate) filter: HeaderFilter,
    scope: Arc<dyn ScopeOf>,
    has_warned: AtomicBool,
}

/// What becomes of a request.
pub(crate) enum Admission {
    /// It passes untouched.
    Pass,
    /// It passes, and would be protected if the switch were on.
    PassUnprotected,
    /// It is refused; nothing is read, claimed or run.
    Refuse(Problem),
    /// It runs under this key.
    Guard { scope: Scope, key: Key },
}

impl Guard {
    pub(crate) fn new(
        engine: Engine,
        scope: Arc<dyn ScopeOf>,
        operation: Operation,
        settings: Settings,
    ) -> Self {
        let filter = settings.header_filter();
        Self { engine, operation, settings, filter, scope, has_warned: AtomicBool::new(false) }
    }

    pub(crate) fn admit(&self, parts: &Parts) -> Admission {
        let settings = &self.settings;
        if !settings.methods.contains(&parts.method) {
            return Admission::Pass;
        }
        if !settings.switch.is_on() {
            return Admission::PassUnprotected;
        }
        if parts.extensions.get::<Execution>().is_some() {
            // The outer one holds the key, so that the inner one would wait for it in vain.
            let problem = Problem::new(Code::Misconfigured);
            return Admission::Refuse(problem.detail("Two idempotency layers are nested."));
        }
        let key = match read_key(&parts.headers, &settings.key_header, settings.key_syntax) {
            Ok(Some(key)) => key,
            Ok(None) if settings.key_required => {
                return Admission::Refuse(missing(&settings.key_header));
            }
            Ok(None) => return Admission::Pass,
            Err(error) => return Admission::Refuse(invalid(&error, &settings.key_header)),
        };
        match self.scope.scope_of(parts) {
            Ok(scope) => Admission::Guard { scope, key },
            Err(error) => Admission::Refuse(error.into_problem()),
        }
    }

    /// Warns, once, that the 404 of a path without a route takes up a key; not where the service
    /// has said what becomes of it.
    pub(crate) fn stands_around_fallback<B>(&self, response: &Response<B>) {
        if response.extensions().get::<Disposition>().is_none()
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                idem.operation = %self.operation.name(),
                "a 404 of a path without a route is stored under its key; put the layer on routes \
                 (Router::route_layer, Handler::layer), or mark the fallback Disposition::Release"
            );
        }
    }

    /// When to come again: no later than `remaining`, the operation's lease, and the longest hint
    /// that the service gives; and never at once.
    pub(crate) fn retry_after(&self, remaining: Duration) -> Duration {
        let longest = self.settings.retry_hint.min(self.operation.lease());
        // Whole seconds, so that rounding up does not go past the lease.
        let longest = Duration::from_secs(longest.as_secs().max(1));
        remaining.clamp(Duration::from_secs(1), longest)
    }
}

fn missing(name: &HeaderName) -> Problem {
    let detail = format!("This request needs the header {name}, the same with each retry.");
    Problem::new(Code::KeyMissing).detail(detail)
}

fn invalid(error: &KeyError, name: &HeaderName) -> Problem {
    let code = match error {
        KeyError::Repeated => Code::KeyRepeated,
        _ => Code::KeyInvalid,
    };
    Problem::new(code).detail(format!("In the header {name}, {error}."))
}
