//! Restore of a backup into an empty directory, optionally to a point in time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_env::fs;
use coeval_types::{Lsn, Term, Timestamp};

use super::destination::Destination;
use super::manifest::{BACKUP, Listed, Manifest};
use super::place::check_apart;
use super::target::{RestorePoint, RestoreTarget, find};
use super::unpack::sync_names;
use super::{BackupSummary, end_of_backup};
use crate::checkpoint::{CHECKPOINTS, CheckpointFile, newest};
use crate::control::{Control, DataDirectory, check_owner};
use crate::log::FIRST_LSN;
use crate::origin::Origin;
use crate::recovery::Leftovers;
use crate::recovery::chain::Chain;
use crate::segment::{SegmentKind, first_of_name};
use crate::{CheckpointStart, Error};

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Source, destination and target of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Directory of the backup.
    pub from: PathBuf,
    /// A data directory of the same database whose log continues after the backup.
    pub log_from: Option<PathBuf>,
    /// The data directory to create: it must be empty, or not exist.
    pub to: PathBuf,
    /// Commit up to which to restore.
    pub target: RestoreTarget,
}

/// Result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Summary of the backup.
    pub backup: BackupSummary,
    /// The last commit after the backup's checkpoint, with the time of day at which it was
    /// made, since the Unix epoch. `None` when there is none.
    pub last: Option<(Timestamp, Duration)>,
    /// Number of commits restored after the checkpoint.
    pub commits: u64,
    /// Whether the log has commits after the target. If not, it ended before.
    pub passed: bool,
    /// The term of the new directory, and the log offset at which its log ends.
    pub position: Timestamp,
}

/// Restores a backup. The source directories are left unchanged; on an error the new
/// directory is empty or absent, as it was before.
pub async fn restore(options: &RestoreOptions) -> Result<Restored, Error> {
    let RestoreOptions {
        from, log_from, to, ..
    } = options;
    let list = from.join(BACKUP);
    let exists = fs::exists(&list)
        .await
        .map_err(Error::io("look for", &list))?;
    if !exists {
        return Err(Error::Setting(format!(
            "{} is no backup, or one that was broken off: it has no file {BACKUP}",
            from.display()
        )));
    }
    let bytes = fs::read(&list).await.map_err(Error::io("read", &list))?;
    let manifest = Manifest::parse(&bytes, &list)?;
    check_apart(to, from, "the backup").await?;
    if let Some(directory) = log_from {
        check_apart(to, directory, "the directory to take log from").await?;
    }
    check_one_backup(&manifest, &list, from).await?;
    check_owner(to)?;
    let destination = Destination::make(to).await?;
    // A process that holds the lock has made the directory its own meanwhile.
    let directory = DataDirectory::lock(to).await?;
    let restored = fill(options, &manifest, &directory).await;
    if restored.is_err() {
        destination.undo().await;
    }
    restored
}

/// Copies what the backup lists into the directory, and writes its CONTROL last.
async fn fill(
    options: &RestoreOptions,
    manifest: &Manifest,
    directory: &DataDirectory,
) -> Result<Restored, Error> {
    let RestoreOptions {
        from,
        log_from,
        to,
        target,
    } = options;
    let mut control = None;
    for file in &manifest.files {
        let into = (file.name != "CONTROL").then(|| to.join(&file.name));
        copy_listed(from, file, into.as_deref()).await?;
        if into.is_none() {
            control = Some(read_control(from).await?);
        }
    }
    let mut control = control.ok_or_else(|| Error::Damaged {
        file: from.join(BACKUP),
        offset: 0,
        what: "it does not list CONTROL".to_owned(),
    })?;
    if let Some(other) = log_from {
        control = add_log(other, to, &control).await?;
    }
    let found = end_of(to, &control, *target).await?;
    // The log now ends at the end that was found; the last term begins there if it began
    // later.
    control.start = control.start.min(found.end);
    control.clean_end = Some(found.end);
    let origin = Origin {
        database: control.database,
        backup: manifest.end,
        taken_at: manifest.taken_at,
        sum: manifest.sum(),
        position: Timestamp::new(control.term, found.end),
    };
    origin.write(to).await?;
    sync_names(to).await?;
    directory.write_control(&control).await?;
    sync_names(to).await?;
    Ok(Restored {
        backup: manifest.summary(),
        last: found
            .last
            .map(|(timestamp, micros)| (timestamp, Duration::from_micros(micros))),
        commits: found.commits,
        passed: found.passed,
        position: origin.position,
    })
}

/// Returns an error when the manifest and CONTROL are each valid but not of the same
/// backup: if one was replaced by that of another backup, its own checksum is right. A
/// damaged or missing CONTROL is reported later, by the check of the listed files.
async fn check_one_backup(manifest: &Manifest, list: &Path, from: &Path) -> Result<(), Error> {
    let path = from.join("CONTROL");
    let Ok(Some(control)) = Control::read(&path).await else {
        return Ok(());
    };
    let end = control
        .clean_end
        .map(|end| end_of_backup(control.term, end));
    let what = if control.database != manifest.database {
        "of another database".to_owned()
    } else if end != Some(manifest.end) {
        let end = end.map_or("nowhere".to_owned(), |end| end.to_string());
        format!("of a backup that ends at {end}")
    } else {
        return Ok(());
    };
    Err(Error::Damaged {
        file: list.to_owned(),
        offset: 0,
        what: format!(
            "it is of a backup that ends at {}, and {} is {what}: one of the two files was \
             replaced by that of another backup",
            manifest.end,
            path.display()
        ),
    })
}

/// Verifies a file against the manifest, and copies it.
async fn copy_listed(from: &Path, listed: &Listed, to: Option<&Path>) -> Result<(), Error> {
    let path = from.join(&listed.name);
    let damaged = |what: String| Error::Damaged {
        file: path.clone(),
        offset: 0,
        what,
    };
    let file = match fs::open(&path, fs::OpenOptions::READ).await {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(damaged(format!(
                "the file is missing, and {BACKUP} lists it"
            )));
        }
        Err(error) => return Err(Error::io("open", &path)(error)),
    };
    let length = file.len().await.map_err(Error::io("look at", &path))?;
    if length != listed.length {
        return Err(damaged(format!(
            "the file has {length} bytes instead of the {} that {BACKUP} lists",
            listed.length
        )));
    }
    let crc = copy(&file, &path, listed.bytes, to, length).await?;
    if crc != listed.crc {
        return Err(damaged(format!(
            "the file's checksum differs from the one that {BACKUP} lists"
        )));
    }
    Ok(())
}

/// Copies the first `bytes` of a file, and makes the copy `length` long and durable;
/// without a destination it only reads. Returns the checksum of the bytes read.
async fn copy(
    file: &fs::File,
    path: &Path,
    bytes: u64,
    to: Option<&Path>,
    length: u64,
) -> Result<u32, Error> {
    let target = match to {
        Some(to) => Some((
            fs::open(to, fs::OpenOptions::CREATE)
                .await
                .map_err(Error::io("create", to))?,
            to,
        )),
        None => None,
    };
    let mut piece = Vec::new();
    let (mut at, mut crc) = (0, 0);
    while at < bytes {
        piece.resize((bytes - at).min(PIECE_BYTES as u64) as usize, 0);
        file.read_exact_at(&mut piece, at)
            .await
            .map_err(Error::io("read", path))?;
        crc = crc32c::crc32c_append(crc, &piece);
        if let Some((target, to)) = &target {
            target
                .write_at(&piece, at)
                .await
                .map_err(Error::io("write", to))?;
        }
        at += piece.len() as u64;
    }
    if let Some((target, to)) = &target {
        target
            .set_len(length)
            .await
            .map_err(Error::io("lengthen", to))?;
        target.sync_all().await.map_err(Error::io("sync", to))?;
    }
    Ok(crc)
}

async fn read_control(directory: &Path) -> Result<Control, Error> {
    Control::read(&directory.join("CONTROL"))
        .await?
        .ok_or_else(|| Error::Damaged {
            file: directory.join("CONTROL"),
            offset: 0,
            what: "the file is missing".to_owned(),
        })
}

/// Copies the segments of `directory` that overlap the backup or follow it, and returns
/// that directory's control data.
async fn add_log(directory: &Path, to: &Path, backup: &Control) -> Result<Control, Error> {
    // Locked, because no server may be writing there.
    let _inspected = DataDirectory::inspect(directory).await?;
    let control = read_control(directory).await?;
    if control.database != backup.database {
        return Err(Error::Setting(format!(
            "{} is of another database than the backup",
            directory.display()
        )));
    }
    let backup_end = backup.clean_end.unwrap_or(backup.start);
    let log = directory.join("log");
    let names = fs::read_dir(&log).await.map_err(Error::io("list", &log))?;
    let segments: Vec<_> = names
        .into_iter()
        .filter_map(|path| Some((first_of_name(&path)?, path)))
        .collect();
    // The segment in which the backup ends may have been removed there; then the following
    // segments must be whole, which is checked when the log is read.
    let before = |(first, _): &(Lsn, PathBuf)| *first <= backup_end;
    let start = segments.iter().rposition(before).unwrap_or(0);
    for (_, path) in &segments[start..] {
        let file = fs::open(path, fs::OpenOptions::READ)
            .await
            .map_err(Error::io("open", path))?;
        let length = file.len().await.map_err(Error::io("look at", path))?;
        let name = path.file_name().unwrap_or_default();
        let into = to.join("log").join(name);
        copy(&file, path, length, Some(&into), length).await?;
    }
    // Either may hold what older programs do not read.
    let control = Control {
        versioned: control.versioned || backup.versioned,
        ..control
    };
    // From a cluster's node only the log before its commit index is taken: the log after it
    // may be replaced, so the restored log ends there, as if another term had begun.
    Ok(match control.member {
        Some(member) => Control {
            term: Term(control.term.0 + 1).min(Term::MAX),
            start: member.commit,
            clean_end: Some(member.commit),
            member: None,
            ..control
        },
        None => control,
    })
}

/// Finds where the log in `directory` ends for this target.
async fn end_of(
    directory: &Path,
    control: &Control,
    target: RestoreTarget,
) -> Result<RestorePoint, Error> {
    let checkpoint = match newest(&directory.join(CHECKPOINTS)).await? {
        Some(path) => Some(CheckpointFile::open(&path).await?),
        None => None,
    };
    let (needed, begin) = match &checkpoint {
        Some(file) => {
            let CheckpointStart {
                snapshot,
                log_start,
            } = file.start();
            (log_start, (file.replay_from(), snapshot.term()))
        }
        None => (FIRST_LSN, (FIRST_LSN, Term(0))),
    };
    if let Some(file) = &checkpoint {
        let late = match target {
            RestoreTarget::Time(time) if time < file.taken_at() => {
                let late = (file.taken_at() - time).as_secs_f64();
                Some(format!("{late:.3} s later than that"))
            }
            RestoreTarget::Timestamp(timestamp) if timestamp < file.snapshot() => {
                Some(format!("at timestamp {}", file.snapshot()))
            }
            _ => None,
        };
        if let Some(late) = late {
            return Err(Error::Setting(format!(
                "the backup's checkpoint was taken {late}, behind what is to be restored; \
                 restore from an earlier backup"
            )));
        }
    }
    let kind = SegmentKind {
        directory: directory.join("log"),
        database: control.database,
        segment_bytes: 0,
        leftovers: Leftovers::Keep,
    };
    let chain = Chain::open(&kind, needed, None).await?;
    chain.must_reach(begin.0, &kind)?;
    find(&chain, control, begin, target).await
}
