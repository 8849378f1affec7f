//! The parts of `examples/fit_tokens.rs`: texts from disk, generated and in other languages, and the fit itself.
#![allow(unreachable_pub, reason = "an example has no other crate that could reach it")]

pub mod corpus;
pub mod fit;
pub mod generated;
pub mod languages;

use std::collections::BTreeMap;

/// What goes wrong on the way.
pub type Failure = Box<dyn std::error::Error>;
/// Texts by class; the texts of one class are independent of each other.
pub type Corpus = BTreeMap<String, Vec<String>>;
