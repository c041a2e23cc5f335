//! The fuzz targets of this crate, and a replay of their corpus.
//!
//! Targets of the folder `fuzz` include these files.

pub mod history;

#[cfg(test)]
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn kept_histories() {
    replay::replay("history", history::run);
}
