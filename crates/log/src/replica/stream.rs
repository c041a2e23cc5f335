//! Log streams: each reads a leader's log as a sequence of frames for one follower.

use std::sync::Arc;

use coeval_types::Lsn;
use tokio::sync::watch;

use super::files::LogFiles;
use super::window::{Frames, LogProgress, Look, frame_starts};
use crate::Error;
use crate::frame::frame_bytes;
use crate::shared::Shared;

/// Bytes read at once while a frame's start is searched.
const BLOCK_BYTES: usize = 1 << 20;

/// Reads a leader's log from a log offset on: new frames from memory, older ones from the
/// files.
#[derive(Debug)]
pub struct LogStream {
    shared: Arc<Shared>,
    files: LogFiles,
    progress: watch::Receiver<LogProgress>,
    /// Log before this offset is not sent.
    base: Lsn,
    at: Lsn,
}

impl LogStream {
    pub(super) fn new(shared: Arc<Shared>, files: LogFiles, base: Lsn, at: Lsn) -> Self {
        let progress = shared.leading().window.progress();
        Self {
            shared,
            files,
            progress,
            base,
            at,
        }
    }

    /// Log offset of the next frame.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Continues at another offset, where a frame must start.
    pub fn seek(&mut self, at: Lsn) {
        self.at = at;
    }

    /// Like [`LogStream::read`], from the frame that contains the offset `at`. A follower
    /// that asks for an offset inside a frame has a different log, which is no damage of
    /// this one.
    ///
    /// # Errors
    /// [`Error::Damaged`] when this log itself is damaged.
    pub async fn read_around(&mut self, at: Lsn, most: usize) -> Result<Option<Frames>, Error> {
        let window = &self.shared.leading().window;
        self.at = window.frame_around(at).unwrap_or(at);
        match self.read(most).await {
            Err(damaged @ Error::Damaged { .. }) if self.at == at => {
                self.at = self.find_frame_around(at).await?;
                match self.at == at {
                    true => Err(damaged),
                    false => self.read(most).await,
                }
            }
            read => read,
        }
    }

    /// Reads the frames in the files, from the last known frame start at or before `at`, and
    /// returns the start of the frame that contains `at`.
    async fn find_frame_around(&mut self, at: Lsn) -> Result<Lsn, Error> {
        let leading = self.shared.leading();
        let starts = leading.starts().filter(|start| *start <= at);
        let mut start = starts.max().unwrap_or(self.base);
        let Look::InFiles(until) = leading.window.look(start) else {
            return Ok(at);
        };
        while start <= at {
            let bytes = self.files.read(start, until, BLOCK_BYTES).await?;
            let end = Lsn(start.0 + bytes.len() as u64);
            if end > at {
                let starts = frame_starts(start, &bytes).take_while(|start| *start <= at);
                return Ok(starts.last().unwrap_or(at));
            }
            start = end;
        }
        Ok(at)
    }

    /// Reads the next frames if there are any: about as many as fit `most` bytes, and at
    /// least one.
    ///
    /// # Errors
    /// [`Error::NotRetained`] when the log there has been removed: the follower needs a
    /// checkpoint.
    pub async fn read(&mut self, most: usize) -> Result<Option<Frames>, Error> {
        if self.at < self.base {
            return Err(Error::NotRetained {
                from: self.at,
                oldest: self.base,
            });
        }
        let looked = self.shared.leading().window.look(self.at);
        let bytes = match looked {
            Look::Nothing => return Ok(None),
            Look::Bytes(bytes) => bytes.slice(..first_frames(&bytes, most)),
            Look::InFiles(until) => self.files.read(self.at, until, most).await?.into(),
        };
        let chunk = Frames {
            start: self.at,
            bytes,
        };
        self.at = chunk.end();
        Ok(Some(chunk))
    }

    /// Waits until there are frames, and reads them as [`LogStream::read`] does. `None` when
    /// the log has been closed, and nothing is left to read.
    pub async fn next(&mut self, most: usize) -> Result<Option<Frames>, Error> {
        loop {
            let ended = self.progress.borrow_and_update().ended;
            if let Some(chunk) = self.read(most).await? {
                return Ok(Some(chunk));
            }
            if ended || self.progress.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// Length in bytes of the first frames that fit `most` bytes, or of the first frame alone.
/// The leader made these frames itself, so their lengths are right.
fn first_frames(bytes: &[u8], most: usize) -> usize {
    let mut end = 0;
    while let Some(length) = bytes[end..].get(4..8) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        let next = end + frame_bytes(u64::from(length)) as usize;
        if end > 0 && next > most {
            break;
        }
        end = next;
    }
    end
}
