//! The scripted agent of `examples/agent.rs`.
//!
//! `story` is the script; `conversation` plays it and writes the messages; `tools` are what the agent can call;
//! `workspace` is the copy of the repository in which calls are carried out.
#![allow(unreachable_pub, reason = "an example's modules are reached from its main file only")]

pub mod conversation;
pub mod story;
pub mod tools;
pub mod workspace;
