//! A look at a council's directory that changes nothing: whether a start would read it.

use std::path::Path;
use std::sync::Arc;

use coeval_log::{Log, Replay};

use crate::store::Rows;
use crate::{Error, Machine, Settings};

/// What is in a council's directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Bytes of log behind the newest snapshot.
    pub log_bytes: u64,
    /// Bytes of the newest snapshot; 0 without one.
    pub snapshot_bytes: usize,
    /// Bytes at the log's end that make no whole entry: a start cuts them off.
    pub cut_bytes: u64,
}

/// Reads the directory with every checksum, and has the machine take over the newest snapshot. No
/// process may use the directory meanwhile.
///
/// # Errors
/// When a start would be refused: the same, by file and offset.
pub async fn inspect(
    directory: &Path,
    settings: &Settings,
    machine: &mut dyn Machine,
) -> Result<Inspected, Error> {
    let rows = Arc::new(Rows::default());
    let replay: Arc<dyn Replay> = Arc::<Rows>::clone(&rows);
    let (_, summary) = Log::inspect(directory, settings.log(), replay).await?;
    let snapshot = summary.checkpoint.map(|_| rows.joined());
    if let Some(snapshot) = &snapshot {
        machine.restore(Some(snapshot))?;
    }
    Ok(Inspected {
        log_bytes: summary.bytes,
        snapshot_bytes: snapshot.map_or(0, |snapshot| snapshot.len()),
        cut_bytes: summary.cut_bytes,
    })
}
