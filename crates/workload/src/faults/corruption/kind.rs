//! Every kind of file that there is in a data directory, in a backup and beside them.

use std::path::Path;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Says which database it is, its term, and where its log ended.
    Control,
    /// Locked by who has the directory. Nothing is in it.
    Lock,
    /// The newest checkpoint.
    Checkpoint,
    /// A segment of the log that is full.
    Segment,
    /// The segment that the log ends in.
    LastSegment,
    /// A segment that is made ahead and has not been reached.
    SpareSegment,
    /// A backup's list of its files.
    BackupList,
    /// A backup's other files.
    BackupControl,
    /// Its checkpoint.
    BackupCheckpoint,
    /// Its log.
    BackupLog,
    /// A file of settings.
    Settings,
    /// A host-based access file.
    Access,
}

impl FileKind {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Control, "CONTROL"),
        (Self::Lock, "LOCK"),
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

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(kind, _)| *kind == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether it is a file of a backup.
    #[must_use]
    pub const fn is_of_backup(self) -> bool {
        matches!(
            self,
            Self::BackupList | Self::BackupControl | Self::BackupCheckpoint | Self::BackupLog
        )
    }

    /// Whether it is written by people and says what they want: a change that makes
    /// sense is what they want.
    #[must_use]
    pub const fn is_by_hand(self) -> bool {
        matches!(self, Self::Settings | Self::Access)
    }

    /// What a file of a data directory is, by its path there; `None` for one that nobody
    /// has told this of. `last` is the segment that the log ends in.
    #[must_use]
    pub fn of_data(path: &Path, last: &Path) -> Option<Self> {
        match Self::parts(path)? {
            ("", "CONTROL") => Some(Self::Control),
            ("", "LOCK") => Some(Self::Lock),
            ("checkpoints", name) if name.ends_with(".checkpoint") => Some(Self::Checkpoint),
            ("log", name) if name.ends_with(".log") => Some(match path.cmp(last) {
                std::cmp::Ordering::Less => Self::Segment,
                std::cmp::Ordering::Equal => Self::LastSegment,
                std::cmp::Ordering::Greater => Self::SpareSegment,
            }),
            _ => None,
        }
    }

    /// What a file of a backup is, likewise.
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
