//! The simulated nodes, and the program that runs on each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coeval_consensus::FIRST_VERSION;
use coeval_env::sim::{Node as Machine, World};
use coeval_env::{JoinHandle, fs};
use coeval_leader::node::{
    Founding, NEWEST_VERSION, Node, NodeLocation, NodeStatus, Role, Settings,
};
use coeval_log::{HardState, ReplicaLog};
use coeval_occ::{Budget, Engine, FollowedTables, FollowerEngine};
use coeval_peers::{ClusterId, Identity, Members, NodeId, Security};
use coeval_types::{Lsn, Term};
use tokio::sync::watch;

use crate::bank;
use crate::judge::Shared;
use crate::table::{Work, attach};

pub const NODES: u64 = 3;
pub const TICK_MILLISECONDS: u64 = 20;
pub const CLUSTER: ClusterId = ClusterId(0xb4_4e);
pub const DIRECTORY: &str = "/data";

/// Small segments and blocks, so that rare events happen often.
pub fn engine_settings() -> coeval_occ::Settings {
    coeval_occ::Settings {
        log: coeval_log::Settings {
            segment_bytes: 16384,
            ring_bytes: 16384,
            frame_payload_bytes: 2048,
            recovery_threads: 1,
            checkpoint_block_bytes: 1000,
            ..coeval_log::Settings::default()
        },
        sweep_interval: Some(Duration::from_millis(200)),
        checkpoint_log_bytes: 24576,
        checkpoint_bytes_per_second: 200_000,
        ..coeval_occ::Settings::default()
    }
}

fn settings(judge: &Shared, start: &Start) -> Settings {
    let consensus = coeval_consensus::Settings {
        // Little memory, so that followers are often sent log that is read from files.
        entry_cache_bytes: 4096,
        message_space: 2048,
        ..coeval_consensus::Settings::default()
    };
    Settings {
        tick_milliseconds: TICK_MILLISECONDS,
        catch_up_milliseconds: 3000,
        // Longer than the time between two groups of commits.
        batch_interval_milliseconds: 15,
        cluster_version: start.reads,
        consensus,
        engine: coeval_occ::Settings {
            budget: start.budget,
            ..engine_settings()
        },
        follower_log_bytes: 16384,
        // Small frames, so that a checkpoint is sent in pieces.
        peers: coeval_peers::Settings {
            frame_bytes: 4352,
            ..coeval_peers::Settings::default()
        },
        definitions: Some(Arc::new(crate::table::Known)),
        observer: Some(Arc::new(judge.lock().property_checker.clone())),
        ..Settings::default()
    }
}

pub fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + node as u16))
}

fn place(start: &Start) -> NodeLocation {
    let node = start.number;
    let addresses = (1..=start.named.max(node)).map(|node| (NodeId(node), address(node).into()));
    NodeLocation {
        identity: Identity {
            cluster: CLUSTER,
            node: NodeId(node),
        },
        listen: address(node),
        members: Members {
            addresses: addresses.collect(),
            ..Members::default()
        },
        join: start.join,
        founding: start.founding.clone(),
        directory: DIRECTORY.into(),
        security: Security::Plain,
    }
}

/// The state of a node's program as the test sees it.
#[derive(Clone)]
pub struct Shown {
    node_status: NodeStatus,
    node: Weak<Node>,
}

/// How a node starts.
#[derive(Clone, Debug)]
pub struct Start {
    number: u64,
    join: bool,
    founding: Founding,
    /// The highest cluster version that the node says it reads.
    reads: u32,
    /// How many members its settings name.
    named: u64,
    budget: Budget,
}

/// A node's program: runs the node, and clients on it while it leads. Ends when `stop` is
/// set.
pub async fn live(
    start: Start,
    judge: Shared,
    shown: watch::Sender<Option<Shown>>,
    mut stop: watch::Receiver<bool>,
) {
    let number = start.number;
    let node = match Node::start(place(&start), settings(&judge, &start)).await {
        Ok(node) => Arc::new(node),
        Err(error) => return judge.lock().object(format!("node {number}: {error}")),
    };
    let mut node_status = node.node_status();
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    let mut engine: Option<Arc<Engine>> = None;
    let mut reader: Option<(Arc<FollowerEngine>, Aborts)> = None;
    loop {
        let now = node_status.borrow_and_update().clone();
        if let Some(failure) = &now.failure {
            return judge.lock().stopped(number, failure);
        }
        let is_new = now.engine.as_ref().map(Arc::as_ptr) != engine.as_ref().map(Arc::as_ptr);
        if is_new {
            engine = now.engine.clone();
            if let Some(engine) = &engine {
                let work = work(number, Arc::clone(engine), judge.clone());
                clients.push(coeval_env::spawn("clients", work));
            }
        }
        let is_read = reader.as_ref().map(|(reader, _)| Arc::as_ptr(reader));
        if now.reader.as_ref().map(Arc::as_ptr) != is_read {
            reader = now.reader.clone().map(|engine| {
                let reads = bank::read_follower(Arc::clone(&engine), judge.clone());
                // The seeds of runs in which followers may not ask are theirs.
                let asks = start.reads == NEWEST_VERSION;
                let reads = asks.then(|| coeval_env::spawn("follower reader", reads));
                (engine, Aborts(reads.into_iter().collect()))
            });
        }
        // The watcher may have gone.
        let _ = shown.send_replace(Some(Shown {
            node_status: now,
            node: Arc::downgrade(&node),
        }));
        tokio::select! {
            biased;
            changed = stop.changed() => if changed.is_err() || *stop.borrow() { break },
            changed = node_status.changed() => if changed.is_err() { break },
        }
    }
    clients.iter().for_each(JoinHandle::abort);
    for client in clients {
        let _ = client.await;
    }
    drop((engine, reader, shown, node_status));
    let node = loop {
        // The node's clients are dropped soon.
        coeval_env::sleep(Duration::from_millis(1)).await;
        let count = Arc::strong_count(&node);
        if count == 1 {
            break Arc::into_inner(node).expect("nobody else has it");
        }
    };
    if let Err(error) = node.stop().await {
        judge
            .lock()
            .object(format!("node {number} does not stop: {error}"));
    }
}

async fn work(number: u64, engine: Arc<Engine>, judge: Shared) {
    attach(&*engine);
    if let Err(objection) = engine.check_indexes() {
        return judge.lock().object(objection);
    }
    if bank::found(&engine).await.is_err() {
        return;
    }
    let transfers =
        (0..bank::CLIENTS).map(|_| bank::transfer(number, Arc::clone(&engine), judge.clone()));
    let mut all: Vec<_> = transfers
        .map(|client| coeval_env::spawn("client", client))
        .collect();
    all.push(coeval_env::spawn("reader", bank::read(engine, judge)));
    let _aborts = Aborts(all);
    std::future::pending::<()>().await;
}

struct Aborts(Vec<JoinHandle<()>>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Machines with their programs: the founders, and nodes that join later.
pub struct Cluster {
    pub world: Rc<World>,
    pub machines: Vec<Machine>,
    pub judge: Shared,
    shown: Vec<watch::Receiver<Option<Shown>>>,
    /// One per program: tasks that wait for the same channel wake in an order that no seed
    /// decides.
    stops: Vec<watch::Sender<bool>>,
    programs: Vec<JoinHandle<()>>,
    /// Founders whose disks were replaced.
    lost: BTreeSet<usize>,
    /// How founders found.
    pub founding: Founding,
    /// The highest cluster version that each node says it reads.
    pub reads: Vec<u32>,
    /// The memory budget of each node.
    pub budget: Budget,
    /// How many members the settings of each founder name.
    pub named: [u64; NODES as usize],
}

impl Cluster {
    /// A cluster at the first version, whose nodes found it at once.
    pub fn new(seed: u64) -> Self {
        let mut cluster = Self::prepared(seed);
        cluster.start_all();
        cluster
    }

    /// Starts the founders.
    pub fn start_all(&mut self) {
        for index in 0..NODES as usize {
            let (program, shown) = self.program(index);
            self.programs.push(program);
            self.shown.push(shown);
        }
    }

    /// The machines of a cluster, without programs.
    pub fn prepared(seed: u64) -> Self {
        let world = Rc::new(World::new(seed));
        let machines: Vec<Machine> = (0..NODES).map(|_| world.node()).collect();
        Self {
            world,
            machines,
            judge: Shared::default(),
            shown: Vec::new(),
            stops: (0..NODES).map(|_| watch::channel(false).0).collect(),
            programs: Vec::new(),
            lost: BTreeSet::new(),
            founding: Founding::AtOnce,
            reads: vec![FIRST_VERSION; NODES as usize],
            budget: Budget::UNLIMITED,
            named: [NODES; NODES as usize],
        }
    }

    fn program(&self, index: usize) -> (JoinHandle<()>, watch::Receiver<Option<Shown>>) {
        let (shows, shown) = watch::channel(None);
        let join = index as u64 >= NODES || self.lost.contains(&index);
        let start = Start {
            number: index as u64 + 1,
            join,
            founding: self.founding.clone(),
            named: self.named.get(index).copied().unwrap_or(NODES),
            budget: self.budget,
            reads: self
                .reads
                .get(index)
                .or(self.reads.first())
                .copied()
                .unwrap_or(1),
        };
        let live = live(
            start,
            self.judge.clone(),
            shows,
            self.stops[index].subscribe(),
        );
        (self.world.spawn(self.machines[index], live), shown)
    }

    /// Adds a machine, whose node waits to be added. Returns its id.
    pub fn join(&mut self) -> u64 {
        let index = self.machines.len();
        self.machines.push(self.world.node());
        self.stops.push(watch::channel(false).0);
        let (program, shown) = self.program(index);
        self.programs.push(program);
        self.shown.push(shown);
        index as u64 + 1
    }

    /// The node of a machine, if it runs. A caller keeps no handle while the node is being
    /// stopped.
    pub fn node(&self, index: usize) -> Option<Arc<Node>> {
        self.shown[index].borrow().as_ref()?.node.upgrade()
    }

    /// Starts a node's program again, after a crash.
    pub fn restart(&mut self, index: usize) {
        (self.programs[index], self.shown[index]) = self.program(index);
    }

    /// Gives a node that does not run a new disk with these files.
    pub async fn replace_disk(&self, index: usize, files: Vec<(PathBuf, Vec<u8>)>) {
        let machine = self.machines[index];
        self.world.replace_disk(machine);
        self.judge.lock().lose_disk(index as u64 + 1);
        let write = async move {
            for (path, bytes) in files {
                let folder = path.parent().expect("a file is in a directory");
                fs::create_dir_all(folder).await.expect("nothing fails now");
                let file = fs::open(&path, fs::OpenOptions::REPLACE).await;
                let file = file.expect("nothing fails now");
                file.write_at(&bytes, 0).await.expect("nothing fails now");
                file.sync_all().await.expect("nothing fails now");
                fs::sync_dir(folder).await.expect("nothing fails now");
            }
        };
        self.world
            .spawn(machine, write)
            .await
            .expect("nothing crashes now");
    }

    /// Starts a node's program on a new, empty disk, to join the cluster under its old id.
    pub fn restart_empty(&mut self, index: usize) {
        self.world.replace_disk(self.machines[index]);
        self.judge.lock().lose_disk(index as u64 + 1);
        self.lost.insert(index);
        self.restart(index);
    }

    /// Cuts a node off, or connects it again.
    pub fn cut_off(&self, index: usize, is_cut: bool) {
        let one = self.machines[index];
        for other in self.machines.iter().filter(|other| **other != one) {
            match is_cut {
                true => {
                    self.world.block(one, *other);
                    self.world.block(*other, one);
                }
                false => {
                    self.world.unblock(one, *other);
                    self.world.unblock(*other, one);
                }
            }
        }
    }

    pub fn node_status(&self, index: usize) -> Option<NodeStatus> {
        let shown = self.shown[index].borrow();
        shown.as_ref().map(|shown| shown.node_status.clone())
    }

    /// The node that leads the newest term, if one does.
    pub fn leader(&self) -> Option<usize> {
        let leading = (0..self.machines.len()).filter_map(|index| {
            let node_status = self.node_status(index)?;
            (node_status.role == Role::Leader).then_some((node_status.term, index))
        });
        leading.max().map(|(_, index)| index)
    }

    pub fn has_objections(&self) -> bool {
        !self.judge.lock().objections().is_empty()
    }

    /// Ends all programs in order.
    pub async fn stop(&mut self) {
        for stop in &self.stops {
            stop.send_replace(true);
        }
        for program in self.programs.drain(..) {
            if let Err(error) = program.await {
                self.judge
                    .lock()
                    .object(format!("a program ended by itself: {error}"));
            }
        }
    }

    /// The rows in a stopped node's tables, read by starting it as a leader on its own.
    pub fn rows(&self, index: usize) -> Vec<(u64, u64)> {
        let look = self.world.run(self.machines[index], look());
        look.expect("nothing crashes now")
    }
}

async fn look() -> Vec<(u64, u64)> {
    let tables = FollowedTables::new();
    let settings = engine_settings();
    let directory = Path::new(DIRECTORY);
    let opened = ReplicaLog::open(directory, None, settings.log.clone(), tables.replay());
    let (mut log, _) = opened.await.expect("it was closed in order");
    let commit: Lsn = log.hard_state().commit;
    log.truncate(commit)
        .await
        .expect("what is behind is not committed");
    let state = HardState {
        term: Term(log.hard_state().term.0 + 1),
        vote: None,
        commit,
    };
    log.set_hard_state(state).await.expect("a newer term");
    let log = log.lead(&[]).await.expect("nobody else does");
    let mark = log.marks().last().copied().expect("its own");
    log.set_committed(mark.end);
    let engine = Engine::lead(tables, log, settings).expect("sound settings");
    attach(&engine);
    let mut work = Work::read(&engine, coeval_txn::Isolation::SnapshotIsolation)
        .await
        .expect("it has just begun");
    let rows = work.all().expect("nobody ends it");
    drop(work);
    engine.close().await.expect("nothing fails now");
    rows
}
