//! A node of a cluster in the dock: its life, and how its clients use it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_leader::node::{Node, Observer, Place, Settings, Witness};
use coeval_leader::peers::{ClusterId, Identity, Members, NodeId, Security};
use coeval_server::settings::{ClusterMembers, OptionalClusterId};
use coeval_server::{Server, Storage};
use coeval_txn::{Definitions, Rows};
use coeval_types::{StorageDefinition, StorageId};
use coeval_workload::store::{Table, definitions};

use crate::Engine;
use crate::server::{Board, DATA, attached, refuse, reign, stop, take_part};
use crate::session::storage;

const CLUSTER: ClusterId = ClusterId(0x636F_6576);
/// Nodes listen for each other from the port behind this one on.
const PORT: u16 = 7000;
/// Longer than from one group of commits to the next.
const BATCH_INTERVAL: u64 = 15;

/// How often it is looked whether sessions run on a server.
const LOOK: Duration = Duration::from_millis(5);

/// Which node a server is.
#[derive(Clone, Debug)]
pub struct Member {
    /// From 1. That of a node that is gone is not used again.
    pub number: u64,
    /// Which of the machines it is on, from 1; a node that comes in another's place is on
    /// that one's.
    machine: u64,
    /// It has come in another's place.
    joins: bool,
    /// Those of all in the dock.
    numbers: Arc<Mutex<Vec<u64>>>,
    /// Sees every step of all of them.
    pub witness: Witness,
}

/// Where a node listens for others.
pub(crate) fn address(node: u64) -> SocketAddr {
    let port = PORT + u16::try_from(node).unwrap_or(u16::MAX);
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Member {
    /// The nodes of one cluster.
    #[must_use]
    pub fn all(engine: Engine, witness: &Witness) -> Vec<Self> {
        let founders: Vec<u64> = (1..=engine.nodes() as u64).collect();
        let numbers = Arc::new(Mutex::new(founders.clone()));
        let member = |number| Self {
            number,
            machine: number,
            joins: false,
            numbers: Arc::clone(&numbers),
            witness: witness.clone(),
        };
        founders.into_iter().map(member).collect()
    }

    /// A node that comes in this one's place, under a number that none had. From now on the
    /// settings of all name it, when they start.
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

    /// Which of the machines it is on, from 0.
    pub(crate) fn machine(&self) -> usize {
        self.machine as usize - 1
    }

    /// Where each node listens for the others.
    fn addresses(&self) -> BTreeMap<u64, SocketAddr> {
        let numbers = self.numbers.lock().expect("no panic while it was held");
        numbers.iter().map(|node| (*node, address(*node))).collect()
    }

    /// The settings of a whole server that is this node.
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

    fn place(&self) -> Place {
        let nodes = self.addresses().into_iter();
        let nodes = nodes.map(|(node, address)| (NodeId(node), address));
        Place {
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
        }
    }

    fn settings(&self, engine: coeval_occ::Settings, tables: Option<Vec<Table>>) -> Settings {
        // So little that followers are often sent what stands in files.
        let consensus = coeval_consensus::Settings {
            recent_space: 4 << 10,
            message_space: 2 << 10,
            ..coeval_consensus::Settings::default()
        };
        Settings {
            tick_milliseconds: 20,
            batch_interval_milliseconds: BATCH_INTERVAL,
            consensus,
            engine,
            definitions: Some(Arc::new(Known(tables))),
            observer: Some(Arc::new(self.witness.clone())),
            ..Settings::default()
        }
    }
}

/// What followers know of the tables, to keep their indexes: those of a load that has its
/// own, or the simulator's one.
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

/// The life of a node that is a whole server: it takes part, and while sessions run on it,
/// its engine stands on the board. Ends when the server stops by itself.
pub(crate) async fn serve(board: &Board, member: &Member, settings: coeval_server::Settings) {
    let observer: Arc<dyn Observer> = Arc::new(member.witness.clone());
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
    let standing = node.standing();
    let mut shown = None;
    let failed = running.failed();
    let mut failed = std::pin::pin!(failed);
    loop {
        let now = running.leads().then(|| standing.borrow().clone());
        let leads = now.and_then(|now| Some((now.engine?, now.term)));
        let term = leads.as_ref().map(|(_, term)| *term);
        if term != shown {
            shown = term;
            let leads = leads.map(|(engine, term)| (engine as _, Arc::clone(&node), term));
            reign(board, leads);
        }
        tokio::select! {
            biased;
            reason = &mut failed => return stop(board, reason),
            () = coeval_env::sleep(LOOK) => {}
        }
    }
}

/// A node's life: it takes part, and while it leads, its engine stands on the board with
/// the tables attached. Ends when the node does, or takes over with indexes that are not
/// what its records say.
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
    let mut standing = node.standing();
    let mut shown = None;
    loop {
        let now = standing.borrow_and_update().clone();
        if let Some(failure) = now.failure {
            return stop(board, failure.to_string());
        }
        let is_other = now.engine.as_ref().map(Arc::as_ptr) != shown.as_ref().map(Arc::as_ptr);
        if is_other {
            shown = now.engine.clone();
            // Sessions of the term before hear of it by themselves.
            reign(board, None);
            if let Some(followed) = now.engine {
                let engine: Arc<dyn coeval_txn::Engine> = Arc::clone(&followed) as _;
                if attached(&engine, tables.clone()).await.is_ok() {
                    if let Err(problem) = followed.check_indexes() {
                        return stop(board, problem);
                    }
                    drop(followed);
                    reign(board, Some((engine, Arc::clone(&node), now.term)));
                }
            }
        }
        if standing.changed().await.is_err() {
            return stop(board, "nobody says how it stands".to_owned());
        }
    }
}
