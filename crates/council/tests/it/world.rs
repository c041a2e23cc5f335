//! A cluster of councils on simulated machines, with a client on each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coeval_council::{Council, Error, NodeId, Settings, start};
use coeval_env::sim::{Node, World};

use crate::judge::{Judge, Numbers};
use crate::network::{Queues, serve};

/// Machines, and the councils that run on them.
pub struct Cluster {
    pub world: World,
    pub judge: Judge,
    pub machines: BTreeMap<NodeId, Node>,
    founders: Vec<NodeId>,
    /// Bytes of log after which snapshots are taken.
    pub snapshot_every: u64,
    starts: u64,
}

pub type Shown = Arc<std::sync::Mutex<Option<Council>>>;

impl Cluster {
    pub fn new(seed: u64, nodes: u64) -> Self {
        let world = World::new(seed);
        let machines = (1..=nodes).map(|node| (NodeId(node), world.node()));
        Self {
            machines: machines.collect(),
            founders: (1..=nodes).map(NodeId).collect(),
            judge: Judge::default(),
            snapshot_every: 256 << 10,
            starts: 0,
            world,
        }
    }

    /// Adds a machine that is to join.
    pub fn spare(&mut self, node: NodeId) {
        let machine = self.world.node();
        self.machines.insert(node, machine);
    }

    /// Starts a node, with a client that proposes while the node leads, if wanted.
    pub fn start(&mut self, node: NodeId, proposes: bool) -> Shown {
        self.starts += 1;
        let founders = match self.founders.contains(&node) {
            true => self.founders.clone(),
            false => Vec::new(),
        };
        let mut settings = Settings::new("/council".into(), 7, node, founders);
        settings.observer = Some(Arc::new(self.judge.clone()));
        settings.snapshot_every_bytes = self.snapshot_every;
        let shown = Shown::default();
        let shows = Arc::clone(&shown);
        let (judge, first) = (self.judge.clone(), self.starts * 1_000_000);
        drop(self.world.spawn(self.machines[&node], async move {
            let machine = Numbers::new(node, &judge);
            let council = match start(settings, machine, Queues::new(node)).await {
                Ok(council) => council,
                Err(error) => {
                    let what = format!("node {node} does not start: {error}");
                    return judge.seen().objections.push(what);
                }
            };
            *shows.lock().unwrap() = Some(council.clone());
            drop(coeval_env::spawn("serve", serve(node, council.clone())));
            if proposes {
                propose(council, judge, first).await;
            }
            std::future::pending::<()>().await;
        }));
        shown
    }

    /// The state that all of these nodes have come to, once one more proposal is on all.
    pub fn agree(&mut self, shown: &BTreeMap<NodeId, Shown>) -> Option<Vec<u64>> {
        let world = &self.world;
        world.block_on(async {
            for _ in 0..3000 {
                world.wait(Duration::from_millis(20)).await;
                if let Some(agreed) = self.agreed(shown) {
                    return Some(agreed);
                }
                for (node, shown) in shown {
                    let council = shown.lock().unwrap().clone();
                    let standing = council.as_ref().map(|council| council.standing());
                    let standing = standing.map(|standing| standing.borrow().clone());
                    if let (Some(council), Some(standing)) = (council, standing)
                        && standing.leads
                        && !self.has_last(*node)
                    {
                        drop(world.spawn(self.machines[node], async move {
                            let _ = council.propose(standing.term, entry(LAST)).await;
                        }));
                        world.wait(Duration::from_millis(200)).await;
                    }
                }
            }
            None
        })
    }

    fn has_last(&self, node: NodeId) -> bool {
        let seen = self.judge.seen();
        let state = seen.newest.get(&node);
        state.is_some_and(|(_, numbers)| numbers.contains(&LAST))
    }

    /// The state of all these nodes, if it is one, and has the last proposal.
    fn agreed(&self, shown: &BTreeMap<NodeId, Shown>) -> Option<Vec<u64>> {
        let seen = self.judge.seen();
        let mut states = shown.keys().map(|node| seen.newest.get(node));
        let (_, first) = states.next().flatten()?;
        let is_same =
            |state: Option<&(_, Vec<u64>)>| state.is_some_and(|(_, other)| other == first);
        (first.contains(&LAST) && states.all(is_same)).then(|| first.clone())
    }
}

/// The proposal with which a run ends.
const LAST: u64 = 999_999_999;

pub fn entry(number: u64) -> bytes::Bytes {
    let mut entry = number.to_le_bytes().to_vec();
    entry.resize(8 + (number % 200) as usize, 1);
    entry.into()
}

/// Proposes numbers while the node leads, and reports what became of each.
async fn propose(council: Council, judge: Judge, first: u64) {
    let standing = council.standing();
    for number in first.. {
        coeval_env::sleep(Duration::from_millis(10)).await;
        let (leads, term) = (standing.borrow().leads, standing.borrow().term);
        if !leads {
            continue;
        }
        let (council, judge) = (council.clone(), judge.clone());
        drop(coeval_env::spawn("propose", async move {
            let outcome = council.propose(term, entry(number)).await;
            let mut seen = judge.seen();
            match outcome {
                Ok(applied) => {
                    seen.kept.insert(number, applied.at.end);
                }
                Err(Error::Unknown | Error::Ended) => {}
                Err(_) => {
                    seen.lost.insert(number);
                }
            }
        }));
    }
}
