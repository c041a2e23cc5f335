//! How the log can fail, sorted by what its caller can do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_types::{Lsn, Remedy, Timestamp};

/// How a call of the log can fail.
#[derive(Debug)]
pub enum Error {
    /// Fix: a setting makes no sense; says which and what would.
    Setting(String),
    /// Fix: another process has the data directory.
    InUse {
        /// The file that is locked.
        lock: PathBuf,
    },
    /// Fix: what is in the directory was written by a version that this one cannot
    /// read; says which to start instead.
    Format {
        /// Which file.
        file: PathBuf,
        /// What it has instead.
        what: String,
    },
    /// Fix: a part of the log that was durable is damaged or missing. Nothing has
    /// been changed.
    Damaged {
        /// Which file.
        file: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Fix: the operating system refuses something while the log is opened.
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// Its reason.
        error: io::Error,
    },
    /// Fix: one entry is longer than a frame may be, or a transaction has more
    /// than one commit can name.
    TooLarge {
        /// How many bytes it has.
        bytes: u64,
        /// How many it may have.
        limit: u64,
    },
    /// Fix: the disk is full. Nothing that was committed is lost; commits are
    /// accepted again by themselves once there is room.
    DiskFull(Arc<str>),
    /// Fix: whoever replays the log does not accept an entry.
    Replay {
        /// The commit.
        timestamp: Timestamp,
        /// Its reason.
        reason: String,
    },
    /// Retry: this node has become the leader, and the mark of its term is not committed
    /// yet.
    MarkPending,
    /// Fix: these bytes of the log do not go where they were to go. Nothing has been
    /// changed: ask their sender again.
    Refused {
        /// Where they do not fit.
        at: Lsn,
        /// Why.
        what: String,
    },
    /// Fix: this part of the log is gone here. A checkpoint stands for it.
    NotRetained {
        /// What was asked for.
        from: Lsn,
        /// From where on there is log.
        oldest: Lsn,
    },
    /// Fatal: the log has stopped, because of this. What is durable stays durable.
    Stopped(Arc<str>),
    /// Fatal: terms or offsets are used up.
    Exhausted(&'static str),
}

impl Error {
    /// What the caller can do.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Setting(_)
            | Self::InUse { .. }
            | Self::Format { .. }
            | Self::Damaged { .. }
            | Self::Io { .. }
            | Self::TooLarge { .. }
            | Self::DiskFull(_)
            | Self::Refused { .. }
            | Self::NotRetained { .. }
            | Self::Replay { .. } => Remedy::Fix,
            Self::MarkPending => Remedy::Retry,
            Self::Stopped(_) | Self::Exhausted(_) => Remedy::Fatal,
        }
    }

    /// Whether it says that the disk has no room left.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            Self::DiskFull(_) => true,
            _ => false,
        }
    }

    /// For `map_err`: an error of the operating system with its circumstances.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io {
            action,
            path,
            error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(what) => formatter.write_str(what),
            Self::InUse { lock } => write!(
                formatter,
                "another process uses this data directory: it holds {}; stop it, or choose \
                 another directory",
                lock.display()
            ),
            Self::Format { file, what } => write!(formatter, "{}: {what}", file.display()),
            Self::Damaged { file, offset, what } => write!(
                formatter,
                "{}, offset {offset}: {what}. What stood there was durable, so commits that were \
                 acknowledged would be lost; nothing has been changed. Restore the file from a \
                 copy, or the directory from a backup, and look for a failing disk",
                file.display()
            ),
            Self::Io {
                action,
                path,
                error,
            } => write!(formatter, "cannot {action} {}: {error}", path.display()),
            Self::TooLarge { bytes, limit } => write!(
                formatter,
                "{bytes} bytes for one frame of the log, more than the limit of {limit}"
            ),
            Self::DiskFull(what) => write!(
                formatter,
                "the disk is full: {what}; free some space, and writes go on by themselves"
            ),
            Self::Replay { timestamp, reason } => {
                write!(formatter, "cannot replay commit {timestamp}: {reason}")
            }
            Self::MarkPending => formatter.write_str(
                "this node has just become the leader and takes no commits yet; try again",
            ),
            Self::Refused { at, what } => write!(
                formatter,
                "the log cannot be continued at {at} with what was sent: {what}; nothing was \
                 changed, and its sender is to be asked again"
            ),
            Self::NotRetained { from, oldest } => write!(
                formatter,
                "the log from {from} on is gone, it begins at {oldest}; send a checkpoint first"
            ),
            Self::Stopped(reason) => write!(formatter, "the log has stopped: {reason}"),
            Self::Exhausted(what) => write!(formatter, "the log has used up its {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
