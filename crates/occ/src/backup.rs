//! Online backups: a dedicated thread lets the log read its files, and the caller
//! receives them as a stream of pieces.

use std::task::{Context, Poll};

use coeval_log::Log;
use coeval_txn::Error;
use coeval_txn::contract::BackupStream;
use tokio::sync::mpsc;

use crate::transaction::log_error;

/// Pieces that the thread sends ahead of the consumer, at most.
const AHEAD: usize = 4;

/// The stream of pieces that the backup thread sends.
struct Pieces(mpsc::Receiver<Result<Vec<u8>, coeval_log::Error>>);

impl BackupStream for Pieces {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map_err(error)))
    }
}

/// Maps an error of the log: a file that the thread cannot read ends the backup alone,
/// not the engine.
fn error(error: coeval_log::Error) -> Error {
    match error {
        coeval_log::Error::Io { .. } => Error::Io(format!("the backup failed: {error}")),
        other => log_error(other),
    }
}

/// Starts a backup thread and returns the stream of its pieces.
pub(crate) fn begin(log: &Log) -> Result<Box<dyn BackupStream>, Error> {
    let source = log
        .backup()
        .ok_or_else(|| Error::Io("a database in memory has nothing to back up".to_owned()))?;
    let (sender, pieces) = mpsc::channel(AHEAD);
    // The thread ends by itself when it has sent everything, or when the client drops the
    // stream.
    drop(coeval_env::spawn_dedicated("backup", move || {
        source.send(sender)
    }));
    Ok(Box::new(Pieces(pieces)))
}
