//! Opening the log of a cluster's node: recovery, or conversion of an unreplicated
//! directory.

use std::path::Path;
use std::sync::Arc;

use coeval_env::fs;
use coeval_types::{Lsn, Term};

use super::check::LogEnd;
use super::install;
use super::landmarks::Landmarks;
use super::log::ReplicaLog;
use crate::control::{Control, DataDirectory, Member};
use crate::frame::Seed;
use crate::origin::Origin;
use crate::recovery::{Leftovers, ReadLog, create, tail};
use crate::reserve::Reserve;
use crate::retention::Retention;
use crate::segment::{SegmentKind, first_of_name};
use crate::{Error, RecoverySummary, Replay, Settings};

impl ReplicaLog {
    /// Opens the log in `directory`, or creates one, and locks the directory for this
    /// process. Passes to `replay` the newest checkpoint's records, and the commits after
    /// it that are known to be committed; a [`Replayer`](super::Replayer) continues from
    /// there.
    ///
    /// The directory of an unreplicated database becomes a cluster's, whose replicated log
    /// begins where the database's log ends: everything before is committed. With a
    /// `database`, it must be as a restore has left it, so that all nodes may begin with
    /// the same data ([`Origin`]).
    ///
    /// All nodes have the same database id; a new directory gets `database`, or, on the
    /// first node, a random one. A directory with another id is refused.
    ///
    /// On an error the directory is unchanged, except that a truncation that was under way
    /// may have been completed.
    pub async fn open(
        directory: &Path,
        database: Option<u128>,
        settings: Settings,
        replay: Arc<dyn Replay>,
    ) -> Result<(Self, RecoverySummary), Error> {
        settings.check()?;
        let directory = DataDirectory::lock(directory).await?;
        Reserve::new(
            directory.path(),
            settings.reserve_bytes,
            settings.segment_bytes,
        )
        .give_up_to_open(settings.segment_bytes)
        .await?;
        let control = match directory.read_control().await? {
            Some(control) => control,
            None => create(&directory, database).await?,
        };
        if let Some(other) = database.filter(|database| *database != control.database) {
            return Err(Error::Setting(format!(
                "{} is of database {:032x}, and the cluster's is {other:032x}; name a directory \
                 of that database, or an empty one. To found a cluster of what was restored \
                 here, give all its nodes the cluster id {:032x}",
                directory.path().display(),
                control.database,
                control.database
            )));
        }
        if let Some(member) = control.member
            && member.protocol != settings.protocol
        {
            return Err(Error::Setting(format!(
                "{} is of a cluster of the protocol {}, and this node is started for one of the \
                 protocol {}: a cluster has the one that was chosen when it was founded; name \
                 another directory, or start the node as the cluster's",
                directory.path().display(),
                member.protocol,
                settings.protocol
            )));
        }
        if database.is_some() && control.member.is_none() && control.term != Term(0) {
            must_be_restored(&directory, &control).await?;
        }
        let control = install::go_on(&directory, &control).await?;
        let kind = SegmentKind {
            directory: directory.log(),
            database: control.database,
            segment_bytes: settings.segment_bytes,
            leftovers: Leftovers::Remove,
        };
        if let Some(cut) = control.cut() {
            remove_from(&kind, cut).await?;
        }
        let mut found = ReadLog::read(&directory, &control, &kind, &settings, replay).await?;
        let control = control.after_cut();
        let end = found.scan.end;
        match control.member {
            Some(_) => {
                tail::repair_member(&mut found.chain, &kind, &control, &found.scan).await?;
            }
            None => {
                tail::repair(&mut found.chain, &kind, &control, &found.scan, &found.tail).await?;
            }
        }
        found.chain.begin_if_empty(&kind).await?;
        let member = control.member.unwrap_or(Member {
            vote: None,
            commit: end,
            base: end,
            cut: None,
            install: None,
            newcomer: false,
            protocol: settings.protocol,
        });
        let begin = found.begin.0;
        // A checkpoint covers committed log only, and the commit index may have been
        // recorded before the checkpoint was taken.
        let member = Member {
            commit: match found.checkpoint {
                Some(_) => member.commit.max(begin),
                None => member.commit,
            },
            ..member
        };
        let mut landmarks = match control.member {
            Some(_) => Landmarks::read(directory.path(), begin).await?,
            None => Landmarks::default(),
        };
        let summary = found.summary();
        landmarks.append(found.scan.landmarks);
        let mut chunks = found.scan.chunks;
        if let Some(checkpoint) = summary.checkpoint
            && checkpoint.start.log_start < checkpoint.start.replay_from()
        {
            chunks.needed_before(checkpoint.start.log_start, found.begin.1);
        }
        let control = Control {
            start: end,
            clean_end: None,
            member: Some(member),
            ..control
        };
        directory.write_control(&control).await?;
        let log = Self {
            seed: Seed::of_database(control.database),
            retention: Retention::new(summary.checkpoint),
            directory,
            control,
            kind,
            settings,
            chain: found.chain,
            begin,
            end: LogEnd {
                lsn: end,
                term: found.scan.last_term,
            },
            unmarked_term: found.scan.unmarked_term,
            landmarks,
            chunks,
            flushed: end,
            synced: end,
            failed: None,
            counters: Arc::default(),
        };
        // Without it statistics report more retained log than there is, until a segment is
        // removed.
        let _ = log.retention.look(&log.files()).await;
        Ok((log, summary))
    }
}

/// Refuses a database of a server alone unless it is as a restore has left it: the other
/// nodes could not begin with the same data.
async fn must_be_restored(directory: &DataDirectory, control: &Control) -> Result<(), Error> {
    match Origin::of(directory.path(), control).await? {
        Some(_) => Ok(()),
        None => Err(Error::Setting(format!(
            "{} holds the database of a server alone. To make a cluster of it, start that server \
             once more without the settings of a cluster, take a backup (coeval backup), restore \
             it into an empty directory on each node (coeval restore), and start the nodes with \
             --cluster-found and the cluster id {:032x}",
            directory.path().display(),
            control.database
        ))),
    }
}

impl ReplicaLog {
    /// The backup that the beginning of this log was restored from, if it was: what a node
    /// of another origin holds is other data.
    pub async fn origin(&self) -> Result<Option<Origin>, Error> {
        Origin::of(self.directory.path(), &self.control).await
    }
}

/// Continues a truncation that was under way: removes the segments at or after `cut`.
async fn remove_from(kind: &SegmentKind, cut: Lsn) -> Result<(), Error> {
    let directory = &kind.directory;
    let names = fs::read_dir(directory)
        .await
        .map_err(Error::io("list", directory))?;
    let behind = |path: &&std::path::PathBuf| first_of_name(path).is_some_and(|first| first >= cut);
    for path in names.iter().rev().filter(behind) {
        fs::remove_file(path)
            .await
            .map_err(Error::io("remove", path))?;
    }
    fs::sync_dir(directory)
        .await
        .map_err(Error::io("sync", directory))
}
