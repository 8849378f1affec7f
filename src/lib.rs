//! An Envoy filter that takes tool calls and tool results out of an LLM request once a fast classifier judges
//! them no longer needed.
//!
//! # Guarantees, in order of rank
//! 1. No request is broken to save tokens: every error is a [`skip::Skip`], and every `Skip` forwards the original
//!    bytes. [`exchange::Exchange::on`] is the one place where that happens.
//! 2. Subtraction only: [`cut::Reduced`] is the only type a host accepts as a new body, and [`cut::Cuts::apply`] is
//!    its only constructor.
//! 3. Off by default: without a configuration nothing is read, buffered or asked.
//!
//! # Map
//! Three rings; each knows only the rings inside it.
//! - core, pure: `skip`, `fault`, `hold`, `models`, `window`, `usage` < `json`, `metrics` < `cut`, `tokens`, `policy`, `economy`
//!   < `transcript` < `dialect`, `engine`, `epoch`, `memory` < `ledger`, `pause`, `reported`, `realised` < `exchange` < `analysis`
//! - `driver`: carries the exchange's steps out on a small `Host` trait
//! - `glue`: the proxy-wasm ABI as a `Host`; exists on wasm32 only
//!
//! A trap takes the worker's VM down with every stream on it, so this crate denies whatever can panic.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::todo,
    clippy::unimplemented,
    clippy::unreachable,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects
)]
#![deny(unsafe_code)]

pub mod analysis;
pub mod cut;
pub mod dialect;
pub mod driver;
pub mod economy;
pub mod engine;
pub mod epoch;
pub mod exchange;
pub mod fault;
#[cfg(target_arch = "wasm32")]
mod glue;
pub mod hold;
pub mod json;
pub mod ledger;
pub mod memory;
pub mod metrics;
pub mod models;
pub mod pause;
pub mod policy;
pub mod realised;
pub mod reported;
pub mod skip;
pub mod tokens;
pub mod transcript;
pub mod usage;
pub mod window;
