//! Installation of a checkpoint that another node sent, in place of the whole log.
//!
//! ```text
//!   MARKS replaced             lists more of the committed log, and only true facts
//!   CONTROL: install P         from here on the checkpoint replaces the log
//!   checkpoints/P gets its name
//!   log files removed
//!   log/L gets its name        if the checkpoint needs log before P, which was sent with it
//!   other checkpoints removed
//!   CONTROL: no install; the log ends at P, and everything before is committed
//! ```
//!
//! A crash before the second step leaves the log as it was; after a crash later on, the next
//! start continues the installation. All received files are whole and durable before the second
//! step. Once log/L has its final name, no file of the old log is left: as long as it has not,
//! all log files are removed, again if necessary.
//!
//! Term and vote are in CONTROL, and stay. The term of the last entry before P is the
//! snapshot's, and MARKS has the beginnings of earlier terms: what votes and recovery compare
//! outlives the log that contained it. Of the log before P only the chunks are read that
//! commits after P reference, as with a checkpoint taken locally.

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
    /// Installs a received checkpoint in place of this log and of the state replayed from it:
    /// the caller opens the directory anew, with empty tables.
    ///
    /// # Errors
    /// [`Error::Refused`] when this log's own committed part reaches further, or the checkpoint
    /// is of a term that this node has not recorded.
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
        // From then on a start continues with these files, or fails.
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

/// Continues an installation that CONTROL names, to its end, and returns the new control data.
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

/// Replaces every segment by the log that was sent with a checkpoint, or by nothing if it needs
/// none.
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

/// Removes every segment, durably, except the one that was sent with a checkpoint.
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
