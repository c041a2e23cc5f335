//! Errors of the log, sorted by how its caller can react.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_types::{Lsn, Remedy, Timestamp};

/// Why a call of the log failed.
#[derive(Debug)]
pub enum Error {
    /// Fix: a setting is invalid; the text names the setting and the valid range.
    Setting(String),
    /// Fix: another process holds the lock of the data directory.
    InUse {
        /// The lock file.
        lock: PathBuf,
    },
    /// Fix: another user owns the data directory.
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The number of the user that owns it.
        owner: u32,
    },
    /// Fix: a file of the directory has a format version that this program cannot read;
    /// the text says which version to start instead.
    Format {
        /// The file with the unreadable format version.
        file: PathBuf,
        /// The version found in the file, and the advice to the user.
        what: String,
    },
    /// Fix: a part of the log that was durable is damaged or missing. Nothing has
    /// been changed.
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Offset of the damage in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// Fix: the operating system returned an error while the log was opened.
    Io {
        /// The operation that failed, as a verb: "open", "write", "sync".
        action: &'static str,
        /// The file or directory that the operation was applied to.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Fix: one entry is longer than a frame may be, or a transaction has more chunks
    /// than one commit frame can reference.
    TooLarge {
        /// Bytes of the entry or of the commit frame.
        bytes: u64,
        /// Most bytes that it may have.
        limit: u64,
    },
    /// Fix: the disk is full. No committed transaction is lost; the log accepts commits
    /// again by itself once there is space.
    DiskFull(Arc<str>),
    /// Fix: the [`crate::Replay`] implementation rejected an entry of the log.
    Replay {
        /// Commit timestamp of the entry.
        timestamp: Timestamp,
        /// The implementation's reason.
        reason: String,
    },
    /// Retry: this node has become the leader, and the mark that begins its term is not
    /// committed yet.
    MarkPending,
    /// Fix: a follower received bytes of the log that do not continue its log. It changed
    /// nothing: the caller asks the sender again.
    Refused {
        /// Log offset at which the bytes do not fit.
        at: Lsn,
        /// Why they do not fit.
        what: String,
    },
    /// Fix: this part of the log has been removed here. A checkpoint replaces it.
    NotRetained {
        /// Log offset from which the caller wanted to read.
        from: Lsn,
        /// Log offset at which the retained log begins.
        oldest: Lsn,
    },
    /// Fatal: the log has stopped for this reason. Durable commits stay durable.
    Stopped(Arc<str>),
    /// Fatal: terms or log offsets are used up.
    Exhausted(&'static str),
}

impl Error {
    /// How the caller can react.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Setting(_)
            | Self::InUse { .. }
            | Self::Foreign { .. }
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

    /// Whether the error means that the disk has no space left.
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

    /// For `map_err`: wraps an error of the operating system with the failed operation
    /// and its file.
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
            Self::Foreign { directory, owner } => write!(
                formatter,
                "{} has wrong ownership: it belongs to user {owner}, and the server must be \
                 started by the user that owns it; start it as that user, or give the directory \
                 and all that is in it to this one (chown -R)",
                directory.display()
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
