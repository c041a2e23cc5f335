//! A cluster of server processes on loopback, for workloads that need to know its nodes: who
//! leads, what each node counts, how it is killed, paused or cut off.
//!
//! ```text
//!   client ──▶ node 1 ──proxy──▶ node 2       each node reaches each other one by a
//!   client ──▶ node 2 ──proxy──▶ node 3       proxy of its own, if links are to fail
//!   scrape ──▶ node 1 /metrics
//! ```
//!
//! The fault harness ([`faults::harness`](crate::faults::harness)) makes its nodes by the same
//! functions, and adds faults of disk and clock, histories and judges.
#![expect(
    clippy::disallowed_methods,
    reason = "reads what the kernel says about real processes"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use coeval_env as env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::SimpleQueryMessage;

use crate::faults::proxy::{Policy, Proxy};
use crate::server::{self, Error, Launch, Server};

/// Identifier of the cluster.
const CLUSTER: &str = "000102030405060708090a0b0c0d0e0f";
/// How long one node is waited for when it is asked who leads.
const LOOK: Duration = Duration::from_millis(250);
/// Longest time until a cluster has a leader and all its nodes.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// Proxies through which a node reaches each of the others, by their places in the cluster.
pub(crate) type Ways = BTreeMap<usize, Proxy>;

/// Prepares one node of a cluster that is founded, without starting it. The nodes accept each
/// other's connections on the ports `between`; with `proxied`, each reaches the others through
/// proxies whose jitter this seed decides.
pub(crate) async fn place(
    binary: &Path,
    folder: &Path,
    node: usize,
    between: &[u16],
    proxied: Option<u64>,
) -> Result<(Launch, Ways), Error> {
    let mut ways = Ways::new();
    let mut members = Vec::new();
    for (other, port) in between.iter().enumerate() {
        let port = match proxied {
            Some(seed) if other != node => {
                let way = Proxy::start(*port, seed).await?;
                let port = way.port();
                ways.insert(other, way);
                port
            }
            _ => *port,
        };
        members.push(format!("{}=127.0.0.1:{port}", other + 1));
    }
    let mut launch = Launch::coeval(binary.to_owned(), folder, server::free_port().await?)?;
    for (name, value) in [
        ("--cluster-id", CLUSTER.to_owned()),
        ("--cluster-node", (node + 1).to_string()),
        ("--cluster-listen", format!("127.0.0.1:{}", between[node])),
        ("--cluster-members", members.join(",")),
    ] {
        launch.arguments.push(name.to_owned());
        launch.arguments.push(value);
    }
    launch.arguments.push("--cluster-found".to_owned());
    Ok((launch, ways))
}

/// The leader's place, according to the first of these nodes that answers; `None` if none of
/// them knows one.
pub(crate) async fn ask_who_leads<'l>(nodes: impl Iterator<Item = &'l Launch>) -> Option<usize> {
    const LEADER: &str = "SELECT node FROM coeval.cluster_members WHERE role = 'leader'";
    for launch in nodes {
        let answer = env::timeout(LOOK, async {
            let connection = crate::connect_to(launch.host, launch.port).await.ok()?;
            connection.simple_query(LEADER).await.ok()
        });
        let Ok(Some(answer)) = answer.await else {
            continue;
        };
        let node = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse::<usize>().ok(),
            _ => None,
        });
        if let Some(node) = node.and_then(|node| node.checked_sub(1)) {
            return Some(node);
        }
    }
    None
}

/// Every series of a node's metrics, and its value.
pub type Metrics = BTreeMap<String, f64>;

/// The sum of the series whose names begin so.
#[must_use]
pub fn sum(metrics: &Metrics, beginning: &str) -> f64 {
    let series = metrics.range(beginning.to_owned()..);
    let series = series.take_while(|(name, _)| name.starts_with(beginning));
    series.map(|(_, value)| value).sum()
}

/// Reads `/metrics` at this address.
///
/// # Errors
/// If the node does not answer there, or not with metrics.
pub async fn scrape(address: SocketAddr) -> io::Result<Metrics> {
    let mut stream = env::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer
        .split_once("\r\n\r\n")
        .filter(|(head, _)| head.starts_with("HTTP/1.1 200 "))
        .map(|(_, body)| body);
    let body = body.ok_or_else(|| io::Error::other(format!("{address} answers: {answer}")))?;
    Ok(series(body))
}

/// The series of an exposition in text.
fn series(body: &str) -> Metrics {
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    pairs.collect()
}

/// A node of the cluster.
#[derive(Debug)]
pub struct Node {
    launch: Launch,
    admin: SocketAddr,
    server: Option<Server>,
    ways: Ways,
}

/// A cluster of processes; see the [module](self).
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of nodes.
    pub nodes: usize,
    /// Whether nodes reach each other through proxies, so that they can be cut off, and the
    /// seed of those.
    pub proxied: Option<u64>,
    /// Further arguments of each server.
    pub arguments: Vec<String>,
    /// Environment variables of each server.
    pub environment: Vec<(String, OsString)>,
}

impl Cluster {
    /// Starts all nodes in this folder, and waits until they answer and one leads.
    ///
    /// # Errors
    /// If a node does not start or does not answer.
    pub async fn start(binary: &Path, folder: &Path, settings: &Settings) -> Result<Self, Error> {
        let mut between = Vec::new();
        for _ in 0..settings.nodes {
            between.push(server::free_port().await?);
        }
        let mut nodes = Vec::new();
        for node in 0..settings.nodes {
            let folder = folder.join(format!("node-{}", node + 1));
            let placed = place(binary, &folder, node, &between, settings.proxied);
            let (mut launch, ways) = placed.await?;
            let admin = SocketAddr::from(([127, 0, 0, 1], server::free_port().await?));
            let listen = ["--admin-listen".to_owned(), admin.to_string()];
            launch.arguments.extend(listen);
            launch.arguments.extend(settings.arguments.iter().cloned());
            launch
                .environment
                .extend(settings.environment.iter().cloned());
            nodes.push(Node {
                launch,
                admin,
                server: None,
                ways,
            });
        }
        let mut cluster = Self { nodes };
        cluster.ready().await?;
        Ok(cluster)
    }

    /// Starts the nodes that do not run, and waits until all answer, and the leader reaches
    /// all of them.
    ///
    /// # Errors
    /// If a node does not start or does not answer.
    pub async fn ready(&mut self) -> Result<(), Error> {
        // All are started first, because none answers without a majority.
        for node in self.nodes.iter_mut().filter(|node| node.server.is_none()) {
            node.server = Some(node.launch.start()?);
        }
        for server in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.server.as_mut())
        {
            drop(server.ready().await?);
        }
        let began = env::now();
        while began.elapsed() < PATIENCE {
            let leader = self.leader().await?;
            let reached = self.value(leader, "SELECT reachable_voters FROM coeval.cluster_status");
            if reached.await.as_deref() == Some(&*self.nodes.len().to_string()) {
                return Ok(());
            }
            env::sleep(POLL).await;
        }
        Err(waited("all nodes are reached by their leader"))
    }

    /// Number of nodes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The port on which clients reach a node.
    #[must_use]
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].launch.port
    }

    /// The process of a node; `None` while it does not run.
    #[must_use]
    pub fn process(&self, node: usize) -> Option<u32> {
        self.nodes[node].server.as_ref().map(Server::id)
    }

    /// The first value of a query through a node.
    pub async fn value(&self, node: usize, query: &str) -> Option<String> {
        let connection = crate::connect(self.port(node)).await.ok()?;
        let messages = connection.simple_query(query).await.ok()?;
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// The leader's place, as soon as a node that runs knows it.
    ///
    /// # Errors
    /// If none does in two minutes.
    pub async fn leader(&self) -> Result<usize, Error> {
        let began = env::now();
        while began.elapsed() < PATIENCE {
            let running = self.nodes.iter().filter(|node| node.server.is_some());
            let leader = ask_who_leads(running.map(|node| &node.launch)).await;
            if let Some(leader) = leader.filter(|leader| *leader < self.nodes.len()) {
                return Ok(leader);
            }
            env::sleep(POLL).await;
        }
        Err(waited("a node knows who leads"))
    }

    /// A node's metrics.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn metrics(&self, node: usize) -> io::Result<Metrics> {
        scrape(self.nodes[node].admin).await
    }

    /// Kills a node, which [`Cluster::ready`] starts again.
    ///
    /// # Errors
    /// If it had ended by itself.
    pub fn kill(&mut self, node: usize) -> Result<(), Error> {
        match self.nodes[node].server.take() {
            Some(server) => server.kill(),
            None => Ok(()),
        }
    }

    /// Pauses a node's process.
    ///
    /// # Errors
    /// If it cannot be sent a signal.
    pub fn pause(&self, node: usize) -> Result<(), Error> {
        self.nodes[node]
            .server
            .as_ref()
            .map_or(Ok(()), Server::pause)
    }

    /// Continues a node's process.
    ///
    /// # Errors
    /// If it cannot be sent a signal.
    pub fn resume(&self, node: usize) -> Result<(), Error> {
        self.nodes[node]
            .server
            .as_ref()
            .map_or(Ok(()), Server::resume)
    }

    /// Holds back everything between this node and the others, or lets it through again. Its
    /// clients reach it as before.
    pub fn cut_off(&self, node: usize, is_cut: bool) {
        let policy = Policy {
            requests_blocked: is_cut,
            answers_blocked: is_cut,
            ..Policy::default()
        };
        for (from, other) in self.nodes.iter().enumerate() {
            let ways = other.ways.iter();
            let ways = ways.filter(|(to, _)| from == node || **to == node);
            ways.for_each(|(_, way)| way.set(policy));
        }
    }

    /// Stops all nodes in order.
    ///
    /// # Errors
    /// If one does not stop.
    pub async fn stop(mut self) -> Result<(), Error> {
        for node in &mut self.nodes {
            if let Some(server) = node.server.take() {
                server.stop().await?;
            }
        }
        Ok(())
    }
}

fn waited(what: &str) -> Error {
    Error::Io(io::Error::other(format!(
        "waited {PATIENCE:?} in vain until {what}"
    )))
}

/// Resident memory of a process, in bytes.
///
/// # Errors
/// If there is no such process.
pub fn resident(process: u32) -> io::Result<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = statm.split_ascii_whitespace().nth(1);
    let pages = pages.and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("statm has no resident size"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_the_beginnings_of_their_names() {
        let read = series(
            "# HELP a\na{x=\"1\",y=\"\"} 2\na{x=\"1\",y=\"z\"} 3.5\na{x=\"2\",y=\"\"} 8\nb 1\n",
        );
        assert_eq!(read.len(), 4);
        assert!((sum(&read, "a{x=\"1\"") - 5.5).abs() < 1e-9);
        assert!((sum(&read, "a") - 13.5).abs() < 1e-9);
        assert!(sum(&read, "c").abs() < 1e-9);
    }

    #[test]
    fn this_process_occupies_memory() {
        assert!(resident(std::process::id()).unwrap() > 1 << 20);
    }

    #[tokio::test]
    async fn an_answer_that_has_no_metrics_is_an_error() {
        let listener = env::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        env::spawn("answer", async move {
            for answer in [
                "HTTP/1.1 503 Not yet\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\nup 1\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 64];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let refused = scrape(address).await.unwrap_err().to_string();
        assert!(refused.contains("503"), "{refused}");
        assert_eq!(
            scrape(address).await.unwrap()["up"].to_bits(),
            1.0_f64.to_bits()
        );
    }
}
