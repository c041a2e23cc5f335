//! What is in the dock: a server, or the nodes of a cluster, each on its machine.

use coeval_consensus::NodeId;
use coeval_env::sim::{Node, World};
use coeval_leader::node::Witness;
use coeval_types::Term;
use coeval_workload::store::Table;

use crate::Options;
use crate::cluster::Member;
use crate::operator::Operator;
use crate::server::{Door, Phase, Server};

/// Everything that serves in a run.
pub struct Dock {
    /// One, or the nodes of a cluster in order.
    pub servers: Vec<Server>,
    /// Of a cluster: who sees every step of its consensus.
    pub witness: Option<Witness>,
    /// Whether clients have machines of their own.
    is_remote: bool,
    operator: Operator,
}

impl Dock {
    /// Servers that have never run.
    #[must_use]
    pub fn new(world: &World, options: &Options, tables: Option<&Vec<Table>>) -> Self {
        let engine = options.scenario.engine;
        let server = |node| {
            let (seed, validator) = (options.seed, options.validator);
            Server::new(engine, node, seed, tables.cloned(), validator)
        };
        if engine.nodes() == 1 {
            return Self::alone(server(world.node()));
        }
        let witness = Witness::default();
        let members = Member::all(engine, &witness).into_iter();
        Self {
            servers: members
                .map(|member| server(world.node()).of_cluster(member))
                .collect(),
            witness: Some(witness),
            is_remote: engine.is_remote(),
            operator: Operator::new(engine.nodes() as u64),
        }
    }

    /// One that is no cluster's.
    #[must_use]
    pub fn alone(server: Server) -> Self {
        Self {
            servers: vec![server],
            witness: None,
            is_remote: false,
            operator: Operator::new(1),
        }
    }

    /// Their machines.
    #[must_use]
    pub fn machines(&self) -> Vec<Node> {
        self.servers.iter().map(|server| server.node).collect()
    }

    /// Whether there are several.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.servers.len() > 1
    }

    /// How far each server has come, for people.
    #[must_use]
    pub fn phases(&self) -> String {
        let server = |server: &Server| format!("{} {:?}", server.number(), server.phase());
        self.servers
            .iter()
            .map(server)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Of a cluster: who leads the newest term.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let servers = self.servers.iter().enumerate();
        let leading = servers.filter_map(|(at, server)| Some((server.leads()?, at)));
        leading.max().map(|(_, at)| at)
    }

    /// Of a cluster: the newest term that a node leads.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.servers.iter().filter_map(Server::leads).max()
    }

    /// A server's disk may not have any more what it had.
    pub fn is_damaged(&self, server: usize) {
        if let Some(witness) = &self.witness {
            witness.damaged(NodeId(self.servers[server].number()));
        }
    }

    /// Whether one more disk is a minority of those that have what was acknowledged.
    #[must_use]
    pub fn can_lose_a_disk(&self) -> bool {
        self.is_cluster() && !self.operator.is_busy()
    }

    /// A server's disk is empty; a new node begins on it.
    pub fn lose_disk(&mut self, server: usize) {
        let server = &mut self.servers[server];
        let old = server.number();
        if let Some(witness) = &self.witness {
            witness.lost_its_disk(NodeId(old));
        }
        server.replace(self.operator.replace(old));
    }

    /// Whether a node whose disk was lost is not replaced yet.
    #[must_use]
    pub fn is_replacing(&self) -> bool {
        self.operator.is_busy()
    }

    /// Goes on with replacing it.
    pub fn operate(&mut self, world: &World) {
        let leader = self.leader().map(|leader| &self.servers[leader]);
        self.operator.operate(world, leader);
    }

    /// Whether the database can be used.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        match &self.servers[..] {
            [server] => server.phase() == Phase::Serving,
            _ => self.leader().is_some(),
        }
    }

    /// How a client that lives on a server's machine gets to it, and which machine that is.
    /// Of a cluster, to a node that leads or thinks so: others to another, if there are
    /// two. Over links to all, whichever leads, and to that of the client's number first.
    #[must_use]
    pub fn door(&self, client: usize) -> Option<(Node, Door)> {
        let count = self.servers.len();
        let mut servers = (0..count).map(|more| &self.servers[(client + more) % count]);
        let server = match self.is_cluster() && !self.is_remote {
            true => servers.find(|server| server.leads().is_some())?,
            false => servers.next()?,
        };
        Some((server.node, server.door()))
    }
}
