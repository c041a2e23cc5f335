//! Backups: what the log sends, on a thread of its own.

use std::task::{Context, Poll};

use coeval_log::Log;
use coeval_txn::Error;
use coeval_txn::contract::BackupStream;
use tokio::sync::mpsc;

use crate::transaction::log_error;

/// Pieces that may wait to be taken.
const AHEAD: usize = 4;

/// The pieces as they come from the thread.
struct Pieces(mpsc::Receiver<Result<Vec<u8>, coeval_log::Error>>);

impl BackupStream for Pieces {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Error>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map_err(error)))
    }
}

/// A file that cannot be read ends the backup, and nothing else.
fn error(error: coeval_log::Error) -> Error {
    match error {
        coeval_log::Error::Io { .. } => Error::Io(format!("the backup failed: {error}")),
        other => log_error(other),
    }
}

/// Begins a backup.
pub(crate) fn begin(log: &Log) -> Result<Box<dyn BackupStream>, Error> {
    let source = log
        .backup()
        .ok_or_else(|| Error::Io("a database in memory has nothing to back up".to_owned()))?;
    let (sender, pieces) = mpsc::channel(AHEAD);
    // Ends by itself when all is sent, or nobody takes it any more.
    drop(coeval_env::spawn_dedicated("backup", move || {
        source.send(sender)
    }));
    Ok(Box::new(Pieces(pieces)))
}
