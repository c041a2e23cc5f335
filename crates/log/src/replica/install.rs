//! A checkpoint that another node sent takes the place of the whole log.
//!
//! ```text
//!   MARKS replaced             says more of log before the commit point, and all of it true
//!   CONTROL: install P         from here on the log is what the checkpoint stands for
//!   checkpoints/P gets its name
//!   log files removed
//!   log/L gets its name        where the checkpoint needs log from before P, which came with it
//!   other checkpoints removed
//!   CONTROL: no install; the log ends at P, and everything before is committed
//! ```
//!
//! A crash before the second step leaves the log as it was; one behind it is gone on with
//! by the next start. What came with the checkpoint is whole and durable before the second
//! step. That log/L has its name says that nothing of the old log is left: as long as it has
//! not, all log files are removed, once more if need be.
//!
//! Term and vote are in CONTROL, and stay. The term of the last entry before P is the
//! snapshot's, and where terms began before is in MARKS: what votes and recovery compare
//! outlives the log that it stood in. Of the log before P only the parts are read that
//! commits behind P name, as with a checkpoint of one's own.

use std::path::Path;

use coeval_env::fs;

use super::log::ReplicaLog;
use crate::Error;
use crate::checkpoint::{
    CheckpointFile, CheckpointStart, ReceivedCheckpoint, path_of, put_name, received_log_path_of,
    received_path_of, remove_all_but,
};
use crate::control::{Control, DataDirectory, Member};
use crate::segment::{Name, first_of_name, is_unfinished};

impl ReplicaLog {
    /// Puts a checkpoint that was received in the place of this log and of what was
    /// replayed from it: the directory is to be opened anew, with empty tables.
    ///
    /// # Errors
    /// [`Error::Refused`] when this log's own committed part reaches further, or the
    /// checkpoint is of a term that this node has not noted.
    pub async fn install(mut self, received: &ReceivedCheckpoint) -> Result<(), Error> {
        self.check_failed()?;
        let (now, at) = (self.hard_state(), received.end());
        let refuse = |what: String| Err(Error::Refused { at, what });
        if at <= now.commit {
            return refuse(format!(
                "everything before {} is committed and here already",
                now.commit
            ));
        }
        if received.term() > now.term {
            return refuse(format!(
                "a checkpoint of term {}, and the newest term heard of is {}",
                received.term(),
                now.term
            ));
        }
        // From then on a start goes on with them, or not at all.
        for path in received.paths() {
            must_be_there(&path).await?;
        }
        received.landmarks.write(self.path()).await?;
        let member = self.member();
        let control = Control {
            member: Some(Member {
                base: received.base(),
                install: Some(at),
                ..member
            }),
            ..self.control
        };
        self.write_control(control).await?;
        go_on(&self.directory, &self.control).await?;
        Ok(())
    }
}

/// Goes on with an installation that CONTROL names, to its end. What CONTROL says then.
pub(super) async fn go_on(directory: &DataDirectory, control: &Control) -> Result<Control, Error> {
    let Some((member, at)) = control
        .member
        .and_then(|member| Some((member, member.install?)))
    else {
        return Ok(*control);
    };
    let folder = directory.checkpoints();
    let (from, to) = (received_path_of(&folder, at), path_of(&folder, at));
    let is_new = fs::exists(&from).await;
    if is_new.map_err(Error::io("look for", &from))? {
        put_name(&folder, &from, &to).await?;
    }
    must_be_there(&to).await?;
    let start = CheckpointFile::open(&to).await?.start();
    replace_log(&directory.log(), start).await?;
    remove_all_but(&folder, &[at]).await?;
    let installed = Control {
        start: at,
        clean_end: Some(at),
        member: Some(Member {
            commit: at,
            cut: None,
            install: None,
            ..member
        }),
        ..*control
    };
    directory.write_control(&installed).await?;
    tracing::info!(end = %at, "a checkpoint of another node has taken the place of the log");
    Ok(installed)
}

async fn must_be_there(path: &Path) -> Result<(), Error> {
    let is_there = fs::exists(path).await;
    match is_there.map_err(Error::io("look for", path))? {
        true => Ok(()),
        false => Err(Error::Damaged {
            file: path.to_owned(),
            offset: 0,
            what: "the file is missing that was being put in the place of the log".to_owned(),
        }),
    }
}

/// Puts the log that came with a checkpoint in the place of every segment; nothing if it
/// needs none.
async fn replace_log(folder: &Path, start: CheckpointStart) -> Result<(), Error> {
    if start.log_start == start.replay_from() {
        return remove_log(folder, None).await;
    }
    let from = received_log_path_of(folder, start.log_start);
    let to = folder.join(Name::following(start.log_start).file_name());
    let is_new = fs::exists(&from).await;
    if is_new.map_err(Error::io("look for", &from))? {
        remove_log(folder, Some(&from)).await?;
        put_name(folder, &from, &to).await?;
    }
    must_be_there(&to).await
}

/// Removes every segment, and durably, but for one that came with a checkpoint.
async fn remove_log(folder: &Path, kept: Option<&Path>) -> Result<(), Error> {
    let names = fs::read_dir(folder)
        .await
        .map_err(Error::io("list", folder))?;
    for path in names {
        let is_log = first_of_name(&path).is_some() || is_unfinished(&path);
        if is_log && Some(path.as_path()) != kept {
            fs::remove_file(&path)
                .await
                .map_err(Error::io("remove", &path))?;
        }
    }
    fs::sync_dir(folder)
        .await
        .map_err(Error::io("sync", folder))
}
