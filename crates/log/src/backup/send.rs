//! The sender of a backup: reads the files of a running server and sends them as a stream
//! of pieces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_env::fs;
use coeval_types::Lsn;
use tokio::sync::mpsc;

use super::archive::{self, Item, MAX_DATA_BYTES};
use super::end_of_backup;
use crate::Error;
use crate::checkpoint::CHECKPOINTS;
use crate::control::Control;
use crate::files::Files;
use crate::log::Log;
use crate::retention::Hold;
use crate::segment::{Name, SEGMENT_HEADER_BYTES};
use crate::shared::Shared;

/// Channel for the pieces of the stream. When its receiver is dropped, the backup ends.
type Sink = mpsc::Sender<Result<Vec<u8>, Error>>;

/// A backup that is about to be sent. Until it has been sent, the log retains the files
/// that it needs.
#[derive(Debug)]
pub struct BackupSource {
    shared: Arc<Shared>,
    files: Arc<Files>,
    /// Log offset at which the present term began.
    term_start: Lsn,
    hold: Hold,
}

/// Error: the receiver of the stream has been dropped.
struct Gone;

enum Ended {
    Gone,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Gone> for Ended {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl Log {
    /// Begins a backup. `None` when the log has no directory.
    #[must_use]
    pub fn backup(&self) -> Option<BackupSource> {
        Some(BackupSource {
            shared: Arc::clone(&self.shared),
            files: self.files.clone()?,
            term_start: self.term_start,
            hold: self.hold(),
        })
    }
}

async fn send(sink: &Sink, item: &Item) -> Result<(), Gone> {
    send_bytes(sink, item.encode()).await
}

async fn send_bytes(sink: &Sink, bytes: Vec<u8>) -> Result<(), Gone> {
    sink.send(Ok(bytes)).await.map_err(|_| Gone)
}

impl BackupSource {
    /// Sends the whole backup, or an error as the last item. Blocks its thread while it
    /// reads files: it belongs on a thread of its own.
    pub async fn send(self, sink: mpsc::Sender<Result<Vec<u8>, Error>>) {
        match self.send_all(&sink).await {
            Ok(()) | Err(Ended::Gone) => {}
            Err(Ended::Failed(error)) => {
                // The receiver of the stream may have been dropped meanwhile.
                let _ = sink.send(Err(error)).await;
            }
        }
    }

    async fn send_all(&self, sink: &Sink) -> Result<(), Ended> {
        send_bytes(sink, archive::begin()).await?;
        if let Some(checkpoint) = self.hold.checkpoint() {
            let name = format!("{:020}.checkpoint", checkpoint.start.replay_from().0);
            let path = self.files.checkpoints().join(&name);
            let name = format!("{CHECKPOINTS}/{name}");
            send_file(sink, &path, name, u64::MAX).await?;
        }
        let end = self.shared.durable_end();
        for (segment, path) in self.segments(end).await? {
            let follows = SEGMENT_HEADER_BYTES + (end.0 - segment.first.0);
            let name = format!("log/{}", segment.file_name());
            send_file(sink, &path, name, follows).await?;
        }
        let leading = self.shared.leading.as_ref();
        let control = Control {
            database: self.files.database,
            term: self.shared.term,
            // A leader's term that is not committed yet began after `end`.
            start: self.term_start.min(end),
            clean_end: Some(end),
            member: None,
            // What a server alone writes later adds no membership, so its files say it for good.
            versioned: self.files.versioned
                || leading.is_some_and(|leading| leading.is_versioned()),
        };
        let control = control.encode();
        let file = Item::File {
            name: "CONTROL".to_owned(),
            length: control.len() as u64,
            follows: control.len() as u64,
        };
        send(sink, &file).await?;
        send(sink, &Item::Data(control)).await?;
        let item = Item::End {
            end: end_of_backup(self.shared.term, end),
            taken_at: coeval_env::wall_clock(),
            database: self.files.database,
        };
        send(sink, &item).await?;
        Ok(())
    }

    /// The segments that hold any part of the log from the held offset to `end`.
    async fn segments(&self, end: Lsn) -> Result<Vec<(Name, PathBuf)>, Error> {
        let directory = self.files.log();
        let names = fs::read_dir(&directory)
            .await
            .map_err(Error::io("list", &directory))?;
        let mut segments: Vec<_> = names
            .into_iter()
            .filter_map(|path| Some((Name::of(&path)?, path)))
            .filter(|(name, _)| name.first < end)
            .collect();
        let held = |(name, _): &(Name, PathBuf)| name.first <= self.hold.log_start();
        let before = segments.iter().rposition(held).unwrap_or(0);
        Ok(segments.split_off(before))
    }
}

/// Sends a file's first `most` bytes, or all of it.
async fn send_file(sink: &Sink, path: &Path, name: String, most: u64) -> Result<(), Ended> {
    let file = fs::open(path, fs::OpenOptions::READ)
        .await
        .map_err(Error::io("open", path))?;
    let length = file.len().await.map_err(Error::io("look at", path))?;
    let follows = length.min(most);
    let item = Item::File {
        name,
        length,
        follows,
    };
    send(sink, &item).await?;
    let mut at = 0;
    while at < follows {
        let mut piece = vec![0; (follows - at).min(MAX_DATA_BYTES as u64) as usize];
        file.read_exact_at(&mut piece, at)
            .await
            .map_err(Error::io("read", path))?;
        at += piece.len() as u64;
        send(sink, &Item::Data(piece)).await?;
    }
    Ok(())
}
