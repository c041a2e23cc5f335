//! The cluster version: one number in the log, which says what members write and so must read.
//!
//! ```text
//!   leader 1          2, reads 2     3, reads 1
//!   version 1         ◀─ announced ──┴──        3 holds version 2 back
//!                                    restarted with a newer build, reads 2
//!   raise to 2  ────▶ in the log: from here on entries, rows and messages of version 2
//!   identify 1, 2, 3 ▶ each member's directory, by the identity that it announces
//! ```
//!
//! A membership carries the version (crate `consensus`), so it has one order with the log and
//! is in every mark and checkpoint. The leader raises it by one when every member, voter or
//! learner, is connected and has announced that it reads the next; no operator asks for it. A
//! node that reads less than the version in force is refused when it connects, with the reason
//! (crate `peers`), and a build that knows no versions refuses the directory by CONTROL's
//! format version.
//!
//! | version | written from it on |
//! | --- | --- |
//! | 1 | what builds read that announce nothing |
//! | 2 | memberships with a version and the identities of directories |
//! | 3 | questions of followers for the read index, and how far followers show their log |
//! | 4 | sessions of clients that their own node has let in, and what that node tells of
//!       transaction blocks |
//! | 5 | catalog rows with settings of roles and the database, and what nodes tell each other of
//!       them at logins; questions of a node for the sessions of others, and interruptions of
//!       those; marks among the messages of a session |
//! | 6 | catalog rows of unlogged tables, and of tables with types of columns that version 5 does not
//!       know; statistics of tables; that a session is pinned to its leader |
//! | 7 | catalog rows of sequences, views, extensions and comments; tables with CHECK constraints, with
//!       columns that the database computes, and with types of columns that version 6 does not store;
//!       the numbers of sequences that a session was given |
//!
//! What a later build writes for the first time gets the next number here, and asks
//! [`Membership::version`](coeval_consensus::Membership::version) before it writes.

use coeval_consensus::{Change, IDENTITIES, NodeId as Member, Role as Part};
use coeval_peers::{Announcement, Connection, PeerStatus};
use coeval_types::planted;

use super::driver::Driver;
use super::operation::Operation;

/// The newest cluster version that this build reads.
pub const NEWEST_VERSION: u32 = NAMED_OBJECTS;

/// The first version in which a follower asks its leader for the read index, and reports how
/// far it shows its log.
pub(super) const FOLLOWER_READS: u32 = 3;

/// The first version in which a node lets its own clients in, and the leader takes its word
/// for them.
pub const NODE_LOGINS: u32 = 4;

/// The first version in which the catalog keeps settings of roles and the database.
pub const ROLE_SETTINGS: u32 = 5;

/// The first version in which a node tells others of the sessions of its clients, and
/// interrupts one for them; and in which the node of a client marks its messages to the leader,
/// which tells the mark with a commit.
pub const SESSION_MESSAGES: u32 = 5;

/// The first version in which the catalog has tables of its third format, and a storage of
/// statistics has rows.
pub const SQL_OBJECTS: u32 = 6;

/// The first version in which the catalog has rows of other objects than tables and roles, and in
/// which every member keeps to what those and the sections of tables say. Builds of version 6 read
/// rows of sequences and views, but keep no storages of sequences, and hold no writer to a CHECK
/// constraint.
pub const NAMED_OBJECTS: u32 = 7;

/// What a connected member has announced.
pub(super) fn announced(peers: &[PeerStatus], member: Member) -> Option<Announcement> {
    let peer = peers.iter().find(|peer| peer.node.0 == member.0)?;
    let stands = matches!(peer.connection, Connection::Standing(_));
    peer.announced.filter(|_| stands)
}

impl Driver {
    /// Raises the cluster version, or names a member's directory, if that is due and no other
    /// change is under way. Called at every tick.
    pub(super) fn tend_version(&mut self) {
        let engine = self.lead.as_ref().and_then(|lead| lead.engine.as_ref());
        // On a full disk CONTROL cannot be written, which comes first.
        let has_room = engine.is_some_and(|engine| engine.log().full_reason().is_none());
        if !has_room || self.operation.is_some() || !self.waiting.is_empty() {
            return;
        }
        let status = self.consensus.status();
        let is_free = matches!(status.role.role, Part::Leader { serving: true })
            && !status.membership_is_open
            && status.handing_over.is_none();
        if !is_free {
            return;
        }
        let members = &status.membership;
        let next = members.version() + 1;
        let peers = self.peers.status();
        let reads = |member: Member| {
            let announced = announced(&peers, member);
            member == status.id || announced.is_some_and(|announced| announced.reads >= next)
        };
        let is_read = members.members().all(reads) || planted!(RaiseUnasked);
        let directory = |member: Member| match member == status.id {
            true => self.standing.directory,
            // A newcomer is named once it has been admitted.
            false => {
                announced(&peers, member)
                    .filter(|announced| !announced.founds && !self.is_newcomer(&peers, member))?
                    .directory
            }
        };
        let unnamed = || {
            let mut unnamed = members
                .members()
                .filter(|node| members.directory(*node).is_none());
            unnamed.find_map(|node| Some(Change::Identify(node, directory(node)?)))
        };
        let change = if next <= self.cluster_version && is_read {
            Some(Change::Raise(next))
        } else if members.version() >= IDENTITIES {
            unnamed()
        } else {
            None
        };
        let Some(change) = change else {
            return;
        };
        match self.put(change) {
            Ok(stage) => {
                tracing::info!(?change, "the cluster's version or a member's directory");
                self.operation = Some(Operation::unasked(status.role.term, stage));
            }
            Err(refusal) => tracing::debug!(%refusal, "the cluster's version stays"),
        }
    }

    fn is_newcomer(&self, peers: &[PeerStatus], member: Member) -> bool {
        let peer = peers.iter().find(|peer| peer.node.0 == member.0);
        peer.is_some_and(|peer| peer.newcomer.is_some())
    }
}
