//! What the tests share.

pub(crate) mod answer;
pub(crate) mod app;
pub(crate) mod gate;
pub(crate) mod server;
pub(crate) mod store;
pub(crate) mod world;

pub(crate) use answer::{Answer, post, send};
pub(crate) use gate::Gate;
pub(crate) use world::{LEASE, World};
