//! The filter in the real Envoy. One target: what these tests share takes longer to compile than they do.

#[path = "../../examples/support/mod.rs"]
mod support;

mod basics;
mod bodies;
mod books;
mod cases;
mod engine;
mod headers;
mod leaving;
mod routes;
mod toggle;
mod trap;
