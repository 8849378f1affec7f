//! The proxy-wasm ABI as a [`crate::driver::Host`]. Nothing is decided here.

pub(crate) mod abi;
mod analyst;
mod calls;
mod measure;
mod meters;
mod root;
mod stream;
