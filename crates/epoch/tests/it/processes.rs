//! Nodes as processes of their own, ended by `kill -9`: nothing that was acknowledged is lost,
//! nothing is torn, and the service comes back.
//!
//! The test binary is the program: started with a directory in its environment it runs a node.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_env::Location;
use coeval_epoch::EpochTimestamp;
use coeval_epoch::client::{Client, ClientError, Settings, put};
use coeval_epoch::server::{Founding, Server, Settings as NodeSettings, found};
use coeval_peers::{ClusterId, NodeId};
use tempfile::TempDir;

use crate::client::{free_ports, in_runtime};

const DIRECTORY: &str = "EPOCH_NODE_DIRECTORY";
const CLIENTS: &str = "EPOCH_NODE_CLIENTS";
const LOST: &str = "EPOCH_NODE_LOST_MILLISECONDS";

/// Keys that are always written together, by one writer.
const GROUP: u64 = 6;
const WRITERS: u64 = 3;

/// Not a test by itself: the program of a node, if the environment names its directory.
#[test]
fn node_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let number = |name: &str| std::env::var(name).unwrap();
    let clients: SocketAddr = number(CLIENTS).parse().unwrap();
    let lost = number(LOST).parse().unwrap();
    // It ends with the test.
    drop(coeval_env::spawn_dedicated("watch the test", || async {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    }));
    in_runtime(async {
        let mut settings = NodeSettings::new(directory.into());
        settings.clients = Some(clients);
        settings.lost_milliseconds = lost;
        settings.absent_milliseconds = lost.max(30_000);
        settings.checkpoint_bytes = 20_000;
        let server = Server::start(settings).await.unwrap();
        println!("\nserves");
        server.ended().await.unwrap();
    });
}

/// Processes, and where each one's clients connect.
struct Cluster {
    directories: BTreeMap<NodeId, TempDir>,
    clients: BTreeMap<NodeId, SocketAddr>,
    running: BTreeMap<NodeId, Child>,
    lost_milliseconds: u64,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let all: Vec<NodeId> = self.running.keys().copied().collect();
        all.into_iter().for_each(|node| self.kill(node));
    }
}

impl Cluster {
    async fn found(count: u64, lost_milliseconds: u64) -> Self {
        let ports = free_ports(2 * count as usize).await;
        let cluster = ClusterId::draw();
        let port = |id: u64, of: u64| ports[(2 * (id - 1) + of) as usize];
        let location = |id| Location::new("127.0.0.1", port(id, 0)).unwrap();
        let members: BTreeMap<NodeId, Location> =
            (1..=count).map(|id| (NodeId(id), location(id))).collect();
        let mut directories = BTreeMap::new();
        for id in members.keys() {
            let directory = tempfile::tempdir().unwrap();
            let founding = Founding::new(cluster, *id, members.clone());
            found(directory.path(), &founding).await.unwrap();
            directories.insert(*id, directory);
        }
        let address = |id| SocketAddr::from(([127, 0, 0, 1], port(id, 1)));
        Self {
            directories,
            clients: (1..=count).map(|id| (NodeId(id), address(id))).collect(),
            running: BTreeMap::new(),
            lost_milliseconds,
        }
    }

    fn start(&mut self, node: NodeId) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::node_process", "--nocapture"])
            .env(DIRECTORY, self.directories[&node].path())
            .env(CLIENTS, self.clients[&node].to_string())
            .env(LOST, self.lost_milliseconds.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let serves = lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line == "serves");
        assert!(serves, "node {node} does not start");
        // The harness in the process ends it when it cannot say how long it has run.
        drop(coeval_env::spawn_dedicated("drain", move || async move {
            lines.for_each(drop);
        }));
        self.running.insert(node, child);
    }

    /// Ends a process by SIGKILL.
    fn kill(&mut self, node: NodeId) {
        if let Some(mut child) = self.running.remove(&node) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn settings(&self, nodes: &[NodeId]) -> Settings {
        let nodes = nodes.iter().map(|id| (*id, self.clients[id].into()));
        let mut settings = Settings::new(nodes);
        // The machine may be slow; no test waits for this.
        settings.patience = Duration::from_secs(120);
        settings
    }

    fn all(&self) -> Vec<NodeId> {
        self.directories.keys().copied().collect()
    }

    /// The node that manages, once one does.
    async fn manager(&self) -> NodeId {
        loop {
            for id in self.running.keys() {
                let status = Client::new(self.settings(&[*id])).status().await.unwrap();
                if status.contains("\nmanages 1\n") {
                    return *id;
                }
            }
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn key(writer: u64, key: u64) -> String {
    format!("writer {writer} key {key}")
}

fn keys(writer: u64) -> impl Iterator<Item = String> {
    (0..GROUP).map(move |number| key(writer, number))
}

/// What the writers have been told, and what readers have seen wrong.
#[derive(Debug, Default)]
struct Ledger {
    /// For each writer: the newest acknowledged value, with its timestamp.
    acknowledged: Mutex<BTreeMap<u64, (u64, EpochTimestamp)>>,
    writes: AtomicU64,
    reads: AtomicU64,
    unknown: AtomicU64,
    objections: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Ledger {
    fn newest(&self, writer: u64) -> u64 {
        let acknowledged = self.acknowledged.lock().unwrap();
        acknowledged.get(&writer).map_or(0, |(value, _)| *value)
    }

    /// Writes ascending numbers, the same under each key of the group.
    async fn write(self: Arc<Self>, client: Client, writer: u64) {
        for value in 1.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            let writes = keys(writer).map(|key| put(key, value.to_string()));
            match client.put_all(writes).await {
                Ok(at) => {
                    let mut acknowledged = self.acknowledged.lock().unwrap();
                    acknowledged.insert(writer, (value, at));
                    self.writes.fetch_add(1, SeqCst);
                }
                Err(ClientError::Unknown) => {
                    self.unknown.fetch_add(1, SeqCst);
                }
                Err(error) => return self.object(format!("writer {writer}: {error}")),
            }
        }
    }

    /// Reads a group, and judges what it finds.
    async fn read(&self, client: &Client, writer: u64) {
        let least = self.newest(writer);
        match client.get_all(keys(writer)).await {
            Ok(snapshot) => {
                let value = |key: String| {
                    let value = snapshot.value(key);
                    value.map_or(0, |value| String::from_utf8_lossy(value).parse().unwrap())
                };
                let values: Vec<u64> = keys(writer).map(value).collect();
                if values.iter().any(|value| *value != values[0]) {
                    self.object(format!(
                        "torn: writer {writer} at {}: {values:?}",
                        snapshot.at
                    ));
                } else if values[0] < least {
                    self.object(format!(
                        "lost: writer {writer}: {} after {least}",
                        values[0]
                    ));
                }
                self.reads.fetch_add(1, SeqCst);
            }
            Err(error) => self.object(format!("reader of {writer}: {error}")),
        }
    }

    async fn keep_reading(self: Arc<Self>, client: Client) {
        for round in 0.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            self.read(&client, round % WRITERS).await;
        }
    }

    fn object(&self, what: String) {
        self.objections.lock().unwrap().push(what);
    }

    /// Waits until so many more writes were acknowledged, and reads answered.
    async fn goes_on(&self) {
        let (writes, reads) = (self.writes.load(SeqCst), self.reads.load(SeqCst));
        while self.writes.load(SeqCst) < writes + 2 * WRITERS || self.reads.load(SeqCst) < reads + 3
        {
            assert_eq!(*self.objections.lock().unwrap(), [""; 0]);
            coeval_env::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Starts writers and readers, which use all nodes.
fn load(cluster: &Cluster) -> (Arc<Ledger>, Vec<coeval_env::JoinHandle<()>>) {
    let ledger = Arc::new(Ledger::default());
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let mut nodes = cluster.all();
        let count = nodes.len();
        nodes.rotate_left(writer as usize % count);
        let writes = Arc::clone(&ledger).write(Client::new(cluster.settings(&nodes)), writer);
        let reads = Arc::clone(&ledger).keep_reading(Client::new(cluster.settings(&nodes)));
        tasks.push(coeval_env::spawn("writer", writes));
        tasks.push(coeval_env::spawn("reader", reads));
    }
    (ledger, tasks)
}

/// Ends the load, kills everything, and looks at what is there after a start.
async fn judge(mut cluster: Cluster, ledger: Arc<Ledger>, tasks: Vec<coeval_env::JoinHandle<()>>) {
    ledger.is_over.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    for id in cluster.all() {
        cluster.kill(id);
    }
    for id in cluster.all() {
        cluster.start(id);
    }
    let client = Client::new(cluster.settings(&cluster.all()));
    for writer in 0..WRITERS {
        assert!(ledger.newest(writer) > 0);
        ledger.read(&client, writer).await;
    }
    assert_eq!(*ledger.objections.lock().unwrap(), [""; 0]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Whom {
    Manager,
    /// A node that does not manage. Clients are connected to it, and it holds the first copy of
    /// some partitions.
    Follower,
    All,
}

fn kills() -> usize {
    let count = std::env::var("EPOCH_KILLS")
        .ok()
        .and_then(|count| count.parse().ok());
    count.unwrap_or(2)
}

/// Kills and starts again, as often as the environment says, under load.
fn survives(whom: Whom) {
    in_runtime(async {
        // A copy that is away for a moment is waited for.
        let mut cluster = Cluster::found(3, 600_000).await;
        for id in cluster.all() {
            cluster.start(id);
        }
        let (ledger, tasks) = load(&cluster);
        for round in 0..kills() {
            ledger.goes_on().await;
            let manager = cluster.manager().await;
            let mut others = cluster.all();
            others.retain(|id| *id != manager);
            let victims = match whom {
                Whom::Manager => vec![manager],
                // Each writer's client begins at another node, so all have clients; each node
                // holds the first copy of partitions.
                Whom::Follower => vec![others[round % 2]],
                Whom::All => cluster.all(),
            };
            for id in &victims {
                cluster.kill(*id);
            }
            for id in &victims {
                cluster.start(*id);
            }
        }
        ledger.goes_on().await;
        judge(cluster, ledger, tasks).await;
    });
}

#[test]
fn the_manager_is_killed() {
    survives(Whom::Manager);
}

#[test]
fn a_follower_is_killed() {
    survives(Whom::Follower);
}

#[test]
fn all_are_killed() {
    survives(Whom::All);
}

/// A node that stays dead is fenced and removed: the others go on without it.
#[test]
fn the_others_go_on_without_a_dead_node() {
    in_runtime(async {
        let mut cluster = Cluster::found(3, 500).await;
        for id in cluster.all() {
            cluster.start(id);
        }
        let (ledger, tasks) = load(&cluster);
        ledger.goes_on().await;
        let manager = cluster.manager().await;
        cluster.kill(manager);
        ledger.goes_on().await;
        let next = cluster.manager().await;
        assert_ne!(next, manager);
        let status = Client::new(cluster.settings(&[next]))
            .status()
            .await
            .unwrap();
        assert!(status.contains("\nunavailable none\n"), "{status}");
        // It comes back as a front end, without copies.
        cluster.start(manager);
        ledger.goes_on().await;
        judge(cluster, ledger, tasks).await;
    });
}
