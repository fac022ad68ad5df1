//! What the adapters share: settings, what is decided before the first attempt, and how the end
//! of a call is told where a client library has room for a response or an error only.

mod body;
mod cause;
mod end;
mod settings;

pub use body::Replayable;
pub use end::{Failed, Report};
pub use settings::HttpRetry;

pub(crate) use body::front_of;
pub(crate) use cause::cause_of;
pub(crate) use end::Seen;
pub(crate) use settings::{Prepared, Said};

/// An error of any type.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
