//! The filter in the real Envoy, with real engines, and what stands around both. One target: what these tests share takes
//! longer to compile than they do.

#[path = "../../examples/reference/mod.rs"]
mod reference;
#[path = "../../examples/support/mod.rs"]
mod support;

mod basics;
mod bodies;
mod books;
mod cases;
mod clients;
mod engine;
mod engine_mock;
mod harness;
mod headers;
mod leaving;
mod mesh;
mod reference_engine;
mod routes;
mod toggle;
mod trap;
mod validate;
mod window;
