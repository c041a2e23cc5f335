//! A cluster in one thread: nodes as step functions, payloads between them, disks beside.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use coeval_epoch::comparator::{BackedFrontEnd, ComparatorNode, Control};
use coeval_epoch::{
    Answer, Configuration, Decision, Directory, Engine, Epoch, EpochNode, FrontEndId,
    FrontEndPlace, Key, LogFiles, LogWrite, Malformed, NodeId, Recovered, Rhythm, Start, Term,
    Turn, Write,
};
use coeval_measure::{Failure, Stopwatch, processor_time};
use tokio::sync::mpsc as unbounded;

/// Length of a tick.
const TICK: Duration = Duration::from_millis(1);
/// Ticks after which a node of epochs says again what was not answered. Nothing is lost here.
const SAY_AGAIN_TICKS: u32 = 100;

/// What runs on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Epochs, in this rhythm, with ticks of a millisecond.
    Epochs(Rhythm),
    /// Epochs, whose front ends have a backup each.
    Backed(Rhythm),
    /// A comparator.
    Other(Control),
}

/// A cluster to measure.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) nodes: u64,
    pub(crate) copies: u64,
    pub(crate) protocol: Protocol,
    /// Where to write the logs, if they are written.
    pub(crate) logs: Option<PathBuf>,
}

/// The configuration of a cluster: a partition, a back end and a front end on each node.
fn configuration(nodes: u64, copies: u64) -> Configuration {
    let copies =
        |partition: u64| (0..copies).map(move |copy| NodeId((partition + copy) % nodes + 1));
    let place = |node: u64| FrontEndPlace {
        node: NodeId(node),
        incarnation: 1,
        first: Epoch(1),
    };
    Configuration {
        partitions: (0..nodes)
            .map(|partition| copies(partition).collect())
            .collect(),
        back_ends: (1..=nodes).map(|node| (NodeId(node), 1)).collect(),
        front_ends: (1..=nodes)
            .map(|node| (FrontEndId(node as u8), place(node)))
            .collect(),
        // Some epochs' versions, so that they are collected as on a cluster that runs.
        history_epochs: 2,
        ..Configuration::default()
    }
}

/// A node of epochs, with a council that decides at once.
struct Epochs {
    node: EpochNode,
    directory: Directory,
    ticks: u32,
}

impl Engine for Epochs {
    fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        self.node.put_all(handle, writes);
    }

    fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        self.node.get_latest(handle, keys);
    }

    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed> {
        Engine::receive(&mut self.node, from, payload)
    }

    fn tick(&mut self) {
        self.ticks += 1;
        match self.ticks % SAY_AGAIN_TICKS {
            0 => self.node.tick(),
            _ => self.node.pass_time(),
        }
    }

    fn persisted(&mut self, number: u64) {
        self.node.persisted(number);
    }

    fn take(&mut self) -> Turn {
        let mut turn = Engine::take(&mut self.node);
        for decision in std::mem::take(&mut turn.proposals) {
            self.directory.decide(&decision);
            self.node.configure(&self.directory.configuration());
            self.node.proposal_ended();
        }
        turn
    }
}

fn engines(layout: &Layout) -> Vec<Box<dyn Engine>> {
    let configuration = configuration(layout.nodes, layout.copies);
    let directory = Directory::default();
    directory.decide(&Decision::Found(configuration));
    let shared = directory.configuration();
    let epochs = |node: u64, rhythm: Rhythm| {
        let mut started = EpochNode::start(Start {
            node: NodeId(node),
            incarnation: 1,
            front_end: Some(FrontEndId(node as u8)),
            back_end: Some(Recovered::default()),
        });
        started.configure(&shared);
        match node {
            1 => started.lead(Term(1), rhythm),
            _ => started.leader_is(Term(1), NodeId(1)),
        }
        Epochs {
            node: started,
            directory: directory.clone(),
            ticks: 0,
        }
    };
    let engine = |node: u64| -> Box<dyn Engine> {
        match layout.protocol {
            Protocol::Epochs(rhythm) => Box::new(epochs(node, rhythm)),
            Protocol::Backed(rhythm) => {
                let backup = NodeId(node % layout.nodes + 1);
                Box::new(BackedFrontEnd::new(epochs(node, rhythm), backup))
            }
            Protocol::Other(control) => {
                let id = FrontEndId(node as u8);
                Box::new(ComparatorNode::new(NodeId(node), id, control, &shared))
            }
        }
    };
    (1..=layout.nodes).map(engine).collect()
}

/// The disks of all nodes, on a thread of their own: one write and one sync at a time.
struct Disks {
    orders: unbounded::UnboundedSender<(usize, LogWrite)>,
    done: mpsc::Receiver<Result<(usize, u64), String>>,
}

impl Disks {
    fn start(folder: &Path, nodes: u64) -> Self {
        let (orders, mut ordered) = unbounded::unbounded_channel::<(usize, LogWrite)>();
        let (told, done) = mpsc::channel();
        let folder = folder.to_owned();
        drop(coeval_env::spawn_dedicated("disks", move || async move {
            let mut files = Vec::new();
            for node in 0..nodes {
                match LogFiles::open(&folder.join(format!("node-{node}"))).await {
                    Ok((opened, _)) => files.push(opened),
                    Err(error) => return drop(told.send(Err(error.to_string()))),
                }
            }
            while let Some((node, write)) = ordered.recv().await {
                let written = files[node].append(&write).await;
                let written = written.map(|()| (node, write.number));
                let failed = written.is_err();
                // The measurement may have ended.
                let _ = told.send(written.map_err(|error| error.to_string()));
                if failed {
                    return;
                }
            }
        }));
        Self { orders, done }
    }
}

/// See the module.
pub(crate) struct Net {
    nodes: Vec<Box<dyn Engine>>,
    links: VecDeque<(usize, usize, Bytes)>,
    disks: Option<Disks>,
    clock: Stopwatch,
    ticks: u32,
    /// Processor time of the nodes.
    busy: Duration,
}

impl Net {
    pub(crate) fn start(layout: &Layout) -> Self {
        Self {
            nodes: engines(layout),
            links: VecDeque::new(),
            disks: layout
                .logs
                .as_ref()
                .map(|folder| Disks::start(folder, layout.nodes)),
            clock: Stopwatch::start(),
            ticks: 0,
            busy: Duration::ZERO,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Processor time of the nodes so far.
    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Has a node's front end carry out a request.
    pub(crate) fn request(&mut self, node: usize, asked: impl FnOnce(&mut dyn Engine)) {
        let before = processor_time();
        asked(&mut *self.nodes[node]);
        self.busy += processor_time() - before;
    }

    /// Delivers all that there is, once, and returns the answers.
    pub(crate) fn step(&mut self) -> Result<Vec<(u64, Answer)>, Failure> {
        let before = processor_time();
        let due = u32::try_from(self.clock.elapsed().as_millis() / TICK.as_millis());
        let due = due.unwrap_or(u32::MAX);
        // However many are due, the rhythm counts them all.
        while self.ticks < due {
            self.ticks += 1;
            self.nodes.iter_mut().for_each(|node| node.tick());
        }
        for (from, to, payload) in std::mem::take(&mut self.links) {
            self.nodes[to].receive(NodeId(from as u64 + 1), payload)?;
        }
        if let Some(disks) = &self.disks {
            while let Ok(done) = disks.done.try_recv() {
                let (node, number) = done?;
                self.nodes[node].persisted(number);
            }
        }
        let mut answers = Vec::new();
        for index in 0..self.nodes.len() {
            loop {
                let turn = self.nodes[index].take();
                answers.extend(turn.answers);
                let payloads = turn.payloads.into_iter();
                self.links
                    .extend(payloads.map(|(to, payload)| (index, to.0 as usize - 1, payload)));
                if turn.writes.is_empty() {
                    break;
                }
                for write in turn.writes {
                    match &self.disks {
                        // A disk that has failed has said so.
                        Some(disks) => drop(disks.orders.send((index, write))),
                        None => self.nodes[index].persisted(write.number),
                    }
                }
                if self.disks.is_some() {
                    break;
                }
            }
        }
        self.busy += processor_time() - before;
        Ok(answers)
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.links.is_empty()
    }
}
