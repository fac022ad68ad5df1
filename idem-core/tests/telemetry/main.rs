//! What can be seen of idem from outside: each span and metric that the page promises, and
//! nothing that is secret.

mod alerts;
mod emitted;
#[allow(dead_code)] // Shared with the tests of local effects.
#[path = "../local_effects/fate.rs"]
mod fate;
mod page;
mod scenario;
mod seen;
mod spans;
#[allow(dead_code)] // Shared with the tests of local effects.
#[path = "../local_effects/store.rs"]
mod store;
