//! The reserve: disk space that the log gives up when the disk is full, so that rows can
//! still be deleted, and a checkpoint taken, from inside.
//!
//! ```text
//!   RESERVE   whole ──no room for a segment──▶ given up ──room for it again──▶ whole
//!   commits   all                              those that only free            all
//! ```
//!
//! The file lies beside CONTROL, allocated and never written or read. Only the log of a
//! standalone server or of a leader makes and uses it; on a follower it stays what it was,
//! for a follower cannot refuse what its leader sends.
//!
//! # Invariant
//!
//! The file is made only while that leaves room for a segment beside it: making it never
//! takes the space of CONTROL or of a segment that is being made.

use std::path::{Path, PathBuf};

use coeval_env::fs;

use crate::{Error, Settings};

/// The file's name in the data directory.
pub(crate) const RESERVE: &str = "RESERVE";

/// Most of the disk that the reserve takes, as a divisor of its size.
const SHARE_OF_DISK: u64 = 16;

/// Whether the disk has room for what a leader's log takes to accept all commits: the reserve,
/// as if there was none, and two segments. If the disk cannot be looked at, it has none.
#[must_use]
pub fn has_room(directory: &Path, settings: &Settings) -> bool {
    let (reserve, segment) = (settings.reserve_bytes, settings.segment_bytes);
    let needed = 2 * segment + Reserve::new(directory, reserve, segment).bytes;
    fs::space(directory).is_ok_and(|space| space.available >= needed)
}

/// The reserve of one data directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// Size of the reserve; 0 for none.
    bytes: u64,
    /// Free space to leave beside it.
    beside: u64,
    is_whole: bool,
}

impl Reserve {
    /// The reserve of the data directory, of `bytes` or a sixteenth of its disk if that is
    /// less. It is not whole before it is made. With 0 bytes there is none, and it counts as
    /// whole.
    pub(crate) fn new(directory: &Path, bytes: u64, segment_bytes: u64) -> Self {
        let bytes = match bytes {
            0 => 0,
            _ => match fs::space(directory) {
                Ok(space) => bytes.min(space.total / SHARE_OF_DISK),
                Err(_) => bytes,
            },
        };
        Self {
            path: directory.join(RESERVE),
            bytes,
            beside: segment_bytes,
            is_whole: bytes == 0,
        }
    }

    /// Whether it has all its space, or is to have none.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Makes it whole, if there is room.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no room, or the file cannot be made.
    pub(crate) async fn make(&mut self) -> Result<(), Error> {
        if self.is_whole {
            return Ok(());
        }
        let allocate = "allocate space for";
        let exists = fs::exists(&self.path)
            .await
            .map_err(Error::io("look for", &self.path))?;
        if !exists {
            let space = fs::space(self.path.with_file_name("."));
            let space = space.map_err(Error::io("look at the disk of", &self.path))?;
            if space.available < self.bytes.saturating_add(self.beside) {
                let full = std::io::ErrorKind::StorageFull.into();
                return Err(Error::io(allocate, &self.path)(full));
            }
        }
        let file = fs::open(&self.path, fs::OpenOptions::CREATE)
            .await
            .map_err(Error::io("create", &self.path))?;
        let allocated = async {
            file.allocate(self.bytes).await?;
            if file.len().await? > self.bytes {
                file.set_len(self.bytes).await?;
            }
            Ok(())
        };
        if let Err(error) = allocated.await {
            drop(file);
            // Half a reserve would only take space.
            let _ = fs::remove_file(&self.path).await;
            return Err(Error::io(allocate, &self.path)(error));
        }
        self.is_whole = true;
        Ok(())
    }

    /// Gives its space back to the disk; false when it had none.
    pub(crate) async fn give_up(&mut self) -> bool {
        if self.bytes == 0 || !self.is_whole {
            return false;
        }
        self.is_whole = false;
        fs::remove_file(&self.path).await.is_ok()
    }

    /// Gives its space back before the log is opened, if the disk has no room for what that
    /// writes. The log is then opened with a reserve that is given up already.
    pub(crate) async fn give_up_to_open(&self, needed: u64) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let space = fs::space(self.path.with_file_name("."));
        let space = space.map_err(Error::io("look at the disk of", &self.path))?;
        if space.available < needed && fs::exists(&self.path).await.unwrap_or(false) {
            tracing::warn!(
                reserve = %self.path.display(),
                "the disk is full: the reserve is given up, so that the log can be opened"
            );
            let removed = fs::remove_file(&self.path).await;
            removed.map_err(Error::io("remove", &self.path))?;
        }
        Ok(())
    }
}
