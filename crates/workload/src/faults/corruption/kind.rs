//! Every kind of file in a data directory, in a backup, and in the configuration.

use std::path::Path;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The control file: the database's identity, its term, and the end of its log.
    Control,
    /// The empty lock file that the server process locks.
    Lock,
    /// The file that says which backup a restored directory is from.
    Origin,
    /// Disk space that is set aside; nothing is ever written to it.
    Reserve,
    /// The newest checkpoint.
    Checkpoint,
    /// A full segment of the log.
    Segment,
    /// The segment that contains the end of the log.
    LastSegment,
    /// A preallocated segment after the end of the log.
    SpareSegment,
    /// A backup's list of its files.
    BackupList,
    /// A backup's control file.
    BackupControl,
    /// A backup's checkpoint.
    BackupCheckpoint,
    /// A backup's log.
    BackupLog,
    /// A settings file.
    Settings,
    /// A host-based access file.
    Access,
}

impl FileKind {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::Control, "CONTROL"),
        (Self::Lock, "LOCK"),
        (Self::Origin, "ORIGIN"),
        (Self::Reserve, "RESERVE"),
        (Self::Checkpoint, "checkpoint"),
        (Self::Segment, "log, full segment"),
        (Self::LastSegment, "log, last segment"),
        (Self::SpareSegment, "log, spare segment"),
        (Self::BackupList, "backup, BACKUP"),
        (Self::BackupControl, "backup, CONTROL"),
        (Self::BackupCheckpoint, "backup, checkpoint"),
        (Self::BackupLog, "backup, log"),
        (Self::Settings, "settings file"),
        (Self::Access, "access file"),
    ];

    /// Name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether the file belongs to a backup.
    #[must_use]
    pub const fn is_of_backup(self) -> bool {
        matches!(
            self,
            Self::BackupList | Self::BackupControl | Self::BackupCheckpoint | Self::BackupLog
        )
    }

    /// Whether the file is written by an administrator: a meaningful change of it is
    /// taken as intended.
    #[must_use]
    pub const fn is_by_hand(self) -> bool {
        matches!(self, Self::Settings | Self::Access)
    }

    /// Kind of a file in a data directory, by its path there; `None` for an unlisted
    /// kind. `last` is the segment that contains the end of the log.
    #[must_use]
    pub fn of_data(path: &Path, last: &Path) -> Option<Self> {
        match Self::parts(path)? {
            ("", "CONTROL") => Some(Self::Control),
            ("", "LOCK") => Some(Self::Lock),
            ("", "ORIGIN") => Some(Self::Origin),
            ("", "RESERVE") => Some(Self::Reserve),
            ("checkpoints", name) if name.ends_with(".checkpoint") => Some(Self::Checkpoint),
            ("log", name) if name.ends_with(".log") => Some(match path.cmp(last) {
                std::cmp::Ordering::Less => Self::Segment,
                std::cmp::Ordering::Equal => Self::LastSegment,
                std::cmp::Ordering::Greater => Self::SpareSegment,
            }),
            _ => None,
        }
    }

    /// Kind of a file in a backup, by its path there; `None` for an unlisted kind.
    #[must_use]
    pub fn of_backup(path: &Path) -> Option<Self> {
        match Self::parts(path)? {
            ("", "BACKUP") => Some(Self::BackupList),
            ("", "CONTROL") => Some(Self::BackupControl),
            ("checkpoints", name) if name.ends_with(".checkpoint") => Some(Self::BackupCheckpoint),
            ("log", name) if name.ends_with(".log") => Some(Self::BackupLog),
            _ => None,
        }
    }

    fn parts(path: &Path) -> Option<(&str, &str)> {
        Some((path.parent()?.to_str()?, path.file_name()?.to_str()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_places_and_others_are_not() {
        let data = |path: &str| FileKind::of_data(Path::new(path), Path::new("log/2.log"));
        assert_eq!(data("CONTROL"), Some(FileKind::Control));
        assert_eq!(data("log/1.log"), Some(FileKind::Segment));
        assert_eq!(data("log/2.log"), Some(FileKind::LastSegment));
        assert_eq!(data("log/3.log"), Some(FileKind::SpareSegment));
        assert_eq!(data("log/3.log.new"), None);
        assert_eq!(data("index/1"), None);
        assert_eq!(data("BACKUP"), None);
        let backup = |path: &str| FileKind::of_backup(Path::new(path));
        assert_eq!(backup("BACKUP"), Some(FileKind::BackupList));
        assert_eq!(
            backup("checkpoints/1.checkpoint"),
            Some(FileKind::BackupCheckpoint)
        );
        assert_eq!(backup("LOCK"), None);
    }
}
