//! `idem-retry` against `idem serve`, through a network that loses answers; and inside an engine.

mod client;
mod layers;
mod lost_replies;
#[allow(dead_code)] // Each test binary uses a part of it.
#[path = "../support/mod.rs"]
mod support;
