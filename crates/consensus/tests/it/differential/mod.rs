//! The same schedules, played by this crate and by raft-rs: the same node leads in the
//! same term, all nodes have the same logs, commit points and members, and reads are
//! answered with the same place.
//!
//! The common part, all of it with preliminary votes and with leaders that step down when
//! they hear of no majority:
//!
//! - elections, on ways that are open, closed both ways or lost one way while it is on;
//! - replication, tails that are replaced, nodes that are parted, crash and come back;
//! - packets that are lost, late, repeated and out of order;
//! - members that come as learners or voters, are promoted, demoted and removed;
//! - leadership handed to a node that has everything, lacks something, cannot be heard, or
//!   has no vote;
//! - reads by rounds, of leaders that are followed and of some that have been deposed;
//! - checkpoints in place of the log, and followers that need one.
//!
//! What is on its way is delivered until nothing is left, between those that reach each
//! other, before anything is compared: how a follower finds out what it lacks takes other
//! messages here than there (FRS; a hint and a walk back).
//!
//! # What is not compared
//!
//! The two differ by design in this, so schedules keep out of it:
//!
//! | here | raft-rs | so |
//! | --- | --- | --- |
//! | a follower's patience is drawn | so it is, from another source | a schedule says who stands, and nobody else's patience counts |
//! | a term begins with a mark, which repeats the members | with an empty entry | these two are held to be the same; which messages find the end of a log that a leader shares is not looked at |
//! | members are in force when they are in the log | when they are committed | a change is made only where a majority of the old and of the new voters can be heard, so that it is committed before the next step |
//! | a second change before the first is committed is refused | takes the place of an empty entry | there is none |
//! | a leader that is left without its vote names a successor and follows | goes on leading | it hands over before it goes |
//! | a removed member is sent nothing more | is sent the change that removes it | a node that was removed is not looked at, never stands and never comes back |
//! | a new member learns from the log who takes part | begins with the first members | it is compared from its first entry on |
//! | a node that knows of no more than it has on disk forgets how much is committed | writes that down, too | commit points are compared where the node's leader can be heard |
//! | a checkpoint is of the place where the log was cut | of the commit point | logs are compared from where both have them |
//! | handing over is given up an election timeout after it was asked for | so it is, and the leader looks for its majority then | both leaders are ticked until they have just looked |
//! | a read of a leader that is deposed is refused | is forgotten | answers are compared, refusals are not |
//! | a read is confirmed by who answers its round or one behind it | by who answers the same round | of reads that wait for longer than their step one may be answered here or there only |
//!
//! # Whether it would find anything
//!
//! Each of these, put into this crate by hand, fails within the schedules of
//! [`schedules_end_alike`]: a learner that counts for a majority, in commits, in rounds of
//! reads or in elections; leadership handed over before the successor has everything;
//! proposals taken while it is; a read answered without its round; a checkpoint whose
//! members are forgotten; a leader that goes on without a majority; a vote for a shorter
//! log, or against a leader that is heard; a node with no vote that it knows of, which
//! takes its leader for alive as long as it hears of nobody.

mod ours;
mod play;
mod schedule;
mod theirs;
mod weather;

use std::collections::{BTreeMap, BTreeSet};

use coeval_consensus::Change;

use play::carry_out;
use schedule::{Scene, Step, next, parting};
use weather::{Chance, Way, Weather};

/// How long a voter holds its vote back after it has heard of a leader.
const ELECTION_TICKS: u32 = 10;

/// So many nodes that may be added, whatever the cluster begins with.
const SPARE: u64 = 4;

/// Numbers that a step has for its reads.
const READS: u64 = 100;

/// Nodes that reach each other: groups, each node in one.
type Groups = Vec<BTreeSet<u64>>;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// The first of its term.
    Begins,
    Payload(Vec<u8>),
    /// A change of members.
    Members,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    term: u64,
    leads: bool,
    serves: bool,
}

/// What can be seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    role: Role,
    /// How many entries a checkpoint stands for.
    base: u64,
    /// Those behind it, each with its term.
    log: Vec<(u64, What)>,
    commit: u64,
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Node {
    fn end(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// As if a checkpoint stood for all entries before.
    fn from(mut self, base: u64) -> Self {
        let gone = base.saturating_sub(self.base).min(self.log.len() as u64);
        self.log.drain(..gone as usize);
        self.base += gone;
        self
    }
}

/// A cluster that can be told what to do.
trait Player {
    /// Only nodes of one group hear each other from now on.
    fn part(&mut self, groups: &Groups);
    /// Nothing gets by these ways from now on.
    fn lose(&mut self, ways: &BTreeSet<Way>);
    /// A node hears nothing for so long that it would vote for somebody.
    fn forget_leader(&mut self, node: u64);
    /// A node's patience ends.
    fn stand(&mut self, node: u64);
    /// A tick of a node, and nothing more.
    fn tick(&mut self, node: u64);
    /// Whether it was taken.
    fn propose(&mut self, node: u64, payload: &[u8]) -> bool;
    fn read(&mut self, node: u64, context: u64);
    fn change(&mut self, node: u64, change: Change);
    fn transfer(&mut self, node: u64, to: u64);
    /// How many ticks until a transfer is given up and the leader has just looked for its
    /// majority.
    fn ticks_of_transfer(&self, node: u64) -> u32;
    fn compact(&mut self, node: u64);
    fn restart(&mut self, node: u64);
    /// What is on its way arrives, if it can, and so does what follows from that: so often,
    /// or until nothing is left. Whether nothing is.
    fn deliver(&mut self, weather: &mut Weather, rounds: usize) -> bool;
    /// Whether what another says comes to it.
    fn hears(&self, node: u64, other: u64) -> bool;
    fn role(&self, node: u64) -> Role;
    fn look(&self, node: u64) -> Node;
    /// What reads were answered.
    fn answers(&self) -> &BTreeMap<u64, u64>;
}

fn reaches(groups: &Groups, from: u64, to: u64) -> bool {
    groups
        .iter()
        .any(|group| group.contains(&from) && group.contains(&to))
}

/// What schedules came to.
#[derive(Default)]
struct Tally {
    committed: u64,
    terms: u64,
    reads: usize,
    changes: usize,
    transfers: usize,
    checkpoints: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.terms += other.terms;
        self.reads += other.reads;
        self.changes += other.changes;
        self.transfers += other.transfers;
        self.checkpoints += other.checkpoints;
    }
}

/// Both players, and what they were told.
struct Match {
    ours: ours::Ours,
    theirs: theirs::Theirs,
    scene: Scene,
    told: Vec<Step>,
    seed: u64,
    tally: Tally,
}

impl Match {
    fn new(voters: u64, seed: u64) -> Self {
        let nodes: Vec<u64> = (1..=voters + SPARE).collect();
        Self {
            ours: ours::Ours::new(voters, seed),
            theirs: theirs::Theirs::new(voters),
            scene: Scene {
                groups: vec![nodes.iter().copied().collect()],
                nodes,
                removed: Vec::new(),
            },
            told: Vec::new(),
            seed,
            tally: Tally::default(),
        }
    }

    fn play(&mut self, step: Step) {
        match &step {
            Step::Part { groups, .. } => self.scene.groups.clone_from(groups),
            Step::Change(leader, Change::Remove(node)) if self.ours.role(*leader).serves => {
                self.scene.nodes.retain(|other| *other != node.0);
                self.scene.removed.push(node.0);
            }
            _ => {}
        }
        self.tally.changes += usize::from(matches!(step, Step::Change(..)));
        let before = self.leader();
        let (read, nodes) = (READS * self.told.len() as u64, self.scene.nodes.clone());
        self.told.push(step);
        let step = self.told.last().expect("it was pushed");
        let here = carry_out(&mut self.ours, step, &nodes, read);
        let there = carry_out(&mut self.theirs, step, &nodes, read);
        assert_eq!(here, there, "what is taken, {}", self.story());
        if let Step::Transfer { to, .. } = step
            && before != Some(*to)
            && self.leader() == Some(*to)
        {
            self.tally.transfers += 1;
        }
        self.compare();
    }

    /// Who serves in the newest term.
    fn leader(&self) -> Option<u64> {
        let serving = self.scene.nodes.iter().filter_map(|node| {
            let role = self.ours.role(*node);
            role.serves.then_some((role.term, *node))
        });
        serving.max().map(|(_, node)| node)
    }

    fn compare(&mut self) {
        let nodes = self.scene.nodes.clone();
        let views: BTreeMap<u64, Node> = nodes
            .iter()
            .map(|node| (*node, self.ours.look(*node)))
            .collect();
        for (node, here) in &views {
            let (mut here, mut there) = (here.clone(), self.theirs.look(*node));
            let is_led = views.iter().any(|(leader, view)| {
                view.role.leads
                    && view.role.term == here.role.term
                    && reaches(&self.scene.groups, *leader, *node)
            });
            if !is_led {
                // Here a commit point is kept when something else is; there always.
                here.commit = 0;
                there.commit = 0;
            }
            if here.end() == 0 {
                // One has not been told who takes part.
                there.voters.clone_from(&here.voters);
                there.learners.clone_from(&here.learners);
            }
            let base = here.base.max(there.base);
            assert_eq!(
                here.from(base),
                there.from(base),
                "node {node}, {}",
                self.story()
            );
        }
        let (here, there) = (self.ours.answers(), self.theirs.answers());
        let begun = READS * (self.told.len() as u64 - 1);
        assert_eq!(
            here.range(begun..).collect::<Vec<_>>(),
            there.range(begun..).collect::<Vec<_>>(),
            "what reads see, {}",
            self.story()
        );
        let mut late = here.range(..begun);
        assert!(
            late.all(|(read, at)| there.get(read).is_none_or(|other| other == at)),
            "what reads see, {}",
            self.story()
        );
        self.tally.reads = self.ours.answers().len();
    }

    fn story(&self) -> String {
        format!(
            "seed {}: left this crate, right raft-rs, after\n{}",
            self.seed,
            self.told
                .iter()
                .map(|step| format!("  {step:?}\n"))
                .collect::<String>()
        )
    }

    /// Everybody hears everybody, and somebody leads: all members come to have the same.
    fn end(&mut self) {
        let everybody = vec![self.scene.nodes.iter().copied().collect()];
        self.play(parting(&self.scene, everybody, false));
        for node in self.scene.nodes.clone() {
            let view = self.ours.look(node);
            if self.leader().is_none() && view.voters.contains(&node) {
                self.play(Step::Elect {
                    node,
                    lost: BTreeSet::new(),
                    mixed: 0,
                });
            }
        }
        let leader = self.leader().expect("somebody can be elected");
        self.play(Step::Propose(leader, b"last".to_vec()));
        let last = self.ours.look(leader);
        assert_eq!(last.commit, last.end(), "{}", self.story());
        for node in last.voters.iter().chain(&last.learners) {
            let view = self.ours.look(*node);
            assert_eq!(
                (view.end(), view.commit, &view.voters, &view.learners),
                (last.end(), last.commit, &last.voters, &last.learners),
                "node {node}, {}",
                self.story()
            );
        }
        self.tally.committed = last.commit;
        self.tally.terms = last.role.term;
        self.tally.checkpoints = self.ours.checkpoints();
    }
}

/// Plays one schedule on both.
fn compare(voters: u64, seed: u64, steps: u32) -> Tally {
    let mut chance = Chance(seed);
    let mut both = Match::new(voters, seed);
    for _ in 0..steps {
        let step = next(&mut chance, &both.scene, &both.ours);
        both.play(step);
    }
    both.end();
    both.tally
}

/// Plays so many schedules, and holds them to have met everything often enough.
fn compare_all(count: u64) {
    let mut sum = Tally::default();
    for seed in 0..count {
        sum.add(&compare(if seed % 5 < 3 { 3 } else { 5 }, seed, 60));
    }
    println!(
        "{count} schedules: {} entries in {} terms, {} reads, {} changes, {} transfers, \
         {} checkpoints",
        sum.committed, sum.terms, sum.reads, sum.changes, sum.transfers, sum.checkpoints
    );
    let often = count as usize;
    assert!(sum.committed > 10 * count && sum.terms > 3 * count);
    assert!(sum.reads > 3 * often && sum.changes > 2 * often);
    assert!(sum.transfers > often / 2 && sum.checkpoints > often / 4);
}

#[test]
fn schedules_end_alike() {
    compare_all(300);
}

#[test]
#[ignore = "a search of minutes; the test above plays 300 such schedules in every suite"]
fn ten_thousand_schedules_end_alike() {
    compare_all(10_000);
}
