//! A node of a cluster: consensus, log, tables and connections put together.
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
//! The *driver* is a task that waits for whatever comes first (a message, a tick, a
//! finished write, log that the engine made), hands it to [`Consensus`], and carries out
//! what that hands out, after every single step. The *disk* is a thread that has the log
//! as long as the node follows, and does what it is told in order. *Replay* is another one,
//! with workers of its own, which reads behind the disk what is written.
//!
//! # Worked example
//!
//! Node 2 of three is elected in term 3. Its log ends at 4296.
//!
//! ```text
//!   consensus: leader, not serving; write 9 = mark 3 at 4296..4336
//!     disk     ReplicaLog::lead: the mark is in the log, and nothing else is taken
//!     driver   write 9 is reported when the log says that 4336 is flushed
//!   others: have the mark
//!   consensus: committed up to 4336; serving
//!     disk     replay to 4296, most of which it has done by now: Engine::lead with the
//!              tables that are whole
//!     driver   Log::set_committed(4336): commits are taken. The engine is shown to all
//!   a client commits: a frame at 4336..4400
//!     driver   proposes the frame as it stands in the log; write 10; the others get it
//!              while it goes to the disk here
//!   others: have it
//!   consensus: committed up to 4400: set_committed, and the client is answered
//! ```
//!
//! Deposed, it gives the engine up ([`coeval_occ::Engine::retire`]), takes away what the
//! log has beyond what was proposed, opens the directory again as a follower, and goes on
//! with what consensus says, truncation first.
//!
//! Those who only read are answered once a majority has confirmed that the node still leads
//! (`confirmations`): cut off from the others it would not know.
//!
//! A node that follows takes checkpoints of what is committed, as a leader does (`checkpoint`);
//! one whose log ends before what its leader still has is sent one ([`Transfer`]).
//!
//! Who leads and who takes part changes by what people ask of the leader (`operation`). Who
//! joins with nothing votes when a leader has admitted it (`admission`).
//!
//! # Invariants
//!
//! 1. *One frame is one entry* (decision 0024), on every node, whoever sends it.
//! 2. *What consensus is told to be on the disk is*: writes are reported after the flush,
//!    a leader's when its own log is flushed past them.
//! 3. *What is replayed is in the log's files*, flushed or not, committed or not. Only what
//!    is committed becomes visible, in the order of the log; and what a cut takes out of the
//!    log has been taken back before, while nothing is replayed.
//! 4. *Everything before a leader's mark is in its tables before anybody sees its engine.*
//! 5. *One engine at a time*, and none in a term that this node knows to be over.
//! 6. *Whom a node talks to follows from its log*, and from its settings only for those that
//!    the log does not know (`neighbours`).
//! 7. A node that cannot go on stops with a reason in its [`Standing`]; it does not wait
//!    for what will not come.
//!
//! # Not here
//!
//! Reads on followers. Filling tables beside the disk's thread: a node that puts a checkpoint
//! in force that it was sent neither votes nor writes while they are loaded, nor does a leader
//! that was deposed while it fills its own anew, from checkpoint and log; keeping the tables of
//! its engine instead. A disk that was lost is not noticed when its node is told to found its
//! cluster once more: then it counts for a founder that comes late.
//!
//! Sources: FRS (chapter 6) for taking over in three steps: the mark, the replay beside
//! it, service; QuorumX for sending log to the others while it is written here. The split
//! into a step function and what carries it out is that of the Raft libraries of etcd and
//! TiKV.

mod admission;
mod carry;
mod checkpoint;
mod confirmations;
mod disk;
mod driver;
mod elections;
mod entries;
mod error;
mod frames;
mod lead;
mod neighbours;
mod observer;
mod operation;
mod reached;
mod replay;
mod settings;
mod standing;
mod status;
mod transfer;
mod witness;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use coeval_consensus::{Consensus, NodeId as Member};
use coeval_env::JoinHandle;
use coeval_peers::{Identity, Members, NodeId, PeerStream, Peers, Security, StreamError, Streams};
use tokio::sync::{mpsc, oneshot, watch};

use disk::{Beginning, Disk};
use driver::{Driver, Request};
use neighbours::Neighbours;
use operation::Wish;
use reached::Replayed;

pub use confirmations::Counts as Confirmations;
pub use elections::{Cause, Election};
pub use error::Error;
pub use observer::Observer;
pub use operation::OperationError;
pub use reached::Reached;
pub use settings::Settings;
pub use standing::{Role, Standing};
pub use status::{Link, MemberProgress, MemberStatus, Status};
pub use transfer::Transfer;
pub use witness::Witness;

/// Where a node is, and whom it knows.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which node of which cluster. The cluster's id is also that of its database.
    pub identity: Identity,
    /// Where it listens for other nodes.
    pub listen: SocketAddr,
    /// Whom it knows, this node included. Whoever is there when a cluster is founded
    /// votes; later the log says who does. A node that joins names at least all members
    /// that there are then.
    pub members: Members,
    /// With an empty directory it founds no cluster, but waits to be added to one, under an
    /// id that no voter has had there. As a newcomer it votes when it has been admitted; one
    /// that comes back under the id of a voter, having lost its disk, is not (`admission`).
    pub join: bool,
    /// Its data directory.
    pub directory: PathBuf,
    /// What guards its connections.
    pub security: Security,
}

/// A running node. Dropped, it ends as if it had been killed.
#[derive(Debug)]
pub struct Node {
    requests: mpsc::UnboundedSender<Request>,
    standing: watch::Receiver<Standing>,
    streams: Streams,
    driver: JoinHandle<()>,
}

impl Node {
    /// Opens the directory, or makes it, and takes part. To be called in a runtime.
    pub async fn start(place: Place, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let Place {
            identity,
            listen,
            members,
            join,
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
        let beginning = Beginning { founders, join };
        let replayed = Replayed::default();
        let (disk, opened, done) = Disk::start(
            directory.clone(),
            identity.cluster.0,
            &settings,
            (beginning, replayed.clone()),
        );
        let opened = opened.await.map_err(|_| Error::Ended)??;
        let id = Member(identity.node.0);
        if let Some(observer) = &settings.observer {
            observer.started(id, &opened.restored, &opened.entries);
        }
        let seed = coeval_env::random_u64();
        let of_consensus = coeval_consensus::Settings {
            batches_unawaited: settings.batch_interval().is_some(),
            ..settings.consensus.clone()
        };
        let consensus = Consensus::new(id, of_consensus, &opened.restored, seed)?;
        let peers = settings.peers.clone();
        let neighbours = Neighbours::new(identity.node, members.addresses, opened.ever, &consensus);
        let members = neighbours.members();
        let (peers, inbox) =
            Peers::start(identity, listen, members, security, peers, frames::KINDS).await?;
        let streams = peers.streams();
        let (requests, asked) = mpsc::unbounded_channel();
        let (shown, standing) = watch::channel(Standing::of(&consensus));
        let driver = Driver::new(
            consensus,
            (peers, neighbours),
            (disk, directory),
            shown,
            replayed,
            &settings,
        );
        let running = coeval_env::spawn("node", driver.run(inbox, done, asked));
        Ok(Self {
            requests,
            standing,
            streams,
            driver: running,
        })
    }

    /// How it stands, to be watched; with its engine while it leads.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// A stream to another member; see [`Streams`].
    pub async fn open_stream(&self, to: NodeId) -> Result<PeerStream, StreamError> {
        self.streams.open(to).await
    }

    /// The next stream that another member has opened; none when this node has ended.
    pub async fn next_stream(&self) -> Option<(NodeId, PeerStream)> {
        self.streams.next().await
    }

    /// Streams with other members, for tasks that do not have the node. They end with it.
    #[must_use]
    pub fn streams(&self) -> Streams {
        self.streams.clone()
    }

    /// How it stands with all others.
    pub async fn status(&self) -> Result<Status, Error> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Status(answer));
        asked.map_err(|_| Error::Ended)?;
        answered.await.map_err(|_| Error::Ended)
    }

    /// Hands leadership to another voter, and says when that leads. Of this node, when it
    /// leads; what is being committed meanwhile is in doubt. Whoever does not wait for the
    /// answer does not keep it from happening, here as with the following two.
    pub async fn transfer(&self, to: NodeId) -> Result<(), OperationError> {
        self.operate(Wish::Transfer(to)).await
    }

    /// Adds a node that listens at this address, or gives one a vote that takes part without.
    /// It learns first, and votes as soon as it has caught up. Of this node, when it leads.
    pub async fn add(&self, node: NodeId, address: SocketAddr) -> Result<(), OperationError> {
        self.operate(Wish::Add(node, address)).await
    }

    /// Removes a node. Of this node, when it leads; if it is the one, another is asked to
    /// lead, and it goes on as one that takes no part.
    pub async fn remove(&self, node: NodeId) -> Result<(), OperationError> {
        self.operate(Wish::Remove(node)).await
    }

    async fn operate(&self, wish: Wish) -> Result<(), OperationError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.requests.send(Request::Operate(wish, answer));
        asked.map_err(|_| OperationError::Ended)?;
        answered.await.map_err(|_| OperationError::Ended)?
    }

    /// Ends in order: what is on its way to the disk gets there, and the directory is
    /// released.
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

/// Shared by what a node consists of.
type Watch = Option<Arc<dyn Observer>>;
