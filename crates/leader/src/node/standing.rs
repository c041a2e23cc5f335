//! Whether a node takes part in its cluster: founding, and directories that a cluster does not
//! know.
//!
//! A node's promises, its votes and acknowledgements, are in its data directory. A directory
//! that was emptied or replaced has lost them, under the same number. So a node with an empty
//! directory that is started to *found* its cluster takes no part before every other founder
//! has said that it holds no log either:
//!
//! ```text
//!   founder 1, identity 7a       founder 2, identity c1       3, identity 05, started last
//!     ◀────── founds, c1 ────────
//!   waits for 3                  waits for 3
//!     ◀──────────────────────── founds, 05 ─────────────────▶
//!   writes down 7a c1 05         writes down 7a c1 05         crashes
//!     ◀── founds, 7a c1 05 ──▶
//!   waits for 3                  waits for 3                  starts: 05, no log
//!     ◀──────────────────────── founds, 05 ─────────────────▶
//!                                                             writes down 7a c1 05
//!     ◀──────────────────────── founds, 7a c1 05 ───────────▶
//!   done: votes                  done: votes                  done: votes
//! ```
//!
//! A founder that has written down a list writes no other, so it never founds with a directory
//! that has come in the place of one of these.
//!
//! # Why it is right
//!
//! Say that a list L of directories is done at some node. Then each of them has written L down,
//! and none has had a log before it did. A directory that comes later under the number of one
//! that was lost could take part only by another list L', done by all its directories; one of
//! these is in L and still there, and has written down L, or all of L are lost and with them all
//! that was acknowledged. A directory of L that comes back before it was done has promised
//! nothing, and is let in. A member that has a log and no list, because an earlier build founded
//! its cluster, never founds; so no list with it is done.
//!
//! With `without`, the administrator vouches for a founder that does not answer. The list then
//! names no directory for it, so no directory is that founder: it is refused, with whatever
//! log it comes, until it is removed and its machine added anew.
//!
//! Founders that were started with different members tell each other (`member_lists`).
//!
//! A node whose own log names another directory for it takes no part either, and says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coeval_consensus::{Consensus, FIRST_VERSION, Membership, Restored};
use coeval_log::Founders;
use coeval_peers::{Announcement, Connection, DirectoryId, NodeId, PeerStatus};
use coeval_types::planted;

use super::disk::Command;
use super::driver::Driver;
use super::member_lists::MemberList;
use super::{Error, entries};

/// A node's part in its cluster.
#[derive(Debug)]
pub(super) struct Standing {
    /// Identity of the node's directory.
    pub(super) directory: Option<DirectoryId>,
    founding: Option<Founding>,
    /// The log names another directory for this node.
    stranger: Option<Arc<str>>,
    /// The node that has refused this one as removed.
    removed_by: Option<NodeId>,
    /// The members that other founders name.
    lists: BTreeMap<NodeId, MemberList>,
    /// Founders without whose word this node has gone on since its start.
    went_without: BTreeSet<NodeId>,
    /// What this node says of its founding, or the refusal of others.
    said: Option<Arc<str>>,
}

/// A founding under way.
#[derive(Debug)]
pub(super) struct Founding {
    /// This node.
    own: NodeId,
    /// The other founders.
    others: BTreeSet<NodeId>,
    /// Founders whose answers are not waited for.
    without: BTreeSet<NodeId>,
    /// What consensus starts with once the cluster is founded.
    start: Start,
    /// The founders that this node has written down.
    list: Option<Founders>,
    /// Whether the disk thread is writing the founders down.
    is_writing: bool,
    /// Ticks for which nothing was missing but the members that some founders name.
    ticks_for_lists: u32,
}

/// How many ticks a founder waits for the members that others name. They are told as soon as
/// two nodes are connected, but not by an earlier build.
const TICKS_FOR_LISTS: u32 = 20;

/// The arguments with which consensus starts.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) restored: Restored,
    pub(super) settings: coeval_consensus::Settings,
    pub(super) seed: u64,
}

impl Founding {
    /// The members that this node was started with.
    fn members(&self) -> MemberList {
        MemberList(self.others.iter().copied().chain([self.own]).collect())
    }

    /// Founders without whose word this node goes on when it writes these down. What was
    /// vouched for in a list that it has written down before, it has said then.
    fn goes_without(&self, founders: &Founders) -> BTreeSet<NodeId> {
        let leaves_out = |list: &Founders, node: &NodeId| {
            let mut named = list.directories.iter();
            named.any(|(founder, id)| *founder == node.0 && id.is_none())
        };
        let without = self.without.intersection(&self.others).copied();
        without
            .filter(|node| founders.is_done || leaves_out(founders, node))
            .filter(|node| !self.list.iter().any(|list| leaves_out(list, node)))
            .collect()
    }

    pub(super) fn new(
        own: NodeId,
        founders: impl IntoIterator<Item = NodeId>,
        without: BTreeSet<NodeId>,
        list: Option<Founders>,
        start: Start,
    ) -> Self {
        Self {
            own,
            others: founders.into_iter().filter(|node| *node != own).collect(),
            without,
            start,
            list,
            is_writing: false,
            ticks_for_lists: 0,
        }
    }

    /// Whether nothing is to be written down yet, since some founders may still say which
    /// members they name. Called at each tick at which nothing else is missing.
    fn waits_for_lists(&mut self, lists: &BTreeMap<NodeId, MemberList>) -> bool {
        let asked = self.others.difference(&self.without);
        let is_told = asked.clone().all(|node| lists.contains_key(node));
        self.ticks_for_lists += 1;
        self.list.is_none()
            && !is_told
            && self.ticks_for_lists <= TICKS_FOR_LISTS
            && !planted!(FoundAtOnce)
    }

    /// What the founders are to be written down as now, or why there is nothing to write;
    /// `lists` are the members that other founders name.
    fn next(
        &self,
        own: Founder,
        peers: &[PeerStatus],
        lists: &BTreeMap<NodeId, MemberList>,
    ) -> Result<Founders, String> {
        let peer = |node: &NodeId| peers.iter().find(|peer| peer.node == *node);
        // A list names no directory for a founder that the administrator has vouched for.
        let listed = self.list.iter().flat_map(|list| &list.directories);
        let vouched = listed.filter(|(_, directory)| directory.is_none());
        let vouched: BTreeSet<NodeId> = vouched
            .map(|(node, _)| NodeId(*node))
            .chain(self.without.iter().copied())
            .collect();
        let said = |node: &NodeId| peer(node).and_then(|peer| peer.announced);
        let asked = self.others.difference(&vouched);
        let asked: Vec<_> = asked.map(|node| (*node, said(node))).collect();
        let digest = self.list.as_ref().map(Founders::digest);
        // It has founded by this list, so all others have written it down.
        let is_done = |said: &Announcement| !said.founds && said.founders == digest;
        let some_done = digest.is_some()
            && asked
                .iter()
                .any(|(_, said)| said.as_ref().is_some_and(is_done));
        let here = self.members();
        let differs = |node: &NodeId| lists.get(node).filter(|there| **there != here);
        let is_missing = |node: &NodeId, said: Option<Announcement>| match (said, digest) {
            (None, _) => true,
            (Some(said), None) => !said.founds || differs(node).is_some(),
            (Some(said), digest) => said.founders != digest,
        };
        let missing = asked.iter().filter(|(node, said)| is_missing(node, *said));
        let why = |(node, said): &(NodeId, Option<Announcement>)| {
            let peer = peer(node);
            let fault = peer.and_then(|peer| peer.fault.as_deref());
            let stands = |peer: &PeerStatus| matches!(peer.connection, Connection::Standing(_));
            let compare = differs(node).map_or_else(String::new, |there| {
                format!(
                    " (compare cluster_members of both: {here} at node {}, {there} at node {node})",
                    own.node
                )
            });
            match (said, fault) {
                (Some(said), _) if !said.founds => {
                    format!("node {node} holds a log of the cluster{compare}")
                }
                (Some(said), _) if said.founders.is_some() => format!(
                    "node {node} has written down other founders{compare}; if no node of the \
                     cluster has taken part yet, empty the directories of all founders and start \
                     them anew, with the same members"
                ),
                (Some(_), _) if !compare.is_empty() => format!(
                    "node {node} names other members{compare}; start all founders with the same"
                ),
                (Some(_), _) => format!("node {node} has not heard of all founders"),
                (None, _) if peer.is_some_and(stands) => {
                    format!("node {node} runs a build that does not say whether it holds a log")
                }
                (None, Some(fault)) => format!("node {node} has not answered: {fault}"),
                (None, None) => format!("node {node} has not answered"),
            }
        };
        let missing: Vec<String> = missing.map(why).collect();
        if !missing.is_empty() && !some_done && !planted!(FoundAtOnce) {
            return Err(missing.join("; "));
        }
        if let Some(list) = &self.list {
            return Ok(Founders {
                is_done: true,
                ..list.clone()
            });
        }
        let reads = asked
            .iter()
            .filter_map(|(_, said)| said.map(|said| said.reads));
        let version = reads.chain([own.reads]).min().unwrap_or(FIRST_VERSION);
        let named = asked.iter().map(|(node, said)| {
            let directory = said.and_then(|said| said.directory);
            (node.0, directory)
        });
        let vouched = self.others.intersection(&vouched);
        let vouched = vouched.map(|node| (node.0, None));
        let mut directories: Vec<_> = named.chain(vouched).collect();
        directories.push((own.node.0, own.directory));
        directories.sort_unstable();
        Ok(Founders {
            version,
            is_done: planted!(FoundAtOnce),
            directories,
        })
    }
}

/// What a node says of itself to the other founders.
#[derive(Clone, Copy, Debug)]
struct Founder {
    node: NodeId,
    reads: u32,
    directory: Option<DirectoryId>,
}

impl Standing {
    /// The standing of node `own`, with this directory and founding, whose log has these
    /// members, and which this node has refused as removed.
    pub(super) fn new(
        own: NodeId,
        (directory, founding): (Option<DirectoryId>, Option<Founding>),
        removed_by: Option<NodeId>,
        members: &Membership,
    ) -> Self {
        Self {
            directory,
            founding,
            stranger: stranger(own, directory, members),
            removed_by,
            lists: BTreeMap::new(),
            went_without: BTreeSet::new(),
            said: None,
        }
    }

    /// The node that has refused this one as removed.
    pub(super) const fn removed_by(&self) -> Option<NodeId> {
        self.removed_by
    }

    /// Notes that another node has refused this one as removed, which is final.
    pub(super) const fn note_removed(&mut self, by: NodeId) {
        self.removed_by = Some(by);
    }

    /// Whether the node takes part: messages of consensus reach it, and its clock runs.
    pub(super) const fn takes_part(&self) -> bool {
        self.founding.is_none() && self.stranger.is_none() && self.removed_by.is_none()
    }

    /// Why the node takes no part, or is not let in.
    pub(super) fn shut_out(&self) -> Option<Arc<str>> {
        let removed = |by| {
            Arc::from(format!(
                "this node has been removed from the cluster, as node {by} has said: it neither \
                 votes nor acknowledges. Stop it; to use its machine again, start with an empty \
                 directory and --cluster-join under a number that was never used"
            ))
        };
        let removed = self.removed_by.map(removed);
        removed
            .or_else(|| self.stranger.clone())
            .or_else(|| self.said.clone())
    }

    /// Founders without whose word this node has gone on with the founding since its start.
    pub(super) const fn went_without(&self) -> &BTreeSet<NodeId> {
        &self.went_without
    }

    /// The members that this node was started with, while it founds.
    pub(super) fn founding_members(&self) -> Option<MemberList> {
        self.founding.as_ref().map(Founding::members)
    }

    /// The members that another founder names, if it has said so.
    pub(super) fn named_by(&self, node: NodeId) -> Option<&MemberList> {
        self.lists.get(&node)
    }

    /// Notes which members another node names, while this one founds.
    pub(super) fn note_list(&mut self, node: NodeId, list: MemberList) {
        if self.founding.is_some() {
            self.lists.insert(node, list);
        }
    }
}

/// Why a node whose log names another directory for it takes no part; `None` if it names this
/// one, or none.
pub(super) fn stranger(
    own: NodeId,
    directory: Option<DirectoryId>,
    members: &Membership,
) -> Option<Arc<str>> {
    let named = members.directory(coeval_consensus::NodeId(own.0))?;
    if Some(named) == directory || planted!(VoteWithUnknownIdentity) {
        return None;
    }
    let words = format!(
        "the log names another directory for node {own} than this one, which is an old copy or a \
         restored backup: what the node had acknowledged may be lost. It neither votes nor \
         acknowledges; have it removed (coeval cluster remove {own}), and add its machine under an \
         id that was never used"
    );
    Some(words.into())
}

impl Driver {
    /// Looks whether the membership in force knows this node's directory.
    pub(super) fn look_at_own_directory(&mut self, members: &Membership) {
        let own = NodeId(self.consensus.id().0);
        let now = stranger(own, self.standing.directory, members);
        if now != self.standing.stranger {
            if let Some(reason) = &now {
                tracing::error!(%reason, "this node takes no part");
            }
            self.standing.stranger = now;
        }
    }

    /// Goes on with the founding, and notes why this node is not let in, if so. Called at
    /// every tick.
    pub(super) fn look_at_standing(&mut self) -> Result<(), Error> {
        self.ask_for_member_lists();
        let peers = self.peers.status();
        let own = Founder {
            node: NodeId(self.consensus.id().0),
            reads: self.cluster_version,
            directory: self.standing.directory,
        };
        let said = match &mut self.standing.founding {
            Some(founding) if founding.is_writing => return Ok(()),
            Some(founding) => match founding.next(own, &peers, &self.standing.lists) {
                Ok(_) if founding.waits_for_lists(&self.standing.lists) => return Ok(()),
                Ok(founders) => {
                    founding.is_writing = true;
                    return self.tell_disk(Command::Found(founders));
                }
                Err(missing) => Some(format!(
                    "this node founds the cluster, and neither votes nor acknowledges until every \
                     founder has said that it holds no log: {missing}"
                )),
            },
            None => self.refused_by(&peers),
        };
        let said: Option<Arc<str>> = said.map(Into::into);
        if said != self.standing.said {
            if let Some(reason) = &said {
                tracing::warn!(%reason, "this node takes no part");
            }
            self.standing.said = said;
            self.show();
        }
        Ok(())
    }

    /// Why the leader does not let this node in, or any node if none leads.
    fn refused_by(&self, peers: &[PeerStatus]) -> Option<String> {
        let leader = self.consensus.role().leader.map(|node| NodeId(node.0));
        let is_asked = |peer: &&PeerStatus| leader.is_none_or(|leader| leader == peer.node);
        let refuses =
            |peer: &&PeerStatus| peer.refusal.is_some_and(coeval_peers::Reason::shuts_out);
        let peer = peers.iter().filter(is_asked).find(refuses)?;
        let fault = peer.fault.as_deref().unwrap_or_default();
        Some(format!(
            "node {} does not admit this node: {fault}",
            peer.node
        ))
    }

    /// The founders are written down. Once they are done, this node takes part.
    pub(super) fn founded(&mut self, founders: Founders) -> Result<(), Error> {
        let Some(founding) = &mut self.standing.founding else {
            return Ok(());
        };
        founding.is_writing = false;
        let without = founding.goes_without(&founders);
        self.standing.went_without.extend(without);
        self.peer_set.founded(&founders);
        if !founders.is_done {
            founding.list = Some(founders);
            self.tell_peers();
            self.show();
            return Ok(());
        }
        let Some(founding) = self.standing.founding.take() else {
            return Ok(());
        };
        let Start {
            mut restored,
            settings,
            seed,
        } = founding.start;
        restored.membership = entries::founders(&founders);
        restored.newcomer = false;
        let id = self.consensus.id();
        if let Some(watch) = &self.watch {
            watch.started(id, &restored, &[]);
        }
        let without: Vec<String> = founding.without.iter().map(ToString::to_string).collect();
        tracing::info!(members = %restored.membership, without = without.join(","), "the cluster is founded");
        self.consensus = Consensus::new(id, settings, &restored, seed)?;
        self.met_at = None;
        self.standing.said = None;
        self.tell_peers();
        self.apply_ready()
    }
}
