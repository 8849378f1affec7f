//! Where things are: the repository, the Envoy binary, the built filter, the shared data.

use std::path::{Path, PathBuf};

use super::{Failure, Result};

/// The root of this repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Envoy binary: `ENVOY_BIN`, else the one that `make tools` fetches.
pub fn envoy_binary() -> Result<PathBuf> {
    existing("ENVOY_BIN", ".tools/envoy/_bin/envoy", "make tools")
}

/// The built filter: `FILTER_WASM`, else the one that `make wasm` builds.
pub fn filter_wasm() -> Result<PathBuf> {
    existing("FILTER_WASM", "dist/context_compaction.wasm", "make wasm")
}

/// The build of the filter that traps on command.
pub fn trapping_filter_wasm() -> Result<PathBuf> {
    let trap = "dist/context_compaction.trap.wasm";
    existing("TRAP_FILTER_WASM", trap, &format!("make {trap}"))
}

/// A file or folder of the data that stands beside the repository.
pub fn shared(path: &str) -> PathBuf {
    repository().join("../shared").join(path)
}

fn existing(variable: &str, default: &str, make: &str) -> Result<PathBuf> {
    let named = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = named.unwrap_or_else(|| repository().join(default));
    path.canonicalize().map_err(|error| {
        let path = path.display();
        Failure::new(format!("{path}: {error}; run `{make}`, or point {variable} at the file"))
    })
}
