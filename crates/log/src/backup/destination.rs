//! The directory that a backup or a restore fills. It is empty or absent before, and so
//! it is again after a failure: the corrected command then succeeds with the same
//! directory.
//!
//! ```text
//!   before           while it is filled              after a failure
//!   new: absent      new/LOCK new/log/… …            new: absent
//!   new: empty       new/LOCK new/log/… …            new: empty
//!   new: not empty   refused, nothing is changed     new: as it was
//! ```
//!
//! A process that is killed leaves what it had written: without CONTROL no server starts
//! on that, and without BACKUP no restore reads it.

use std::path::{Path, PathBuf};

use coeval_env::fs;

use super::manifest::BACKUP;
use crate::Error;
use crate::checkpoint::CHECKPOINTS;
use crate::origin::ORIGIN;

/// Files that a backup or a restore makes beside its folders.
const FILES: [&str; 6] = [
    "CONTROL",
    "CONTROL.new",
    BACKUP,
    "LOCK",
    ORIGIN,
    "ORIGIN.new",
];

/// A directory that is being filled.
#[derive(Debug)]
pub(super) struct Destination {
    directory: PathBuf,
    /// The directories that did not exist before, the innermost first.
    made: Vec<PathBuf>,
}

impl Destination {
    /// Creates the directory with the folders of a data directory; returns an error if it
    /// exists and is not empty.
    pub(super) async fn make(directory: &Path) -> Result<Self, Error> {
        let mut made = Vec::new();
        for path in directory.ancestors() {
            let is_there = path.as_os_str().is_empty() || fs::exists(path).await.unwrap_or(true);
            if is_there {
                break;
            }
            made.push(path.to_owned());
        }
        let destination = Self {
            directory: directory.to_owned(),
            made,
        };
        fs::create_dir_all(directory)
            .await
            .map_err(Error::io("create directory", directory))?;
        let there = fs::read_dir(directory)
            .await
            .map_err(Error::io("list", directory))?;
        if !there.is_empty() {
            return Err(Error::Setting(format!(
                "{} is not empty; name a directory that is, or that does not exist",
                directory.display()
            )));
        }
        // Of another user's directory only what is made in it is private.
        let owner = fs::foreign_owner(directory).map_err(Error::io("look at", directory))?;
        if owner.is_none() {
            fs::restrict(directory, |_| true)
                .map_err(Error::io("change the permissions of", directory))?;
        }
        for folder in ["log", CHECKPOINTS] {
            let folder = directory.join(folder);
            let created = fs::create_dir_all(&folder).await;
            if let Err(error) = created.map_err(Error::io("create directory", &folder)) {
                destination.undo().await;
                return Err(error);
            }
        }
        Ok(destination)
    }

    /// Makes the directory what it was before [`Destination::make`]. What cannot be
    /// removed is logged: the error that made the caller give up matters more.
    pub(super) async fn undo(self) {
        for folder in ["log", CHECKPOINTS].map(|name| self.directory.join(name)) {
            for path in fs::read_dir(&folder).await.unwrap_or_default() {
                tell(&path, fs::remove_file(&path).await);
            }
            tell(&folder, fs::remove_dir(&folder).await);
        }
        for path in FILES.map(|name| self.directory.join(name)) {
            if fs::exists(&path).await.unwrap_or(false) {
                tell(&path, fs::remove_file(&path).await);
            }
        }
        for path in &self.made {
            tell(path, fs::remove_dir(path).await);
        }
    }
}

fn tell(path: &Path, removed: std::io::Result<()>) {
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "what was begun here cannot be removed");
    }
}
