//! Recovery of a cluster whose majority is lost for ever, on the directory of a surviving
//! member that is stopped.
//!
//! ```text
//!   before   term 7   voters 1 2 3     log … a b c        c: is it on a majority?
//!   after    term 1007, voter 3        log … a b c S₁₀₀₇  all of it is committed
//! ```
//!
//! The node writes what a leader of a far later term would have written: the mark of that
//! term, with the surviving member as the only one. So its log is an ordinary one, and
//! everything in it counts as committed. The other members are *removed* by the mark, as
//! by an administrator: the node refuses their connections for ever, and they say so
//! (57P03, `/health`). They come back with an empty directory under a new number.
//!
//! # What is lost, and what is risked
//!
//! A transaction that the lost members acknowledged without this one is lost: no vote has
//! made sure that this log has every committed entry. And lost members that come back
//! together, and do not reach this node, are still a majority of the old cluster: nothing
//! on this node can hinder them. So an administrator who runs this makes sure that they
//! never start again with their data. That holds for a node that was removed and is
//! recovered all the same, because the cluster that went on without it is lost, too: it is
//! the administrator's word that no member of that cluster starts again.
//!
//! Source: etcd's `--force-new-cluster`, TiKV's recovery from a lost majority, CockroachDB's *loss of
//! quorum recovery*; the removal of the others by an entry in the log is this project's.

use std::path::{Path, PathBuf};

use coeval_consensus::encoding::{decode_membership, encode_membership};
use coeval_consensus::{Membership, NodeId};
use coeval_log::{HardState, Removal, ReplicaLog, Settings, Survey};
use coeval_types::Term;

use crate::node::Error;

/// How many terms later the recovered cluster continues: later than any that the lost
/// members have begun without this one.
const TERMS: u32 = 1000;

/// A stopped member of a cluster whose majority is lost.
#[derive(Debug)]
pub struct Survivor {
    log: ReplicaLog,
    directory: PathBuf,
    node: NodeId,
    members: Membership,
    survey: Survey,
    /// The member that has said that this one was removed.
    removed_by: Option<u64>,
}

impl Survivor {
    /// Opens the directory of this member, as a start would, and changes nothing of what it
    /// holds.
    ///
    /// # Errors
    /// When the directory is in use, damaged, or not that of a member that could go on
    /// alone.
    pub async fn open(directory: &Path, node: u64) -> Result<Self, Error> {
        let log = ReplicaLog::open_member(directory, Settings::default()).await?;
        let refuse = |why: &str| {
            Err(Error::Setting(format!(
                "{} cannot be recovered: {why}",
                directory.display()
            )))
        };
        if log.is_newcomer() {
            return refuse(
                "this node has joined with an empty directory and was never admitted, so what it \
                 holds may be old; take another member's",
            );
        }
        let Some(last) = log.memberships().last() else {
            return refuse(
                "its cluster was never founded; restore a backup into an empty directory (coeval \
                 restore), or found the cluster from empty ones",
            );
        };
        let members = decode_membership(&last.payload.clone().into())
            .map_err(|_| Error::Malformed("the members in the log make no sense"))?;
        let node = NodeId(node);
        if !members.is_voter(node) {
            return refuse(&format!(
                "node {} does not vote in its cluster, whose voters are {members}",
                node.0
            ));
        }
        let removal = Removal::read(directory).await?;
        let removal = removal.filter(|removal| removal.node == node.0);
        if members.voters().len() == 1 && removal.is_none() {
            return refuse("it is the only voter, and needs no other: start it");
        }
        let survey = log.survey().await?;
        Ok(Self {
            log,
            directory: directory.to_owned(),
            node,
            members,
            survey,
            removed_by: removal.map(|removal| removal.by),
        })
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster(&self) -> u128 {
        self.log.database()
    }

    /// The other members, which recovery removes.
    pub fn others(&self) -> impl Iterator<Item = u64> {
        let members = self.members.members().map(|node| node.0);
        members.filter(|node| *node != self.node.0)
    }

    /// The member that has said that this node was removed from the cluster, which went on
    /// without it.
    #[must_use]
    pub const fn removed_by(&self) -> Option<u64> {
        self.removed_by
    }

    /// What the log holds, and what is known of it.
    #[must_use]
    pub fn survey(&self) -> Survey {
        self.survey
    }

    /// Makes this node the only member, and everything in its log committed. Returns the
    /// new term. After a crash meanwhile the command may be run again.
    pub async fn recover(mut self) -> Result<Term, Error> {
        let before = self.log.hard_state();
        let term = Term(before.term.0.saturating_add(TERMS).min(Term::MAX.0));
        if term <= before.term {
            return Err(Error::Setting(
                "the cluster has used up its terms".to_owned(),
            ));
        }
        let state = HardState {
            term,
            vote: Some(self.node.0),
            commit: before.commit,
        };
        self.log.set_hard_state(state).await?;
        let alone = Membership::new([self.node], [])
            .at_version(self.members.version(), self.members.directories());
        let mark = encode_membership(&alone);
        self.log.append_mark(term, &mark).await?;
        let commit = self.log.flush().await?;
        self.log
            .set_hard_state(HardState { commit, ..state })
            .await?;
        if self.removed_by.is_some() {
            Removal::forget(&self.directory).await?;
        }
        self.log.close().await?;
        Ok(term)
    }
}
