//! A node that other nodes have removed: it takes no part any more, whatever its own log
//! says.
//!
//! Usually a removed node knows of it from its log. A node that was away does not; nor does
//! a member of a cluster that was [recovered](crate::recovery) without it, and with such
//! others it may still be a majority of the old cluster. But a member that refuses its
//! connection as removed has the removal among its committed entries, so it is final:
//!
//! ```text
//!   node 1   voters 1 2 3    hello ──▶  node 3   voters 3, removed 1 2
//!                            ◀── refused: removed
//!   neither votes nor stands for election, and ignores what others say
//! ```
//!
//! It is written down ([`Removal`]), since the next start may be away from node 3: nodes 1
//! and 2 were a majority then. And the node lets no other connect to it, so that none counts
//! it among the nodes it reaches.
//!
//! A node that leads meanwhile stops. An administrator who has lost node 3 for ever may have
//! a removed node go on, as the only one ([`crate::recovery`]).

use coeval_log::Removal;
use coeval_peers::Reason;

use super::Error;
use super::disk::Command;
use super::driver::Driver;

impl Driver {
    /// Notes whether another node has refused this one as removed.
    pub(super) fn look_whether_removed(&mut self) -> Result<(), Error> {
        if self.standing.removed_by().is_some() {
            return Ok(());
        }
        let peers = self.peers.status();
        let refused = |reason| reason == Some(Reason::Removed);
        let Some(by) = peers.iter().find(|peer| refused(peer.refusal)) else {
            return Ok(());
        };
        let own = self.consensus.id().0;
        let by = by.node;
        self.tell_disk(Command::Removed(Removal {
            node: own,
            by: by.0,
        }))?;
        if self.lead.is_some() {
            return Err(Error::Setting(format!(
                "node {} has removed this node from the cluster, which goes on without it: what \
                 this node has is not to be used. Add its machine with an empty directory and \
                 --cluster-join under a number that was never used",
                by.0
            )));
        }
        self.standing.note_removed(by);
        self.peer_set.note_removed();
        self.tell_peers();
        tracing::warn!(%by, "this node was removed from the cluster, and takes no part");
        self.show();
        Ok(())
    }
}
