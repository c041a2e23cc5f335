//! The reserve: disk space that a node gives up when its disk is full, so that epochs are still closed.
//!
//! ```text
//!   RESERVE   whole ──no room for a write──▶ given up ──room for it again──▶ whole
//!   writes    taken                          refused (53100)                 taken
//!   closes    go on                          go on, in its space             go on
//! ```
//!
//! Without closes nothing is read either, for a read of now waits for the epoch of its timestamp. What
//! had been taken when the disk became full is written into that space, and after it closing records
//! only. The file lies beside NODE, allocated and never written or read.

use std::io;
use std::path::{Path, PathBuf};

use coeval_env::fs;

/// Most of the disk that the reserve takes, as a divisor of its size.
const SHARE_OF_DISK: u64 = 16;
/// Free space to leave beside it: the log goes on there.
const BESIDE: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    /// Its size; 0 for none.
    bytes: u64,
    is_whole: bool,
}

impl Reserve {
    /// The reserve of a data directory, of so many bytes or a sixteenth of its disk if that is less.
    /// It is not whole before it is made.
    pub(super) fn new(directory: &Path, bytes: u64) -> Self {
        let space = fs::space(directory);
        let most = space.map_or(bytes, |space| space.total / SHARE_OF_DISK);
        Self {
            path: directory.join("RESERVE"),
            bytes: bytes.min(most),
            is_whole: false,
        }
    }

    /// Whether it has all its space, or has seen that there is room and is to have none.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Makes it whole if that leaves room beside it; returns whether it is.
    pub(super) async fn make(&mut self) -> bool {
        if !self.is_whole {
            match self.try_make().await {
                Ok(is_whole) => self.is_whole = is_whole,
                Err(error) => {
                    tracing::debug!(%error, reserve = %self.path.display(), "no reserve is made");
                    // Half a reserve would only take space.
                    let _ = fs::remove_file(&self.path).await;
                }
            }
        }
        self.is_whole
    }

    async fn try_make(&self) -> io::Result<bool> {
        let has = match fs::exists(&self.path).await? {
            true => self.bytes,
            false => 0,
        };
        let directory = self.path.with_file_name(".");
        let available = fs::space(directory)?.available;
        if available.saturating_add(has) < self.bytes.saturating_add(BESIDE) {
            return Ok(false);
        }
        if self.bytes > 0 {
            let file = fs::open(&self.path, fs::OpenOptions::CREATE).await?;
            file.allocate(self.bytes).await?;
            if file.len().await? > self.bytes {
                file.set_len(self.bytes).await?;
            }
        } else if has == 0 && fs::exists(&self.path).await? {
            fs::remove_file(&self.path).await?;
        }
        Ok(true)
    }

    /// Gives its space back to the disk; false when it had none.
    pub(super) async fn give_up(&mut self) -> bool {
        let had = std::mem::take(&mut self.is_whole) && self.bytes > 0;
        had && fs::remove_file(&self.path).await.is_ok()
    }

    /// Gives its space back before a start, which has to write, if there is little left.
    pub(super) async fn give_up_to_start(directory: &Path) -> io::Result<()> {
        let path = directory.join("RESERVE");
        if fs::space(directory)?.available < BESIDE && fs::exists(&path).await? {
            tracing::warn!(
                reserve = %path.display(),
                "the disk is full: the reserve is given up, so that the node can start"
            );
            fs::remove_file(&path).await?;
        }
        Ok(())
    }
}
