//! The layer from outside: in front of axum routers, and in front of plain services over sockets.
#![cfg(feature = "axum")]

mod bodies;
mod docs;
mod fidelity;
mod hang_up;
mod keys;
mod leases;
mod local_effects;
mod marks;
mod openapi;
mod resuming;
mod routers;
mod secrets;
mod settings;
mod sockets;
mod stores;
mod streams;
mod support;
mod table;
