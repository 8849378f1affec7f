//! The core without a proxy: laws, cases, recorded conversations, stability and books. One target, since what these tests
//! share takes longer to compile than they do.

#[path = "../../examples/support/mod.rs"]
mod support;

mod books;
mod cases;
mod conversations;
mod epochs;
mod laws;
mod properties;
mod stability;
