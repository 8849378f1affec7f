//! The parts of `examples/replay.rs`: engines, what a turn is billed, the policies that the filter is compared with, one
//! conversation under all of them, and the tables.
//!
//! The example includes it with a `#[path]`, since its folder has the example's own name; the test does too. Both have
//! `support` at their root.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "an example has no other crate that could reach it, and the test uses its own part of it"
)]

pub mod bill;
pub mod engines;
pub mod peers;
pub mod policies;
pub mod report;
pub mod run;
