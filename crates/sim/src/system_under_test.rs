//! The system under test of a simulation: a server, or the nodes of a cluster, each on
//! its own simulated machine.

use coeval_consensus::NodeId;
use coeval_env::sim::{Node, World};
use coeval_types::Term;
use coeval_workload::store::Table;

use crate::cluster_node::Member;
use crate::observe::ClusterObserver;
use crate::operator::Operator;
use crate::server::{Door, Phase, Server};
use crate::workload::CLIENTS;
use crate::{Options, Reads};

/// All servers of a run.
pub struct SystemUnderTest {
    /// The single server, or the nodes of a cluster in order.
    pub servers: Vec<Server>,
    /// Observer of the nodes of a cluster.
    pub observer: Option<ClusterObserver>,
    /// Where clients read.
    reads: Reads,
    /// Whether clients have machines of their own.
    is_remote: bool,
    operator: Operator,
}

impl SystemUnderTest {
    /// Creates the servers, without starting them.
    #[must_use]
    pub fn new(world: &World, options: &Options, tables: Option<&Vec<Table>>) -> Self {
        let engine = options.scenario.engine;
        let server = |node| {
            let (seed, validator) = (options.seed, options.validator);
            Server::new(engine, node, seed, tables.cloned(), validator).limited(options.scenario)
        };
        if engine.nodes() == 1 {
            return Self::alone(server(world.node()));
        }
        let observer = ClusterObserver::default();
        let members = Member::all(engine, &observer).into_iter();
        Self {
            servers: members
                .map(|member| server(world.node()).of_cluster(member))
                .collect(),
            observer: Some(observer),
            reads: Reads::draw(engine, options.seed),
            is_remote: engine.is_remote(),
            operator: Operator::new(engine.nodes() as u64),
        }
    }

    /// A system of one server without a cluster.
    #[must_use]
    pub fn alone(server: Server) -> Self {
        Self {
            servers: vec![server],
            observer: None,
            reads: Reads::AtLeader,
            is_remote: false,
            operator: Operator::new(1),
        }
    }

    /// Machines of the servers.
    #[must_use]
    pub fn machines(&self) -> Vec<Node> {
        self.servers.iter().map(|server| server.node).collect()
    }

    /// Whether the servers form a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.servers.len() > 1
    }

    /// Phase of each server, for people.
    #[must_use]
    pub fn phases(&self) -> String {
        let server = |server: &Server| format!("{} {:?}", server.number(), server.phase());
        self.servers
            .iter()
            .map(server)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Index of the cluster's leader in the newest term.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let servers = self.servers.iter().enumerate();
        let leading = servers.filter_map(|(at, server)| Some((server.leads()?, at)));
        leading.max().map(|(_, at)| at)
    }

    /// The newest term that has a leader.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.servers.iter().filter_map(Server::leads).max()
    }

    /// Notes that a server's disk may have lost or changed durable data.
    pub fn is_damaged(&self, server: usize) {
        if let Some(observer) = &self.observer {
            let property_checker = &observer.property_checker;
            property_checker.damaged(NodeId(self.servers[server].number()));
        }
    }

    /// Whether losing another disk leaves a majority of the disks with all acknowledged
    /// commits.
    #[must_use]
    pub fn can_lose_a_disk(&self) -> bool {
        self.is_cluster() && !self.operator.is_busy()
    }

    /// Loses a server's disk; a new node will start on an empty one.
    pub fn lose_disk(&mut self, server: usize) {
        let server = &mut self.servers[server];
        let old = server.number();
        if let Some(observer) = &self.observer {
            let property_checker = &observer.property_checker;
            property_checker.lost_its_disk(NodeId(old));
        }
        server.replace(self.operator.replace(old));
    }

    /// Whether a node that lost its disk has not been replaced yet.
    #[must_use]
    pub fn is_replacing(&self) -> bool {
        self.operator.is_busy()
    }

    /// Continues the replacement of a lost node.
    pub fn operate(&mut self, world: &World) {
        let leader = self.leader().map(|leader| &self.servers[leader]);
        self.operator.operate(world, leader);
    }

    /// Whether the database is available.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        match &self.servers[..] {
            [server] => server.phase() == Phase::Serving,
            _ => self.leader().is_some(),
        }
    }

    /// The connection of a client without a machine of its own, and the machine it runs
    /// on. In a cluster this is a node that believes to be the leader; if there are two,
    /// different clients get different ones. Over links a client connects to all servers,
    /// starting with the one of its own number. A client beyond [`CLIENTS`] reads on a node
    /// of its own.
    #[must_use]
    pub fn door(&self, client: usize) -> Option<(Node, Door)> {
        let count = self.servers.len();
        if self.is_cluster() && !self.is_remote && client >= CLIENTS {
            let server = &self.servers[(client - CLIENTS) % count];
            let is_there = server.phase() == Phase::Serving;
            return is_there.then(|| (server.node, server.door().at_home()));
        }
        let mut servers = (0..count).map(|more| &self.servers[(client + more) % count]);
        let server = match self.is_cluster() && !self.is_remote {
            true => servers.find(|server| server.leads().is_some())?,
            false => servers.next()?,
        };
        // Beyond the clients there are one that defines tables, and readers.
        let is_at_home = match client < CLIENTS {
            true => self.reads.at_home(client),
            false => client > CLIENTS,
        };
        let door = match self.is_remote && is_at_home {
            true => server.door().at_home(),
            false => server.door(),
        };
        Some((server.node, door))
    }
}
