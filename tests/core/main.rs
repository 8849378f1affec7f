//! Everything that needs no proxy: laws, cases, recorded conversations, stability, books, the driver on a fake host,
//! configuration, token figures, replays, and what the documents say. One target, since what these tests share takes longer
//! to compile than they do.

#[path = "../../examples/replay/mod.rs"]
mod parts;
#[path = "../../examples/support/mod.rs"]
mod support;

mod analysis;
mod books;
mod cases;
mod config;
mod conversations;
mod documents;
mod driver;
mod epochs;
mod estimates;
mod fixtures;
mod laws;
mod layering;
mod metrics;
mod models;
mod neutral;
mod presets;
mod properties;
mod recorded_bodies;
mod replay;
mod responses;
mod ring;
mod stability;
mod tokens;
mod usage;
mod window;
