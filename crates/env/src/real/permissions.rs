//! Modes of files and directories, whatever the umask of the process.
//!
//! ```text
//!                         directories   files
//!   without group access  0700          0600
//!   with it               0750          0640
//! ```
//!
//! The umask can only take bits away from the mode that a file is created with, and group
//! access has to survive a umask of 077. So a new file is created with its mode, and is
//! given it once more if bits are missing.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the group of a file may read it. One for the process, as its umask is.
static GROUP_ACCESS: AtomicBool = AtomicBool::new(false);

/// The permission bits, without set-user-id, set-group-id and sticky.
const PERMISSIONS: u32 = 0o777;

pub(crate) fn allow_group_access(allowed: bool) {
    GROUP_ACCESS.store(allowed, Ordering::Relaxed);
}

pub(super) fn file_mode() -> u32 {
    if GROUP_ACCESS.load(Ordering::Relaxed) {
        0o640
    } else {
        0o600
    }
}

fn directory_mode() -> u32 {
    if GROUP_ACCESS.load(Ordering::Relaxed) {
        0o750
    } else {
        0o700
    }
}

/// Gives an open file its mode, after it was created or was there with another one.
/// Devices and pipes keep theirs.
pub(super) fn settle_file(file: &std::fs::File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.is_file()
        && let Some(permissions) = changed(&metadata, file_mode())
    {
        file.set_permissions(permissions)?;
    }
    Ok(())
}

/// Creates a directory and its missing parents, each with the mode of directories. Those
/// that exist keep theirs.
pub(super) fn create_dir_all(path: &Path) -> io::Result<()> {
    let mode = directory_mode();
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(mode).create(path)?;
    for path in missing {
        settle(path, mode)?;
    }
    Ok(())
}

/// The user that owns an existing directory, if that is another one than this process's.
pub(crate) fn foreign_owner(path: &Path) -> io::Result<Option<u32>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok((metadata.uid() != user()).then_some(metadata.uid())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes from a directory, and from the files in it that this process's user owns, the
/// permissions beyond their modes; those that `are_ours` names get exactly their mode.
/// Returns how many entries were changed.
pub(crate) fn restrict(path: &Path, are_ours: fn(&str) -> bool) -> io::Result<usize> {
    let mut count = usize::from(settle(path, directory_mode())?);
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // A link's own metadata: what it leads to is not ours to change.
        let metadata = entry.metadata()?;
        if !metadata.is_file() || metadata.uid() != user() {
            continue;
        }
        let mode = file_mode();
        let wanted = match entry.file_name().to_str() {
            Some(name) if are_ours(name) => mode,
            _ => metadata.mode() & mode,
        };
        // Owner's bits that are missing from other programs' files are meant to be.
        if let Some(permissions) = changed(&metadata, wanted)
            && (metadata.mode() & PERMISSIONS & !mode != 0 || wanted == mode)
        {
            std::fs::set_permissions(entry.path(), permissions)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Gives a directory its mode; returns whether it had another one.
fn settle(path: &Path, mode: u32) -> io::Result<bool> {
    match changed(&std::fs::metadata(path)?, mode) {
        Some(permissions) => std::fs::set_permissions(path, permissions).map(|()| true),
        None => Ok(false),
    }
}

/// The permissions that give `metadata` the mode, if it has another one.
fn changed(metadata: &Metadata, mode: u32) -> Option<Permissions> {
    let all = metadata.mode();
    (all & PERMISSIONS != mode)
        .then(|| Permissions::from_mode((all & 0o7777 & !PERMISSIONS) | mode))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
