//! A random run of a cluster: events drawn from a seed, then convergence.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coeval_consensus::{Change, Membership, NodeId, Position, Ready, Role, Settings};
use coeval_types::Lsn;

use crate::message_cluster::{Cluster, Failure, Packet};

/// Relative speed of the nodes' clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Clocks tick in arbitrary order.
    Any,
    /// All nodes tick together, as a lease without drift assumes.
    Together,
    /// Each clock has its own offset. A leader's tick interval is longer than the others' by
    /// this many thousandths, the most that the lease allows.
    Drifting(u32),
}

impl Clocks {
    fn drift(self) -> bool {
        matches!(self, Self::Drifting(_))
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub voters: u64,
    pub spare: u64,
    pub steps: u32,
    pub seed: u64,
    pub settings: Settings,
    /// One in this many packets is any of those in flight, the others are among the oldest.
    pub one_in_is_late: u64,
    /// Whether leaders' clocks are slow, so that they do not notice when they are deposed.
    pub leaders_doze: bool,
    pub clocks: Clocks,
    /// Whether followers ask their leader for reads.
    pub asks: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub committed: usize,
    pub terms: u32,
    pub reads: usize,
    /// Number of questions of followers that were answered.
    pub asked: usize,
    /// Number of times that a node reported that reads need no round.
    pub certain: usize,
    /// Number of times that entries waited for non-quorum followers.
    pub waited: usize,
}

/// Why a run failed.
#[derive(Debug)]
pub enum Fault {
    Unsafe { step: u32, failure: Failure },
    StaleRead { step: u32, needed: Lsn, got: Lsn },
    Stuck(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsafe { step, failure } => write!(formatter, "at step {step}: {failure}"),
            Self::StaleRead { step, needed, got } => write!(
                formatter,
                "at step {step}: a read sees up to {got}, and {needed} was committed before it"
            ),
            Self::Stuck(how) => write!(formatter, "it does not come together: {how}"),
        }
    }
}

/// A seeded random number generator (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<Item: Copy>(&mut self, items: &[Item]) -> Item {
        items[self.below(items.len() as u64) as usize]
    }
}

struct RandomRun {
    cluster: Cluster,
    chance: Chance,
    plan: Plan,
    step: u32,
    /// Ordered pairs of nodes between which all packets are lost.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// The fully partitioned node, if there is one.
    parted: Option<NodeId>,
    /// The commit index when each read came.
    reads: BTreeMap<u64, Lsn>,
    answered: usize,
    /// Questions of followers that are under way.
    questions: BTreeSet<u64>,
    questions_asked: u64,
    questions_answered: usize,
    certain: usize,
    proposals: u64,
    /// The time, and when each node ticks next, if clocks drift.
    now: u64,
    next_ticks: BTreeMap<NodeId, u64>,
    /// The commit index when old leaders were last asked.
    asked: Lsn,
}

/// Runs a plan.
pub fn run(plan: &Plan) -> Result<Report, Fault> {
    let members = Membership::new((1..=plan.voters).map(NodeId), []);
    let spare: Vec<NodeId> = (1..=plan.spare).map(|n| NodeId(plan.voters + n)).collect();
    let mut run = RandomRun {
        cluster: Cluster::new(&members, &spare, plan.settings.clone(), plan.seed),
        chance: Chance(plan.seed),
        plan: plan.clone(),
        step: 0,
        cut: BTreeSet::new(),
        parted: None,
        reads: BTreeMap::new(),
        answered: 0,
        questions: BTreeSet::new(),
        questions_asked: 0,
        questions_answered: 0,
        certain: 0,
        proposals: 0,
        now: 0,
        next_ticks: BTreeMap::new(),
        asked: Lsn(0),
    };
    run.cluster.tells_commit = plan.seed.is_multiple_of(2);
    run.cluster.sends_to_all_every = plan.seed % 5;
    if plan.clocks.drift() {
        for node in run.cluster.names() {
            let first = run.chance.below(1000);
            run.next_ticks.insert(node, first);
        }
    }
    for step in 0..plan.steps {
        run.step = step;
        run.disturb()?;
        if plan.asks {
            run.ask_now_and_then()?;
        }
        run.look_who_is_certain()?;
        if plan.settings.lease.is_some() {
            run.ask_old_leaders()?;
        }
    }
    run.settle()?;
    let committed: Vec<_> = run.cluster.properties.committed().collect();
    Ok(Report {
        committed: committed.len(),
        terms: committed.last().map_or(0, |last| last.term.0),
        reads: run.answered,
        asked: run.questions_answered,
        certain: run.certain,
        waited: run.cluster.waited,
    })
}

impl RandomRun {
    fn committed_end(&self) -> Lsn {
        let last = self.cluster.properties.committed().last();
        last.map_or(Lsn(0), |position| position.end)
    }

    fn look(&mut self, ready: Result<Ready, Failure>) -> Result<(), Fault> {
        let step = self.step;
        let ready = ready.map_err(|failure| Fault::Unsafe { step, failure })?;
        for answer in ready.reads {
            let needed = self.reads.remove(&answer.context).unwrap_or_default();
            if let Ok(got) = answer.outcome {
                self.answered += 1;
                if got < needed {
                    return Err(Fault::StaleRead { step, needed, got });
                }
            }
        }
        let open = &mut self.questions;
        let answers = ready.asked.iter();
        let answered =
            answers.filter(|answer| open.remove(&answer.context) && answer.outcome.is_ok());
        self.questions_answered += answered.count();
        Ok(())
    }

    /// Has a node that follows a leader ask it for a read.
    fn ask(&mut self, node: NodeId) -> Result<(), Fault> {
        self.questions_asked += 1;
        let context = self.questions_asked;
        if self.cluster.ask(node, context) {
            self.questions.insert(context);
        }
        let ready = self.cluster.take(node);
        self.look(ready)
    }

    /// Has any node ask; and now and then partitions a leader, together with one other node
    /// that goes on asking it, from the rest.
    fn ask_now_and_then(&mut self) -> Result<(), Fault> {
        let names = self.cluster.names();
        if self.chance.one_in(100)
            && self.cut.is_empty()
            && let Some(leader) = self.cluster.serving()
        {
            let other = self.chance.pick(&names);
            let is_inside = |node: &NodeId| [leader, other].contains(node);
            let (inside, outside): (Vec<_>, Vec<_>) =
                names.iter().partition(|node| is_inside(node));
            for (one, two) in inside
                .iter()
                .flat_map(|one| outside.iter().map(move |two| (*one, *two)))
            {
                self.cut.extend([(one, two), (two, one)]);
            }
        }
        if self.chance.one_in(4) {
            let node = self.chance.pick(&names);
            self.ask(node)?;
        }
        Ok(())
    }

    /// Every follower's question is answered, once all faults are over.
    fn all_are_answered(&mut self, leader: NodeId) -> Result<(), Fault> {
        self.questions.clear();
        let before = self.questions_answered;
        let members = self
            .cluster
            .node(leader)
            .map(|node| node.status().membership);
        let members = members.iter().flat_map(|membership| membership.members());
        let followers: Vec<NodeId> = members.filter(|node| *node != leader).collect();
        for follower in &followers {
            self.ask(*follower)?;
        }
        for _ in 0..20 {
            self.everybody_once()?;
        }
        match self.questions_answered - before {
            count if count == followers.len() => Ok(()),
            count => Err(Fault::Stuck(format!(
                "{count} of {} followers have an answer",
                followers.len()
            ))),
        }
    }

    fn unsafe_if(&self, result: Result<(), Failure>) -> Result<(), Fault> {
        let step = self.step;
        result.map_err(|failure| Fault::Unsafe { step, failure })
    }

    /// Applies one random event.
    fn disturb(&mut self) -> Result<(), Fault> {
        let names = self.cluster.names();
        let node = self.chance.pick(&names);
        if self.plan.clocks.drift() {
            self.shake_leases()?;
        }
        if self.plan.leaders_doze && self.chance.one_in(60) {
            let leader = self.cluster.serving().unwrap_or(node);
            self.part(leader);
        }
        match self.chance.below(100) {
            0..45 => (0..3).try_for_each(|_| self.deliver_any()),
            45..65 => {
                let ticking = match self.plan.clocks {
                    Clocks::Any => vec![node, self.chance.pick(&names)],
                    Clocks::Together if !self.chance.one_in(4) => return Ok(()),
                    Clocks::Together => names,
                    Clocks::Drifting(drift) => vec![self.next_to_tick(drift)],
                };
                for node in ticking {
                    let leads = matches!(self.cluster.machine(node).role.role, Role::Leader { .. });
                    if self.plan.leaders_doze && leads && !self.chance.one_in(8) {
                        continue;
                    }
                    let ready = self.cluster.tick(node);
                    self.look(ready)?;
                }
                Ok(())
            }
            65..80 => {
                let count = 1 + self.chance.below(3) as usize;
                let ready = self.cluster.persist(node, count);
                self.look(ready)
            }
            // The partitioned node must keep the newest log, and so be electable.
            80..88 if !self.cut.is_empty() && self.plan.clocks.drift() => Ok(()),
            80..88 => self.propose(node),
            88..91 => self.read(node),
            91 => {
                // Cuts one link after the other, until all are healed again.
                if self.chance.one_in(3) {
                    self.cut.clear();
                    self.parted = None;
                } else {
                    self.cut.insert((node, self.chance.pick(&names)));
                }
                Ok(())
            }
            92 => {
                if self.chance.one_in(3) {
                    self.part(node);
                }
                Ok(())
            }
            93..95 => self.crash_or_start(node),
            95 => {
                let change = match self.chance.below(3) {
                    0 => Change::Learner(node),
                    1 => Change::Voter(node),
                    _ => Change::Remove(node),
                };
                if self.chance.one_in(2)
                    && let Some(leader) = self.cluster.serving()
                {
                    if let Some(consensus) = self.cluster.node(leader) {
                        // Refused if the change makes no sense.
                        let _ = consensus.change_membership(change);
                    }
                    let ready = self.cluster.take(leader);
                    self.look(ready)?;
                }
                Ok(())
            }
            96 => {
                if self.chance.one_in(3) {
                    self.cluster.compact(node);
                }
                Ok(())
            }
            97 => {
                if let Some(leader) = self.cluster.serving() {
                    if let Some(consensus) = self.cluster.node(leader) {
                        let _ = consensus.transfer(node);
                    }
                    let ready = self.cluster.take(leader);
                    self.look(ready)?;
                }
                Ok(())
            }
            _ => {
                if let Some(leader) = self.cluster.serving()
                    && let Some(consensus) = self.cluster.node(leader)
                {
                    let held_back = self.chance.one_in(4);
                    consensus.hold_back(node, held_back);
                }
                Ok(())
            }
        }
    }

    /// Events that a miscalculated lease does not survive: a leader is partitioned from one
    /// node, which campaigns; then it is partitioned from all, or a voter restarts.
    fn shake_leases(&mut self) -> Result<(), Fault> {
        let Some(leader) = self.cluster.serving() else {
            return Ok(());
        };
        let role = |node: NodeId| self.cluster.machines[&node].role.role;
        let names = self.cluster.names();
        let stands = |node: &NodeId| matches!(role(*node), Role::PreCandidate | Role::Candidate);
        if let Some(standing) = names.iter().copied().find(stands) {
            match self.chance.below(12) {
                0 => {
                    self.cut.clear();
                    self.part(leader);
                }
                1 => {
                    let others = names.iter().copied();
                    let other = others
                        .filter(|node| ![leader, standing].contains(node))
                        .min_by_key(|node| self.cluster.machines[node].node.is_none());
                    if let Some(other) = other {
                        let result = self.cluster.crash(other, usize::MAX, 0);
                        self.unsafe_if(result)?;
                        let result = self.cluster.start(other, false);
                        self.unsafe_if(result)?;
                    }
                }
                _ => {}
            }
        } else if self.chance.one_in(100) {
            let other = self.chance.pick(&names);
            if self.cut.is_empty() {
                self.cut.insert((leader, other));
                self.cut.insert((other, leader));
            } else if self.chance.one_in(2) {
                self.cut.clear();
                self.parted = None;
            }
        }
        Ok(())
    }

    /// Partitions one node from the rest; or heals all links, if some are cut. Packets that
    /// the node sends meanwhile may arrive afterwards, those sent to it are lost.
    fn part(&mut self, node: NodeId) {
        if !self.cut.is_empty() {
            self.cut.clear();
            self.parted = None;
            return;
        }
        self.parted = Some(node);
        for other in self.cluster.names() {
            self.cut.insert((node, other));
            self.cut.insert((other, node));
        }
    }

    /// Delivers a packet, once, twice or never.
    fn deliver_any(&mut self) -> Result<(), Fault> {
        if self.cluster.packets.len() > 300 {
            self.cluster.packets.drain(..100);
        }
        let count = self.cluster.packets.len() as u64;
        if count == 0 {
            return Ok(());
        }
        // Mostly among the oldest: late, but not all at random.
        let among = if self.chance.one_in(self.plan.one_in_is_late) {
            count
        } else {
            count.min(4)
        };
        let index = self.chance.below(among) as usize;
        let packet = &self.cluster.packets[index];
        if self.cut.contains(&(packet.from(), packet.to())) {
            // Lost; or late, until the link is healed.
            let is_lost = self.parted != Some(packet.from()) || self.chance.one_in(8);
            if is_lost {
                self.cluster.packets.remove(index);
            }
            return Ok(());
        }
        let packet = if self.chance.one_in(20) {
            packet.clone()
        } else {
            self.cluster.packets.remove(index)
        };
        if self.chance.one_in(25) {
            return Ok(());
        }
        let ready = self.cluster.deliver(packet);
        self.look(ready)
    }

    fn propose(&mut self, node: NodeId) -> Result<(), Fault> {
        // To the leader, or to any node, which may believe that it leads.
        let node = match self.cluster.serving() {
            Some(leader) if !self.chance.one_in(4) => leader,
            _ => node,
        };
        self.proposals += 1;
        let payload = Bytes::from(format!("entry {}", self.proposals));
        if let Some(consensus) = self.cluster.node(node) {
            let _ = consensus.propose(payload);
        }
        let ready = self.cluster.take(node);
        self.look(ready)
    }

    /// Advances the time until some node ticks, and returns that node.
    fn next_to_tick(&mut self, drift_per_mille: u32) -> NodeId {
        let next = self.next_ticks.iter().min_by_key(|(_, at)| **at);
        let (node, at) = next.map(|(node, at)| (*node, *at)).expect("nodes");
        self.now = at;
        let leads = matches!(self.cluster.machine(node).role.role, Role::Leader { .. });
        let longer = if leads { u64::from(drift_per_mille) } else { 0 };
        self.next_ticks.insert(node, self.now + 1000 + longer);
        node
    }

    /// Asks earlier leaders for a read, as soon as something is committed.
    fn ask_old_leaders(&mut self) -> Result<(), Fault> {
        let committed = self.committed_end();
        if committed <= self.asked {
            return Ok(());
        }
        self.asked = committed;
        let newest = self.cluster.serving();
        for node in self.cluster.names() {
            let role = self.cluster.machine(node).role.role;
            if Some(node) != newest && role == (Role::Leader { serving: true }) {
                self.read_at(node, (1 << 32) + u64::from(self.step) * 16 + node.0)?;
            }
        }
        Ok(())
    }

    /// Checks that a node that reports that a read needs no round has everything committed
    /// anywhere.
    fn look_who_is_certain(&mut self) -> Result<(), Fault> {
        let (step, needed) = (self.step, self.committed_end());
        for node in self.cluster.names() {
            if let Some(consensus) = self.cluster.node(node)
                && consensus.certain_ticks() > 0
            {
                self.certain += 1;
                let got = consensus.status().commit;
                if got < needed {
                    return Err(Fault::StaleRead { step, needed, got });
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, node: NodeId) -> Result<(), Fault> {
        let node = self
            .cluster
            .serving()
            .filter(|_| !self.chance.one_in(3))
            .unwrap_or(node);
        self.read_at(node, u64::from(self.step))
    }

    fn read_at(&mut self, node: NodeId, context: u64) -> Result<(), Fault> {
        let needed = self.committed_end();
        if let Some(consensus) = self.cluster.node(node)
            && consensus.read(context).is_ok()
        {
            self.reads.insert(context, needed);
        }
        let ready = self.cluster.take(node);
        self.look(ready)
    }

    fn crash_or_start(&mut self, node: NodeId) -> Result<(), Fault> {
        if self.cluster.machine(node).node.is_none() {
            let forgetful = self.chance.one_in(4);
            let result = self.cluster.start(node, forgetful);
            return self.unsafe_if(result);
        }
        if self.chance.one_in(4) {
            let done = self.chance.below(3) as usize;
            let parts = self.chance.below(5) as usize;
            let result = self.cluster.crash(node, done, parts);
            self.unsafe_if(result)?;
        }
        Ok(())
    }

    /// Ends all faults: a leader must be elected, and every node must receive its proposals.
    fn settle(&mut self) -> Result<(), Fault> {
        self.cut.clear();
        for node in self.cluster.names() {
            let machine = self.cluster.machine(node);
            if let Some(consensus) = &mut machine.node {
                for other in 0..=self.plan.voters + self.plan.spare {
                    consensus.hold_back(NodeId(other), false);
                }
            } else {
                let result = self.cluster.start(node, false);
                self.unsafe_if(result)?;
            }
        }
        let mut proposed: Option<Position> = None;
        for _ in 0..400 {
            self.everybody_once()?;
            let Some(leader) = self.cluster.serving() else {
                continue;
            };
            let Some(consensus) = self.cluster.node(leader) else {
                continue;
            };
            let status = consensus.status();
            match proposed {
                Some(Position { term, end }) if term == status.role.term => {
                    let together = status.membership.members().all(|member| {
                        self.cluster.machines[&member]
                            .node
                            .as_ref()
                            .is_some_and(|node| node.status().commit >= end)
                    });
                    if together {
                        return match self.plan.asks {
                            true => self.all_are_answered(leader),
                            false => Ok(()),
                        };
                    }
                }
                // The proposals to a leader that stepped down may be lost.
                _ => {
                    proposed = consensus.propose(Bytes::from_static(b"last")).ok();
                    let ready = self.cluster.take(leader);
                    self.look(ready)?;
                }
            }
        }
        let states: Vec<String> = self
            .cluster
            .machines
            .values()
            .filter_map(|machine| machine.node.as_ref())
            .map(|node| format!("\n  {:?}", node.status()))
            .collect();
        Err(Fault::Stuck(states.concat()))
    }

    /// Ticks every node once, and delivers all messages and writes that follow.
    fn everybody_once(&mut self) -> Result<(), Fault> {
        for node in self.cluster.names() {
            let ready = self.cluster.tick(node);
            self.look(ready)?;
        }
        for _ in 0..50 {
            let packets: Vec<Packet> = std::mem::take(&mut self.cluster.packets);
            let mut idle = packets.is_empty();
            for packet in packets {
                let ready = self.cluster.deliver(packet);
                self.look(ready)?;
            }
            for node in self.cluster.names() {
                idle &= self.cluster.machine(node).writes.is_empty();
                let ready = self.cluster.persist(node, usize::MAX);
                self.look(ready)?;
            }
            if idle {
                break;
            }
        }
        Ok(())
    }
}
