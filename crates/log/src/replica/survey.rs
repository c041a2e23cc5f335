//! What a node's log holds beyond what it knows to be committed: for an administrator
//! who has lost the majority, and for no running node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coeval_types::{Lsn, Term, Timestamp};

use super::log::ReplicaLog;
use crate::control::DataDirectory;
use crate::frame::{Header, Kind};
use crate::{Block, Entry, Error, Replay, ReplayError, Settings};

/// Bytes of log that are read at once.
const READ_BYTES: usize = 1 << 20;

/// The end of a node's log. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The newest term that the node has seen.
    pub term: Term,
    /// Everything before this log offset was on a majority: the node has recorded that, or
    /// the leader that wrote its last frames has.
    pub committed: Lsn,
    /// The term of the last entry, and the end of the node's log. Of two logs of one cluster
    /// the one with the later term has more of what was committed, and of the same term the
    /// longer one: the rule by which nodes elect.
    pub end: Timestamp,
    /// Number of transactions between the two.
    pub transactions: u64,
    /// The last of them, with the time of day at which it was made, since the Unix epoch.
    pub last: Option<(Timestamp, Duration)>,
}

/// Takes no entries: only the log itself is read.
struct Nothing;

impl Replay for Nothing {
    fn apply(&self, _: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        Ok(())
    }

    fn restore(&self, _: &Block<'_>) -> Result<(), String> {
        Ok(())
    }
}

impl ReplicaLog {
    /// Opens the log of a cluster's node, without its rows.
    ///
    /// # Errors
    /// When the directory is not that of a cluster's node; nothing has been changed then.
    pub async fn open_member(directory: &Path, settings: Settings) -> Result<Self, Error> {
        let control = DataDirectory::inspect(directory)
            .await?
            .read_control()
            .await?;
        if control.is_none_or(|control| control.member.is_none()) {
            return Err(Error::Setting(format!(
                "{} is not the directory of a cluster's node",
                directory.display()
            )));
        }
        let (log, _) = Self::open(directory, None, settings, Arc::new(Nothing)).await?;
        Ok(log)
    }

    /// Reads the log after the recorded commit index.
    pub async fn survey(&self) -> Result<Survey, Error> {
        let recorded = self.hard_state().commit;
        let mut committed = recorded.max(self.begin());
        let mut made = Vec::new();
        let mut at = committed;
        while at < self.end() {
            let frames = self.read(at, READ_BYTES).await?;
            let (mut start, mut rest) = (frames.start, &frames.bytes[..]);
            while !rest.is_empty() {
                let (header, _) = Header::parse(rest, start, self.seed)
                    .map_err(|why| self.chain.damaged(start, why.describe().to_owned()))?;
                committed = committed.max(header.durable);
                if header.kind == Kind::Commit {
                    made.push((header.timestamp, Duration::from_micros(header.time)));
                }
                rest = &rest[header.frame_bytes() as usize..];
                start = header.end();
            }
            at = frames.end();
        }
        made.retain(|(timestamp, _)| timestamp.lsn() >= committed);
        Ok(Survey {
            term: self.hard_state().term,
            committed,
            end: Timestamp::new(self.last_term(), self.end()),
            transactions: made.len() as u64,
            last: made.last().copied(),
        })
    }
}
