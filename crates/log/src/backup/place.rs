//! Whether two directories are apart: a restore must not write into what it reads.
//!
//! ```text
//!   from  /backups/monday
//!   to    /backups/monday            the same, also by a link or by ..
//!         /backups/monday/new        inside: the backup would hold files of a database
//!         /backups                   around: the database would hold a backup
//!         /backups/mondays           apart
//! ```
//!
//! Names do not say it, links and `..` are in the way; so what exists is asked for its
//! real path, and what does not exist yet lies where it will be made.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use coeval_env::fs;

use crate::Error;

/// Complains unless the directory to make is apart from this one, which is `what`.
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

/// Where a directory lies, or will lie once it is made.
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
            // Behind something that is not there, or of nothing at all.
            _ => {
                return Err(Error::Setting(format!(
                    "{} cannot be found out to lie anywhere; name it without ..",
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
