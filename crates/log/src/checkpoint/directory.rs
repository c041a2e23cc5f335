//! The checkpoint directory: names of checkpoint files, the newest one, and removal of
//! unfinished and superseded ones.

use std::io;
use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::Lsn;

use crate::Error;

/// The directory's name in the data directory.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
const SUFFIX: &str = ".checkpoint";
const NEW_SUFFIX: &str = ".checkpoint.new";
/// Also ends with [`NEW_SUFFIX`], so that a start removes both kinds.
const RECEIVED_SUFFIX: &str = ".received.checkpoint.new";
/// Ends as an unfinished segment's name does, so that a start removes both.
const RECEIVED_LOG_SUFFIX: &str = ".received.log.new";

/// Path of the checkpoint whose replay begins at `replay_from`.
pub(crate) fn path_of(directory: &Path, replay_from: Lsn) -> PathBuf {
    directory.join(format!("{:020}{SUFFIX}", replay_from.0))
}

/// Creates a checkpoint file under a temporary name, and returns both. If another unfinished
/// checkpoint of the same offset exists, the name differs from its.
pub(crate) async fn create_unfinished(
    directory: &Path,
    replay_from: Lsn,
) -> Result<(PathBuf, fs::File), Error> {
    let mut count = 0;
    loop {
        let path = directory.join(format!("{:020}.{count}{NEW_SUFFIX}", replay_from.0));
        match fs::open(&path, fs::OpenOptions::CREATE_NEW).await {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => count += 1,
            Err(error) => return Err(Error::io("create", &path)(error)),
        }
    }
}

/// Temporary path of a checkpoint that another node is sending.
pub(crate) fn received_path_of(directory: &Path, replay_from: Lsn) -> PathBuf {
    directory.join(format!("{:020}{RECEIVED_SUFFIX}", replay_from.0))
}

/// Temporary path, in the log's directory, of the log that another node is sending with a
/// checkpoint that needs it from `log_start` on.
pub(crate) fn received_log_path_of(directory: &Path, log_start: Lsn) -> PathBuf {
    directory.join(format!("{:020}{RECEIVED_LOG_SUFFIX}", log_start.0))
}

/// Log offset at which replay begins with the checkpoint of this name; `None` if it is no
/// checkpoint's name.
pub(crate) fn replay_from_of_name(path: &Path) -> Option<Lsn> {
    let digits = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Lsn)
}

async fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::read_dir(directory)
        .await
        .map_err(Error::io("list", directory))
}

async fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_file(path)
        .await
        .map_err(Error::io("remove", path))
}

/// Path of the newest checkpoint.
pub(crate) async fn newest(directory: &Path) -> Result<Option<PathBuf>, Error> {
    // Names sorted as text are in the order of their log offsets.
    let names = list(directory).await?;
    let mut checkpoints = names
        .into_iter()
        .filter(|path| replay_from_of_name(path).is_some());
    Ok(checkpoints.next_back())
}

/// Paths of all checkpoints, the oldest first.
pub(crate) async fn all(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut names = list(directory).await?;
    names.retain(|path| replay_from_of_name(path).is_some());
    Ok(names)
}

/// Removes files that were still being written when a process ended.
pub(crate) async fn remove_unfinished(directory: &Path) -> Result<(), Error> {
    for path in list(directory).await? {
        let unfinished = |name: &str| name.ends_with(NEW_SUFFIX);
        if path.to_str().is_some_and(unfinished) {
            remove(&path).await?;
        }
    }
    Ok(())
}

/// Removes partly received files of other nodes from the checkpoint directory, or from the
/// log's.
pub(crate) async fn remove_received(directory: &Path) -> Result<(), Error> {
    for path in list(directory).await? {
        let received =
            |name: &str| name.ends_with(RECEIVED_SUFFIX) || name.ends_with(RECEIVED_LOG_SUFFIX);
        if path.to_str().is_some_and(received) {
            remove(&path).await?;
        }
    }
    Ok(())
}

/// Removes every checkpoint except those whose replay begins at one of `kept`.
pub(crate) async fn remove_all_but(directory: &Path, kept: &[Lsn]) -> Result<(), Error> {
    for path in list(directory).await? {
        if replay_from_of_name(&path).is_some_and(|from| !kept.contains(&from)) {
            remove(&path).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_two_from_one_place_the_first_can_be_given_up() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, _) = create_unfinished(folder.path(), Lsn(64))
            .await
            .expect("a file");
        let (second, _) = create_unfinished(folder.path(), Lsn(64))
            .await
            .expect("a file");
        remove(&first).await.expect("it is there");
        assert!(fs::exists(&second).await.expect("a folder"));
        remove_unfinished(folder.path()).await.expect("a folder");
        assert_eq!(
            list(folder.path()).await.expect("a folder"),
            [""; 0].map(PathBuf::from)
        );
    }
}
