//! The reference decision engine: System One over HTTP, answered by rules that fit on a screen.
//!
//! `rules` judges the facts of one pair; `facts` reads them out of the state that the filter sends; `systemone` is the
//! protocol without a network; `server` listens. Examples include it with `mod reference;`, tests with
//! `#[path = "../../examples/reference/mod.rs"] mod reference;`.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every example and test includes this module and uses its own part of it"
)]

pub mod facts;
pub mod rules;
pub mod server;
pub mod systemone;
