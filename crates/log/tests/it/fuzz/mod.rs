//! The bodies of the fuzz targets `log` and `checkpoint` in the folder `fuzz`, and tests
//! that replay their corpus.

pub mod checkpoint;
mod directory;
pub mod log;
#[cfg(test)]
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
#[test]
fn logs_are_refused_or_replayed_alike() {
    replay::replay("log", log::run);
}

#[cfg(test)]
#[test]
fn checkpoints_are_refused_or_restored_alike() {
    replay::replay("checkpoint", checkpoint::run);
}
