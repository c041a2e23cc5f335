//! A cluster node: assembles consensus, write-ahead log, engine and peer connections.
//!
//! ```text
//!   other nodes ◀──▶ peers ◀─messages─▶ driver ◀──▶ Consensus        (no thread, no I/O)
//!                                       │    ▲
//!                              commands │    │ what is done
//!                                       ▼    │
//!                                      disk ─┴─ ReplicaLog, or the engine's Log
//!                                       │
//!                                       └▶ replay ─▶ FollowedTables
//! ```
//!
//! The *driver* is a task that waits for the next event (a message, a tick, a finished
//! write, log that the engine appended), passes it to [`Consensus`], and after every
//! single step carries out the actions that consensus returns. The *disk* is a thread
//! that owns the log while the node follows, and executes its commands in order. *Replay*
//! is another thread, with workers of its own, which applies the log that the disk thread
//! has written.
//!
//! # Worked example
//!
//! Node 2 of three is elected in term 3. Its log ends at 4296.
//!
//! ```text
//!   consensus: leader, not serving; write 9 = mark 3 at 4296..4336
//!     disk     ReplicaLog::lead: the log has the mark, and accepts no commits yet
//!     driver   write 9 is reported when the log says that 4336 is flushed
//!   others: have the mark
//!   consensus: committed up to 4336; serving
//!     disk     finishes replay to 4296, most of which is done by now: Engine::lead with
//!              complete tables
//!     driver   Log::set_committed(4336): commits are accepted. The engine is published
//!   a client commits: a frame at 4336..4400
//!     driver   proposes the frame as the log holds it; write 10; the followers receive it
//!              while it goes to the disk here
//!   others: have it
//!   consensus: committed up to 4400: set_committed, and the client is answered
//! ```
//!
//! When the leader is deposed, the driver retires the engine
//! ([`coeval_occ::Engine::retire`]), cuts off the log that was never proposed, opens the
//! directory again as a follower, and continues with the actions of consensus, truncation
//! first.
//!
//! The leader answers read-only transactions once a majority has confirmed that it still
//! leads (`read_index`): a leader that is cut off from the others would not know. A follower
//! reads its own tables, after it has asked the leader up to where they must be replayed
//! (`questions`, `follower_reads`). A follower that did not run for a while has reads that do not
//! ask wait until it has caught up (`away`).
//!
//! A follower takes checkpoints of the committed state, as a leader does (`checkpoint`).
//! A follower whose log ends before the leader's log begins is sent a checkpoint
//! ([`Transfer`]).
//!
//! Administrators change the leader and the membership by requests to the leader
//! (`operation`). A node that joins with an empty disk votes once a leader has admitted
//! it (`admission`). A node that founds its cluster takes part once all founders have said
//! that they hold no log, and a directory that the cluster does not know takes no part
//! (`standing`); nor does a node that its cluster has removed (`removed`). What members write that older builds do not read waits for the cluster
//! version (`cluster_version`).
//!
//! # Invariants
//!
//! 1. *One frame is one entry* (decision 0024), on every node, whichever node sends it.
//! 2. *A write reported to consensus is on the disk*: the driver reports writes after the
//!    flush, a leader's writes when its own log is flushed past them.
//! 3. *Replayed log is in the log's files*, flushed or not, committed or not. Only
//!    committed entries become visible, in log order; and entries that a truncation
//!    removes have been undone before, while replay is paused.
//! 4. *Everything before a leader's mark is in its tables before the engine is
//!    published.*
//! 5. *One engine at a time*, and none in a term that this node knows to be over.
//! 6. *The set of peers that a node connects to follows from its log*, and from its
//!    settings only for nodes that the log does not know (`peer_set`).
//! 7. A node that cannot continue stops and reports the reason in its [`NodeStatus`]; it
//!    never waits for an event that will not happen.
//!
//! # Not here
//!
//! Filling tables outside the disk thread: a node that installs a
//! received checkpoint neither votes nor writes while it loads the tables, nor does a
//! deposed leader while it refills its own from checkpoint and log. Keeping the tables of
//! a deposed leader's engine.
//!
//! Sources: FRS (chapter 6) for taking over in three steps: the mark, replay beside it,
//! service; QuorumX for sending log to followers while the leader still writes it. The
//! split into a step function and a driver that carries out its actions is that of the
//! Raft libraries of etcd and TiKV.

mod admission;
mod alone;
mod apply_progress;
mod apply_ready;
mod away;
mod checkpoint;
mod cluster_version;
mod disk;
mod driver;
mod elections;
mod entries;
mod error;
mod follower_reads;
mod frames;
mod gathering;
mod lag;
mod lead;
mod member_lists;
mod node_status;
mod observer;
mod operation;
mod origin;
mod peer_set;
mod property_checker;
mod questions;
mod read_index;
mod removed;
mod replay;
mod room;
mod settings;
mod standing;
mod status;
mod transfer;
mod waiters;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use coeval_consensus::{Consensus, NodeId as Member, Restored};
use coeval_env::{JoinHandle, Location};
use coeval_log::{Removal, ReplicaCounters};
use coeval_peers::{Identity, Members, NodeId, PeerStream, Peers, Security, StreamError, Streams};
use coeval_types::planted;
use tokio::sync::{mpsc, oneshot, watch};

use apply_progress::Replayed;
use disk::{Beginning, Disk};
use driver::{Driver, Request};
use operation::AdminRequest;
use origin::Origins;
use peer_set::PeerSet;
use standing::{Standing, Start};

pub use apply_progress::ApplyProgress;
pub use away::{HoldCounts, PauseDetector};
pub use cluster_version::{
    NAMED_OBJECTS, NEWEST_VERSION, NODE_LOGINS, ROLE_SETTINGS, SESSION_MESSAGES, SQL_OBJECTS,
};
pub use elections::{Cause, Election};
pub use error::Error;
pub use lag::Lag;
pub use node_status::{NodeStatus, Role};
pub use observer::Observer;
pub use operation::OperationError;
pub use property_checker::PropertyChecker;
pub use questions::Counts as QuestionCounts;
pub use read_index::Counts as ReadIndexCounts;
pub use settings::Settings;
pub use status::{Link, MemberProgress, MemberStatus, Status};
pub use transfer::Transfer;

/// A node's identity, addresses and data directory.
#[derive(Clone, Debug)]
pub struct NodeLocation {
    /// Which node of which cluster. The cluster's id is also the id of its database.
    pub identity: Identity,
    /// Address at which the node listens for other nodes.
    pub listen: SocketAddr,
    /// Addresses of the nodes that this node knows, its own included. The nodes named
    /// when a cluster is founded vote; later the log determines the voters. A joining
    /// node names at least all current members.
    pub members: Members,
    /// With an empty directory the node founds no cluster, but waits to be added to one,
    /// under an id that no voter of that cluster has had. Such a newcomer votes when it
    /// has been admitted; a node that returns under the id of a voter after losing its
    /// disk is not admitted (`admission`).
    pub join: bool,
    /// How a node with an empty directory that does not join founds its cluster.
    pub founding: Founding,
    /// The node's data directory.
    pub directory: PathBuf,
    /// TLS and authentication of the node's connections.
    pub security: Security,
}

/// How a node with an empty directory founds its cluster (`standing`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Founding {
    /// It takes part at once. The caller knows that its disk was never lost: for worlds
    /// that lose none.
    AtOnce,
    /// It takes part once every other founder has said that it holds no log.
    Asked {
        /// Founders that are not asked: the administrator vouches for them.
        without: BTreeSet<NodeId>,
    },
}

/// A running node. Dropping it ends the node as a crash would.
#[derive(Debug)]
pub struct Node {
    requests: mpsc::UnboundedSender<Request>,
    node_status: watch::Receiver<NodeStatus>,
    streams: Streams,
    pauses: Arc<PauseDetector>,
    replica_log: Arc<ReplicaCounters>,
    driver: JoinHandle<()>,
}

impl Node {
    /// Opens or creates the directory, and joins the cluster. The caller is in a runtime.
    pub async fn start(place: NodeLocation, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let NodeLocation {
            identity,
            listen,
            members,
            join,
            founding,
            directory,
            security,
        } = place;
        if !members.addresses.contains_key(&identity.node) {
            return Err(Error::Setting(format!(
                "node {} is not among the members; name its own address, too",
                identity.node
            )));
        }
        let founders = members.addresses.keys().map(|node| Member(node.0));
        let founders = coeval_consensus::Membership::new(founders.filter(|_| !join), []);
        let asks = matches!(founding, Founding::Asked { .. });
        let beginning = Beginning {
            founders,
            join,
            asks,
            has_identity: asks || settings.cluster_version > coeval_consensus::FIRST_VERSION,
        };
        let replayed = Replayed::default();
        let replica_log = Arc::<ReplicaCounters>::default();
        let (disk, opened, done) = Disk::start(
            directory.clone(),
            identity.cluster.0,
            &settings,
            (beginning, replayed.clone(), Arc::clone(&replica_log)),
        );
        let opened = opened.await.map_err(|_| Error::Ended)??;
        let id = Member(identity.node.0);
        let restored = opened.restored;
        let origins = Origins::new(opened.origin, !restored.marks.is_empty());
        if let Some(observer) = settings.observer.as_ref().filter(|_| !opened.founds) {
            observer.started(id, &restored, &opened.entries);
        }
        let seed = coeval_env::random_u64();
        let of_consensus = coeval_consensus::Settings {
            batches_non_quorum: settings.batch_interval().is_some(),
            ..settings.consensus.clone()
        };
        // A node that founds takes no part before it has: it starts as a newcomer would.
        let first = Restored {
            newcomer: restored.newcomer || opened.founds,
            ..restored.clone()
        };
        let consensus = Consensus::new(id, of_consensus.clone(), &first, seed)?;
        let without = match founding {
            Founding::AtOnce => BTreeSet::new(),
            Founding::Asked { without } => without,
        };
        let is_newcomer = restored.newcomer;
        let founding = opened.founds.then(|| {
            let founders = members.addresses.keys().copied();
            let start = Start {
                restored,
                settings: of_consensus,
                seed,
            };
            let list = opened.founders.clone();
            standing::Founding::new(identity.node, founders, without, list, start)
        });
        let removal = opened.removal;
        let removal = removal.filter(|removal| removal.node == id.0 && !planted!(ForgetRemoval));
        if let Some(Removal { by, .. }) = removal {
            tracing::warn!(
                by,
                "this node was removed from the cluster, and takes no part"
            );
        }
        let peers = settings.peers.clone();
        let ever = opened.ever;
        let mut peer_set = PeerSet::new(
            identity.node,
            members.addresses,
            ever,
            &consensus,
            is_newcomer,
        );
        // A log whose version is higher than the setting was written by a build that reads it.
        let reads = consensus.status().membership.version();
        let reads = reads.max(settings.cluster_version);
        peer_set.introduce(reads, opened.identity, founding.is_some());
        if let Some(founders) = &opened.founders {
            // A node that was started to join after it had begun to found says nothing of that.
            if founders.is_done || founding.is_some() {
                peer_set.founded(founders);
            }
        }
        let in_force = consensus.status().membership;
        if in_force.version() > NEWEST_VERSION {
            return Err(Error::Setting(format!(
                "the log of node {} is of cluster version {}, and this build reads up to \
                 {NEWEST_VERSION}: start the build that wrote it, or a newer one",
                identity.node,
                in_force.version()
            )));
        }
        if removal.is_some() {
            peer_set.note_removed();
        }
        let standing = Standing::new(
            identity.node,
            (opened.identity, founding),
            removal.map(|removal| NodeId(removal.by)),
            &in_force,
        );
        let members = peer_set.members();
        let (peers, inbox) =
            Peers::start(identity, listen, members, security, peers, frames::KINDS).await?;
        let streams = peers.streams();
        let (requests, asked) = mpsc::unbounded_channel();
        let (shown, node_status) = watch::channel(NodeStatus::of(&consensus));
        let pauses = Arc::new(PauseDetector::new(settings.away(), settings.hold()));
        let driver = Driver::new(
            consensus,
            (standing, origins),
            (peers, peer_set),
            (disk, directory),
            shown,
            (replayed, Arc::clone(&pauses)),
            &settings,
        );
        let running = coeval_env::spawn("node", driver.run(inbox, done, asked));
        Ok(Self {
            requests,
            node_status,
            streams,
            pauses,
            replica_log,
            driver: running,
        })
    }

    /// The node's status, to be watched; it includes the engine while the node leads.
    #[must_use]
    pub fn node_status(&self) -> watch::Receiver<NodeStatus> {
        self.node_status.clone()
    }

    /// What notices that this process did not run, for reads of the state that the node has.
    #[must_use]
    pub fn pauses(&self) -> &PauseDetector {
        &self.pauses
    }

    /// What the node's copy of the leader's log has counted, while it was a copy.
    #[must_use]
    pub fn replica_log(&self) -> &ReplicaCounters {
        &self.replica_log
    }

    /// Opens a stream from this node to another member; see [`Streams`].
    pub async fn open_stream(&self, to: NodeId) -> Result<PeerStream, StreamError> {
        self.streams.open(to).await
    }

    /// The next stream that another member has opened, or `None` once this node has
    /// ended.
    pub async fn next_stream(&self) -> Option<(NodeId, PeerStream)> {
        self.streams.next().await
    }

    /// Streams with other members, for tasks that do not own the node. They end with the
    /// node.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.streams.clone()
    }

    /// Status of the node and of its connections and followers.
    pub async fn status(&self) -> Result<Status, Error> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Status(answer));
        asked.map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)
    }

    /// Secures new connections with other nodes like this; open ones stay.
    pub async fn secure(&self, security: Security) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Secure(security, answer));
        asked.map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)?
    }

    /// Transfers leadership to another voter and returns when that voter leads. The
    /// caller asks the node that leads; transactions that are committing meanwhile end in
    /// doubt. A caller that drops the future does not cancel the request, here as in the
    /// next two methods.
    pub async fn transfer(&self, to: NodeId) -> Result<(), OperationError> {
        self.operate(AdminRequest::Transfer(to)).await
    }

    /// Adds a node that listens at this location, or promotes a learner to voter. A new
    /// node is a learner until it has caught up. The caller asks the node that leads.
    pub async fn add(
        &self,
        node: NodeId,
        location: impl Into<Location>,
    ) -> Result<(), OperationError> {
        let request = AdminRequest::Add(node, location.into());
        self.operate(request).await
    }

    /// Removes a node. The caller asks the node that leads; a leader that removes itself
    /// first has another node elected, and continues as a non-member.
    pub async fn remove(&self, node: NodeId) -> Result<(), OperationError> {
        self.operate(AdminRequest::Remove(node)).await
    }

    async fn operate(&self, request: AdminRequest) -> Result<(), OperationError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Operate(request, answer));
        asked.map_err(|_| OperationError::Ended)?;
        answered.await.map_err(|_| OperationError::Ended)?
    }

    /// Shuts the node down in order: pending writes reach the disk, and the directory's
    /// lock is released.
    pub async fn stop(&self) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Stop(answer));
        asked.map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)?
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The optional observer of a node, shared by its driver and its disk thread.
type Watch = Option<Arc<dyn Observer>>;
