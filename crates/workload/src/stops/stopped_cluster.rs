//! A cluster of three processes, one of which is to be stopped.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_env as env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::SimpleQueryMessage;

use super::{Error, Options};
use crate::server::{self, Launch, Server, free_port};

const NODES: usize = 3;
/// Longest time that the cluster may take to get ready.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// What a node has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Reads that it executed from the state that it had.
    pub(super) reads: u64,
    /// Reads that it held.
    pub(super) held: u64,
    pub(super) ran_out: u64,
}

/// The processes, and which of them leads.
pub(super) struct Cluster {
    servers: Vec<Option<Server>>,
    launches: Vec<Launch>,
    admin: Vec<u16>,
    pub(super) leader: usize,
    pub(super) follower: usize,
    /// Removed when it is dropped.
    _folder: tempfile::TempDir,
}

impl Cluster {
    pub(super) async fn start(options: &Options) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let mut between = Vec::new();
        for node in 1..=NODES {
            between.push(format!("{node}=127.0.0.1:{}", free_port().await?));
        }
        let (mut launches, mut admin) = (Vec::new(), Vec::new());
        for node in 1..=NODES {
            let folder = folder.path().join(format!("node-{node}"));
            let port = free_port().await?;
            let mut launch = Launch::coeval(options.binary.clone(), &folder, port)?;
            admin.push(free_port().await?);
            for (name, value) in [
                (
                    "--cluster-id",
                    "0000000000000000000000000000000b".to_owned(),
                ),
                ("--cluster-node", node.to_string()),
                ("--cluster-members", between.join(",")),
                // A leader that a busy machine keeps waiting goes on to lead.
                ("--cluster-election-timeout-milliseconds", "2000".to_owned()),
                ("--admin-listen", format!("127.0.0.1:{}", admin[node - 1])),
            ] {
                launch.arguments.extend([name.to_owned(), value]);
            }
            launch.arguments.push("--cluster-found".to_owned());
            launch.arguments.extend(options.settings.iter().cloned());
            launches.push(launch);
        }
        let mut servers = Vec::new();
        for launch in &launches {
            servers.push(Some(launch.start()?));
        }
        let mut cluster = Self {
            servers,
            launches,
            admin,
            leader: 0,
            follower: 0,
            _folder: folder,
        };
        let first = cluster.servers.first_mut().and_then(Option::as_mut);
        let first = first.ok_or_else(|| Error::NotReady("there is no node".to_owned()))?;
        let connection = first.ready().await?;
        let leads = "SELECT leader FROM coeval.cluster_status";
        let answers = connection.simple_query(leads).await?;
        let leader = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse::<usize>().ok(),
            _ => None,
        });
        let leader = leader.filter(|leader| (1..=NODES).contains(leader));
        let leader = leader.ok_or_else(|| Error::NotReady("no node leads".to_owned()))?;
        cluster.leader = leader - 1;
        cluster.follower = leader % NODES;
        Ok(cluster)
    }

    pub(super) fn port(&self, node: usize) -> u16 {
        self.launches[node].port
    }

    pub(super) fn server(&self, node: usize) -> Result<&Server, Error> {
        let server = self.servers.get(node).and_then(Option::as_ref);
        server.ok_or_else(|| Error::NotReady("a node does not run".to_owned()))
    }

    /// Waits until a node executes reads of its clients itself.
    pub(super) async fn reads_there(&mut self, node: usize) -> Result<(), Error> {
        let began = env::now();
        let connection = match self.servers.get_mut(node).and_then(Option::as_mut) {
            Some(server) => server.ready().await?,
            None => return Err(Error::NotReady("a node does not run".to_owned())),
        };
        let any = "SET coeval.read_from = any";
        connection.simple_query(any).await?;
        while self.counts(node).await?.reads == 0 {
            if began.elapsed() > PATIENCE {
                return Err(Error::NotReady("the follower executes no reads".to_owned()));
            }
            connection.simple_query("SELECT 1").await?;
            env::sleep(POLL).await;
        }
        Ok(())
    }

    /// What a node has counted since it was started.
    pub(super) async fn counts(&self, node: usize) -> Result<Counts, Error> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.admin[node]));
        let mut stream = env::connect(address).await?;
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let count = |beginning: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(beginning));
            let value = lines.next().and_then(|line| line.rsplit_once(' '));
            value.and_then(|(_, value)| value.parse::<f64>().ok())
        };
        let there = |beginning: &str| {
            let value = count(beginning).map(|value| value as u64);
            value.ok_or_else(|| Error::NotReady(format!("the node counts no {beginning}")))
        };
        Ok(Counts {
            reads: there("coeval_reads_total{route=\"local\",stamp=\"none\"")?,
            held: there("coeval_any_read_hold_seconds_count")?,
            ran_out: there("coeval_any_read_holds_total{event=\"ran_out\"}")?,
        })
    }

    pub(super) async fn stop(&mut self) -> Result<(), server::Error> {
        for server in self.servers.iter_mut().filter_map(Option::take) {
            server.stop().await?;
        }
        Ok(())
    }
}
