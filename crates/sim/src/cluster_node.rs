//! A simulated cluster node: its process from start to end, and how clients reach its
//! engine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_env::Location;
use coeval_leader::node::{Founding, Node, NodeLocation, NodeStatus, Observer, Settings};
use coeval_peers::{ClusterId, Identity, Members, NodeId, Security};
use coeval_server::settings::{ClusterMembers, OptionalClusterId};
use coeval_server::{Server, Storage};
use coeval_txn::{Definitions, Rows};
use coeval_types::{StorageDefinition, StorageId};
use coeval_workload::store::{Table, definitions};

use crate::Engine;
use crate::client_session::storage;
use crate::observe::ClusterObserver;
use crate::server::{Board, DATA, attached, follows, refuse, serving_term, stop, take_part};

const CLUSTER: ClusterId = ClusterId(0x636F_6576);
/// Node `n` listens for the other nodes on this port plus `n`.
const PORT: u16 = 7000;
/// Longer than the interval between two group commits.
const BATCH_INTERVAL: u64 = 15;

/// Interval at which a server is polled for whether it accepts sessions.
const LOOK: Duration = Duration::from_millis(5);

/// Identity of a server as a node of the cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// Number of the node, from 1. The number of a removed node is not reused.
    pub number: u64,
    /// Number of the node's machine, from 1; a replacement node runs on the machine of
    /// its predecessor.
    machine: u64,
    /// Whether the node has joined as a replacement.
    joins: bool,
    /// Numbers of all current nodes.
    numbers: Arc<Mutex<Vec<u64>>>,
    /// Checks the consensus properties after every step of any node.
    pub observer: ClusterObserver,
}

/// Address on which a node listens for the others.
pub(crate) fn address(node: u64) -> SocketAddr {
    let port = PORT + u16::try_from(node).unwrap_or(u16::MAX);
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Member {
    /// The nodes of one cluster.
    #[must_use]
    pub fn all(engine: Engine, observer: &ClusterObserver) -> Vec<Self> {
        let founders: Vec<u64> = (1..=engine.nodes() as u64).collect();
        let numbers = Arc::new(Mutex::new(founders.clone()));
        let member = |number| Self {
            number,
            machine: number,
            joins: false,
            numbers: Arc::clone(&numbers),
            observer: observer.clone(),
        };
        founders.into_iter().map(member).collect()
    }

    /// A replacement for this node, under a new number. From now on the settings of every
    /// node include it, as of the node's next start.
    #[must_use]
    pub fn replaced(&self, number: u64) -> Self {
        let mut numbers = self.numbers.lock().expect("no panic while it was held");
        numbers.retain(|other| *other != self.number);
        numbers.push(number);
        Self {
            number,
            joins: true,
            ..self.clone()
        }
    }

    /// Index of the node's machine, from 0.
    pub(crate) fn machine(&self) -> usize {
        self.machine as usize - 1
    }

    /// Addresses on which the nodes listen for each other.
    fn addresses(&self) -> BTreeMap<u64, Location> {
        let numbers = self.numbers.lock().expect("no panic while it was held");
        let located = numbers.iter().map(|node| (*node, address(*node).into()));
        located.collect()
    }

    /// Settings of a whole server that is this node.
    pub(crate) fn of_server(&self, settings: coeval_server::Settings) -> coeval_server::Settings {
        coeval_server::Settings {
            cluster_node: self.number,
            cluster_id: OptionalClusterId(Some(CLUSTER)),
            cluster_members: ClusterMembers(self.addresses()),
            cluster_found: !self.joins,
            cluster_join: self.joins,
            cluster_election_timeout_milliseconds: 200,
            cluster_batch_interval_milliseconds: BATCH_INTERVAL,
            ..settings
        }
    }

    fn place(&self) -> NodeLocation {
        let nodes = self.addresses().into_iter();
        let nodes = nodes.map(|(node, location)| (NodeId(node), location));
        NodeLocation {
            identity: Identity {
                cluster: CLUSTER,
                node: NodeId(self.number),
            },
            listen: address(self.number),
            members: Members {
                addresses: nodes.collect(),
                ..Members::default()
            },
            directory: DATA.into(),
            security: Security::Plain,
            join: self.joins,
            founding: Founding::AtOnce,
        }
    }

    fn settings(&self, engine: coeval_occ::Settings, tables: Option<Vec<Table>>) -> Settings {
        // So small that the leader often has to read log for its followers from files.
        let consensus = coeval_consensus::Settings {
            entry_cache_bytes: 4 << 10,
            message_space: 2 << 10,
            ..coeval_consensus::Settings::default()
        };
        Settings {
            tick_milliseconds: 20,
            batch_interval_milliseconds: BATCH_INTERVAL,
            consensus,
            engine,
            definitions: Some(Arc::new(Known(tables))),
            observer: Some(Arc::new(self.observer.clone())),
            ..Settings::default()
        }
    }
}

/// Table definitions that followers use to maintain indexes: those of the load, or else
/// the simulator's own table.
#[derive(Debug)]
struct Known(Option<Vec<Table>>);

impl Definitions for Known {
    fn sources(&self) -> Vec<StorageId> {
        Vec::new()
    }

    fn read(&self, _: Rows<'_>) -> Result<Vec<StorageDefinition>, String> {
        let own = self.0.as_deref().map(definitions);
        Ok(own.unwrap_or_else(|| vec![storage()]))
    }
}

/// Runs a node that is a whole server, and publishes its engine on the board while the
/// server accepts sessions, and the one that reads its tables while it follows. Returns when the server stops by itself.
pub(crate) async fn serve(board: &Board, member: &Member, settings: coeval_server::Settings) {
    let observer: Arc<dyn Observer> = Arc::new(member.observer.clone());
    let settings = member.of_server(settings);
    let starting = Server::start_observed(settings, Storage::Directory, Some(observer));
    let running = match starting.await {
        Ok(running) => running,
        Err(error) => return refuse(board, error.to_string()),
    };
    let Some(node) = running.node() else {
        return refuse(board, "it is no node".to_owned());
    };
    take_part(board);
    let node_status = node.node_status();
    let mut shown = None;
    let failed = running.failed();
    let mut failed = std::pin::pin!(failed);
    loop {
        show_reader(board, &node_status.borrow());
        let now = running.leads().then(|| node_status.borrow().clone());
        let leads = now.and_then(|now| Some((now.engine?, now.term)));
        let term = leads.as_ref().map(|(_, term)| *term);
        if term != shown {
            shown = term;
            let leads = leads.map(|(engine, term)| (engine as _, Arc::clone(&node), term));
            serving_term(board, leads);
        }
        tokio::select! {
            biased;
            reason = &mut failed => return stop(board, reason),
            () = coeval_env::sleep(LOOK) => {}
        }
    }
}

/// Publishes the engine that reads a node's tables while it follows.
fn show_reader(board: &Board, now: &NodeStatus) {
    let reader = now.reader.clone();
    follows(board, reader.map(|reader| reader as _));
}

/// Runs a node, and publishes its engine with its tables on the board while the node is
/// the leader, and the one that reads them while it follows. Returns when the node stops, or when its indexes contradict its records at
/// the start of a term.
pub(crate) async fn live(
    board: &Board,
    member: &Member,
    engine: coeval_occ::Settings,
    tables: Option<Vec<Table>>,
) {
    let settings = member.settings(engine, tables.clone());
    let node = match Node::start(member.place(), settings).await {
        Ok(node) => Arc::new(node),
        Err(error) => return refuse(board, error.to_string()),
    };
    take_part(board);
    let mut node_status = node.node_status();
    let mut shown = None;
    loop {
        let now = node_status.borrow_and_update().clone();
        show_reader(board, &now);
        if let Some(failure) = now.failure {
            return stop(board, failure.to_string());
        }
        let is_other = now.engine.as_ref().map(Arc::as_ptr) != shown.as_ref().map(Arc::as_ptr);
        if is_other {
            shown = now.engine.clone();
            // Sessions of the previous term notice its end by themselves.
            serving_term(board, None);
            if let Some(followed) = now.engine {
                let engine: Arc<dyn coeval_txn::Engine> = Arc::clone(&followed) as _;
                if attached(&engine, tables.clone()).await.is_ok() {
                    if let Err(problem) = followed.check_indexes() {
                        return stop(board, problem);
                    }
                    drop(followed);
                    serving_term(board, Some((engine, Arc::clone(&node), now.term)));
                }
            }
        }
        if node_status.changed().await.is_err() {
            return stop(board, "the node's status is no longer published".to_owned());
        }
    }
}
