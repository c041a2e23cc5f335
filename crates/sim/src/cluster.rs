//! A node of a cluster in the dock: its life, and how its clients use it.

use std::net::SocketAddr;
use std::sync::Arc;

use coeval_leader::node::{Node, Place, Settings, Witness};
use coeval_leader::peers::{ClusterId, Identity, Members, NodeId, Security};
use coeval_workload::store::Table;

use crate::Engine;
use crate::server::{Board, DATA, attached, refuse, reign, stop, take_part};

const CLUSTER: ClusterId = ClusterId(0x636F_6576);
/// Nodes listen for each other from the port behind this one on.
const PORT: u16 = 7000;

/// Which node a server is.
#[derive(Clone, Debug)]
pub struct Member {
    /// From 1.
    pub number: u64,
    /// Sees every step of all of them.
    pub witness: Witness,
}

impl Member {
    /// The nodes of one cluster.
    #[must_use]
    pub fn all(engine: Engine, witness: &Witness) -> Vec<Self> {
        let member = |number| Self {
            number,
            witness: witness.clone(),
        };
        (1..=engine.nodes() as u64).map(member).collect()
    }

    fn place(&self) -> Place {
        let address = |node: u64| {
            let port = PORT + u16::try_from(node).unwrap_or(u16::MAX);
            SocketAddr::from(([127, 0, 0, 1], port))
        };
        let nodes = 1..=Engine::Cluster.nodes() as u64;
        Place {
            identity: Identity {
                cluster: CLUSTER,
                node: NodeId(self.number),
            },
            listen: address(self.number),
            members: Members {
                addresses: nodes.map(|node| (NodeId(node), address(node))).collect(),
                ..Members::default()
            },
            directory: DATA.into(),
            security: Security::Plain,
            join: false,
        }
    }

    fn settings(&self, engine: coeval_occ::Settings) -> Settings {
        // So little that followers are often sent what stands in files.
        let consensus = coeval_consensus::Settings {
            recent_space: 4 << 10,
            message_space: 2 << 10,
            ..coeval_consensus::Settings::default()
        };
        Settings {
            tick_milliseconds: 20,
            consensus,
            engine,
            observer: Some(Arc::new(self.witness.clone())),
            ..Settings::default()
        }
    }
}

/// A node's life: it takes part, and while it leads, its engine stands on the board with
/// the tables attached. Ends when the node does.
pub(crate) async fn live(
    board: &Board,
    member: &Member,
    engine: coeval_occ::Settings,
    tables: Option<Vec<Table>>,
) {
    let node = match Node::start(member.place(), member.settings(engine)).await {
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
            if let Some(engine) = now.engine {
                let engine: Arc<dyn coeval_txn::Engine> = engine;
                if attached(&engine, tables.clone()).await.is_ok() {
                    reign(board, Some((engine, Arc::clone(&node), now.term)));
                }
            }
        }
        if standing.changed().await.is_err() {
            return stop(board, "nobody says how it stands".to_owned());
        }
    }
}
