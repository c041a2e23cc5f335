//! A check that two directories do not overlap: a restore must not write into a directory
//! that it reads.
//!
//! ```text
//!   from  /backups/monday
//!   to    /backups/monday            the same, also through a link or ..
//!         /backups/monday/new        inside: the backup would hold files of a database
//!         /backups                   around: the database would hold a backup
//!         /backups/mondays           apart
//! ```
//!
//! Path names alone do not show it, because of links and `..`; so the check resolves the
//! real path of an existing directory, and for one that does not exist yet, the path
//! where it will be created.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use coeval_env::fs;

use crate::Error;

/// Returns an error unless the directory `to` is apart from `other`, which the message
/// calls `what`.
pub(super) async fn check_apart(to: &Path, other: &Path, what: &str) -> Result<(), Error> {
    let place = real_path(to).await?;
    let others = real_path(other).await?;
    let how = if place == others {
        "is"
    } else if place.starts_with(&others) {
        "lies inside of"
    } else if others.starts_with(&place) {
        "lies around"
    } else {
        return Ok(());
    };
    Err(Error::Setting(format!(
        "{} {how} {what}, {}; name a directory apart from it",
        to.display(),
        other.display()
    )))
}

/// The real path of a directory, or the one it will have once it is created.
async fn real_path(path: &Path) -> Result<PathBuf, Error> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut there = path.to_owned();
    loop {
        let named = match there.as_os_str().is_empty() {
            true => Path::new("."),
            false => &there,
        };
        match fs::canonicalize(named).await {
            Ok(real) => {
                return Ok(missing
                    .iter()
                    .rev()
                    .fold(real, |real, name| real.join(name)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("look for", path)(error)),
        }
        match (there.file_name(), there.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name.to_owned());
                there = parent.to_owned();
            }
            // The path has a `..` after a missing directory, or is empty.
            _ => {
                return Err(Error::Setting(format!(
                    "the location of {} cannot be determined; name it without ..",
                    path.display()
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[expect(
        clippy::disallowed_methods,
        reason = "makes links in a folder of its own"
    )]
    async fn what_overlaps_is_told_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let backup = at("backup");
        std::fs::create_dir_all(backup.join("log")).unwrap();
        std::os::unix::fs::symlink(&backup, at("link")).unwrap();
        for (to, how) in [
            ("backup", "is"),
            ("backup/", "is"),
            ("link", "is"),
            ("backup/log/..", "is"),
            ("backup/new/data", "lies inside of"),
            ("link/new", "lies inside of"),
            ("", "lies around"),
            ("backup/..", "lies around"),
        ] {
            let refused = check_apart(&at(to), &backup, "the backup").await;
            let text = refused.unwrap_err().to_string();
            assert!(
                text.contains(&format!(" {how} the backup, ")),
                "{to}: {text}"
            );
        }
        for to in ["backups", "new/backup", "link/../new"] {
            assert!(
                check_apart(&at(to), &backup, "the backup").await.is_ok(),
                "{to}"
            );
        }
        let nowhere = check_apart(&at("none/../backup"), &backup, "the backup").await;
        assert!(nowhere.unwrap_err().to_string().contains("without .."));
        let none = check_apart(Path::new("no such folder"), &backup, "the backup").await;
        assert!(none.is_ok(), "{none:?}");
    }
}
