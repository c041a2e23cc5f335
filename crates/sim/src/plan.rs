//! Fault plans: which faults are injected when.
//!
//! A plan is a list of [`Fault`]s, drawn from the seed for a class and a length, before
//! the run begins. Each fault has a beginning and, if it lasts, an end; faults may
//! overlap. They are numbered, so that a run can be repeated with some of them only.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::workload::CLIENTS;
use crate::{Class, Engine};

/// A kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accident {
    /// The process is killed, and restarted when the fault ends.
    Kill,
    /// The power fails, and returns when the fault ends.
    Power,
    /// The nemesis requests a checkpoint, and the power fails during a later change of
    /// the disk, this many changes ahead, unless the fault ends before.
    PowerAt(u64),
    /// The machine is paused: none of its tasks is polled.
    Pause,
    /// Each fsync takes up to this long.
    SlowSync(Duration),
    /// The next fsync fails.
    FailSync,
    /// Every fsync fails while the fault lasts.
    FailSyncs,
    /// Every write to the disk fails while the fault lasts.
    FailWrites,
    /// The disk is full after this many more bytes.
    Full(u64),
    /// A durable bit is flipped in this part of the data directory.
    FlipBit(Part),
    /// A write to the disk, this many disk changes ahead, lands in the wrong sector.
    Misdirect(u64),
    /// The links of the server are degraded like this.
    Link(LinkKind, Packets),
    /// Links between the server and some peers are blocked, in one direction or both.
    Block {
        /// Positions of the affected peers; the others are not blocked. In a cluster
        /// these are first the other nodes, then clients with machines of their own.
        clients: Vec<usize>,
        /// Whether messages to the server are blocked.
        requests: bool,
        /// Whether messages from the server are blocked.
        answers: bool,
    },
    /// The links between the server and the leader are blocked, in one direction or both;
    /// all its other links work.
    CutFromLeader {
        /// Whether the leader's messages to the server are blocked.
        requests: bool,
        /// Whether the server's messages to the leader are blocked.
        answers: bool,
    },
    /// What the server sends to the other nodes takes this long.
    LateAnswers(Duration),
    /// Every connection to the server is reset.
    Reset,
    /// The server's clocks drift by this many parts per million.
    Drift(i64),
    /// The server's wall clock jumps by this many milliseconds.
    Jump(i64),
    /// The disk and all its data are lost, and the process is killed. When the fault
    /// ends, a new node starts on an empty disk. If another node that lost its disk has
    /// not been replaced yet, only the process is killed.
    LoseDisk,
}

/// A part of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Any file of the data directory.
    Any,
    /// The segments of the log.
    Log,
    /// The checkpoint files.
    Checkpoints,
}

impl Part {
    /// Whether the file belongs to this part.
    #[must_use]
    pub fn has(self, file: &Path) -> bool {
        let within = |directory: &str| {
            let mut parents = file.ancestors().skip(1);
            parents.any(|parent| parent.ends_with(directory))
        };
        match self {
            Self::Any => true,
            Self::Log => within("log"),
            Self::Checkpoints => within("checkpoints"),
        }
    }
}

/// How a link is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// High latency: tens of milliseconds, with a tail.
    Far,
    /// Every tenth segment sent over the link is lost.
    Lossy,
    /// Low bandwidth: a few kilobytes per second.
    Narrow,
    /// One segment in fifty breaks its connection.
    Breaking,
}

/// Faults of packets, beneath the byte streams that programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// No packet faults beyond those of the link.
    Plain,
    /// Many packets are duplicated, on a link of limited bandwidth.
    Repeated,
    /// Many packets are reordered.
    Reordered,
}

/// The nodes of a cluster that a fault affects; the leader is determined when the fault
/// begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The leader; the first node if there is none.
    Leader,
    /// A follower, counted from the leader on.
    Follower(usize),
    /// The node with this index.
    Node(usize),
    /// All nodes at once.
    All,
}

/// A fault with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the fault in the original plan.
    pub number: usize,
    /// Start time, from the start of the clients.
    pub at: Duration,
    /// Duration of the fault.
    pub lasts: Duration,
    /// Kind of the fault.
    pub accident: Accident,
    /// Affected nodes, if there are several nodes.
    pub on: Option<Victim>,
    /// For a leader: whether the fault ends early, once another node is elected.
    pub until_election: bool,
    /// For a cluster: whether an affected leader is requested to take a checkpoint a
    /// moment later.
    pub checkpoint: bool,
    /// For a cluster: whether the fault waits until a follower's question to its leader is
    /// under way.
    pub when_asked: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "fault {} at {} ms for {} ms: {:?}",
            self.number,
            self.at.as_millis(),
            self.lasts.as_millis(),
            self.accident
        )?;
        if let Some(victim) = self.on {
            write!(formatter, " on {victim:?}")?;
        }
        if self.until_election {
            formatter.write_str(", or until another leads")?;
        }
        if self.when_asked {
            formatter.write_str(", when a follower asks")?;
        }
        match self.checkpoint {
            true => formatter.write_str(", with a checkpoint"),
            false => Ok(()),
        }
    }
}

/// Draws the plan of a run.
#[must_use]
pub fn draw(class: Class, seed: u64, length: Duration) -> Vec<Fault> {
    // A random stream other than the world's.
    let mut random = StdRng::seed_from_u64(seed ^ 0x706C_616E);
    // Another stream than the plan's, so that drawing from it changes no other fault.
    let mut of_packets = StdRng::seed_from_u64(seed ^ 0x7061_636B);
    let mut faults = Vec::new();
    let mut at = Duration::ZERO;
    let is_calm = match class {
        Class::None | Class::Ddl => true,
        // Of the seeds of either mode every other one.
        Class::Memory => (seed / 2).is_multiple_of(2),
        _ => false,
    };
    if is_calm {
        return faults;
    }
    loop {
        // A short run has at least one fault in its first half.
        let half = u64::try_from(length.as_millis() / 2).unwrap_or(u64::MAX);
        let most = match faults.is_empty() {
            true => half.clamp(100, 1500),
            false => 1500,
        };
        at += between(&mut random, 100, most);
        if at >= length {
            return faults;
        }
        let (mut accident, lasts) = accident(class, &mut random);
        if let Accident::Link(_, packets) = &mut accident {
            *packets = match of_packets.random_range(0..3) {
                0 => Packets::Plain,
                1 => Packets::Repeated,
                _ => Packets::Reordered,
            };
        }
        let then_power = matches!(accident, Accident::FlipBit(_) | Accident::Misdirect(_));
        faults.push(Fault {
            number: faults.len(),
            at,
            lasts,
            accident,
            on: None,
            until_election: false,
            checkpoint: false,
            when_asked: false,
        });
        if then_power {
            // Late enough for the log to have reported the damaged data as durable.
            at += between(&mut random, 300, 1500);
            faults.push(Fault {
                number: faults.len(),
                at,
                lasts: between(&mut random, 10, 500),
                accident: Accident::Power,
                on: None,
                until_election: false,
                checkpoint: false,
                when_asked: false,
            });
        }
    }
}

/// Assigns each fault to nodes of a cluster.
///
/// Damage is assigned to one node only: with two damaged copies out of three, the third
/// has no majority. A full or lost disk also affects one node only.
///
/// Half of the faults on leaders end when another node is elected. That is when a deposed
/// leader returns with log entries that no other node has, and its delayed messages
/// arrive: randomly drawn durations hardly ever match that of an election. And half of
/// all faults occur during a checkpoint, which must not cover entries that only the
/// leader has.
pub fn among_nodes(plan: &mut [Fault], engine: Engine, class: Class, seed: u64) {
    let nodes = engine.nodes();
    let neighbours = nodes - 1 + if engine.is_remote() { CLIENTS } else { 0 };
    let mut random = StdRng::seed_from_u64(seed ^ 0x6E6F_6465);
    let damaged = random.random_range(0..nodes);
    // Other streams, so that drawing from them changes no other fault.
    let mut of_disks = StdRng::seed_from_u64(seed ^ 0x6469_736B);
    let mut of_leaders = StdRng::seed_from_u64(seed ^ 0x6C65_6164);
    let mut of_questions = StdRng::seed_from_u64(seed ^ 0x6173_6B73);
    for fault in plan {
        if class == Class::All && fault.accident == Accident::Kill && of_disks.random_ratio(1, 3) {
            fault.accident = Accident::LoseDisk;
        }
        let node = random.random_range(0..nodes);
        let drawn = match random.random_range(0..10) {
            0..4 => Victim::Leader,
            4..6 => Victim::Follower(node % (nodes - 1)),
            6..8 => Victim::Node(node),
            _ => Victim::All,
        };
        let until_election = of_leaders.random();
        let victim = match (class, &fault.accident, drawn) {
            (Class::Questions, Accident::CutFromLeader { .. }, _) => {
                Victim::Follower(node % (nodes - 1))
            }
            (Class::Questions, ..) => Victim::Leader,
            (Class::Away, ..) => Victim::Follower(node % (nodes - 1)),
            (Class::Corruption, ..) => Victim::Node(damaged),
            (_, Accident::Full(_) | Accident::LoseDisk, Victim::All) => Victim::Node(node),
            (.., drawn) => drawn,
        };
        fault.on = Some(victim);
        fault.until_election = match (class, &fault.accident) {
            // Only then do held back answers arrive late, and under another leader.
            (Class::Questions, Accident::LateAnswers(_)) => true,
            _ => until_election && victim == Victim::Leader,
        };
        fault.checkpoint = of_leaders.random();
        fault.when_asked = match class {
            Class::Questions => true,
            Class::All => fault.accident == Accident::Pause && of_questions.random(),
            _ => false,
        };
        let cut = cut(&mut random, neighbours);
        if let Accident::Block { clients, .. } = &mut fault.accident {
            *clients = cut;
        }
    }
}

/// The peers that are cut off: all, or as often a random subset.
fn cut(random: &mut StdRng, count: usize) -> Vec<usize> {
    let all = (1 << count) - 1;
    let chosen: u32 = match random.random_range(0..2) {
        0 => all,
        _ => random.random_range(1..all),
    };
    (0..count)
        .filter(|client| chosen >> client & 1 == 1)
        .collect()
}

fn between(random: &mut StdRng, least: u64, most: u64) -> Duration {
    Duration::from_millis(random.random_range(least..=most))
}

fn accident(class: Class, random: &mut StdRng) -> (Accident, Duration) {
    const SIMPLE: [Class; 8] = [
        Class::Kill,
        Class::Power,
        Class::Pause,
        Class::Sync,
        Class::Full,
        Class::Network,
        Class::Partition,
        Class::Clock,
    ];
    let at_once = Duration::ZERO;
    match class {
        Class::None | Class::Ddl => (Accident::Jump(0), at_once),
        Class::Kill => (Accident::Kill, between(random, 1, 1000)),
        Class::Power => match random.random_range(0..4) {
            0 | 1 => (Accident::Power, between(random, 1, 1000)),
            2 => {
                let ahead = random.random_range(1..25);
                (Accident::PowerAt(ahead), between(random, 500, 1500))
            }
            // The longer an fsync takes, the more is unsynced when the next power failure
            // occurs.
            _ => {
                let most = between(random, 20, 400);
                (Accident::SlowSync(most), between(random, 300, 2000))
            }
        },
        Class::Pause => (Accident::Pause, between(random, 1, 5000)),
        Class::Sync => match random.random_range(0..4) {
            0 => {
                let most = between(random, 20, 2000);
                (Accident::SlowSync(most), between(random, 100, 2000))
            }
            1 => (Accident::FailSync, between(random, 10, 1000)),
            2 => (Accident::FailSyncs, between(random, 10, 1000)),
            _ => (Accident::FailWrites, between(random, 10, 1000)),
        },
        Class::Full => {
            let room = random.random_range(0..24 << 10);
            (Accident::Full(room), between(random, 100, 3000))
        }
        Class::Corruption => {
            let accident = match random.random_range(0..5) {
                0 => Accident::FlipBit(Part::Any),
                1 | 2 => Accident::FlipBit(Part::Log),
                3 => Accident::FlipBit(Part::Checkpoints),
                _ => Accident::Misdirect(random.random_range(1..5)),
            };
            (accident, at_once)
        }
        Class::Network => {
            let link = |kind| Accident::Link(kind, Packets::Plain);
            let kinds = [
                link(LinkKind::Far),
                link(LinkKind::Lossy),
                link(LinkKind::Narrow),
                link(LinkKind::Breaking),
                Accident::Reset,
            ];
            let kind = kinds[random.random_range(0..kinds.len())].clone();
            (kind, between(random, 100, 3000))
        }
        Class::Partition => {
            let way = random.random_range(0..3);
            let block = Accident::Block {
                clients: cut(random, CLIENTS),
                requests: way != 1,
                answers: way != 0,
            };
            (block, between(random, 10, 20_000))
        }
        Class::Memory => match random.random_range(0..2) {
            0 => (Accident::Kill, between(random, 1, 500)),
            _ => (Accident::Pause, between(random, 1, 500)),
        },
        Class::Away => (Accident::Pause, between(random, 200, 1500)),
        Class::Clock => {
            if random.random() {
                let drift = random.random_range(-100_000..=100_000);
                (Accident::Drift(drift), between(random, 100, 3000))
            } else {
                let jump = random.random_range(-100_000_000..=100_000_000);
                (Accident::Jump(jump), at_once)
            }
        }
        // Other nodes are killed too, so that more than a minority is down at times.
        Class::Loss => match random.random_range(0..4) {
            0 | 1 => (Accident::LoseDisk, between(random, 10, 1500)),
            2 => (Accident::Kill, between(random, 10, 2000)),
            _ => (Accident::Power, between(random, 10, 2000)),
        },
        Class::Questions => match random.random_range(0..4) {
            0 | 1 => (Accident::Pause, between(random, 1, 5000)),
            2 => {
                let late = between(random, 300, 2000);
                (Accident::LateAnswers(late), between(random, 500, 3000))
            }
            _ => {
                let way = random.random_range(0..3);
                let cut = Accident::CutFromLeader {
                    requests: way != 1,
                    answers: way != 0,
                };
                (cut, between(random, 10, 5000))
            }
        },
        Class::All => accident(SIMPLE[random.random_range(0..SIMPLE.len())], random),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn plans_are_the_seeds_and_in_order() {
        let length = Duration::from_secs(20);
        for &class in Class::ALL {
            let plan = draw(class, 3, length);
            assert_eq!(plan, draw(class, 3, length));
            assert_eq!(plan.is_empty(), matches!(class, Class::None | Class::Ddl));
            assert!(plan.is_sorted_by_key(|fault| fault.at));
            assert!(
                plan.iter()
                    .enumerate()
                    .all(|(at, fault)| fault.number == at)
            );
            let shorter = draw(class, 3, length / 2);
            assert!(plan.starts_with(&shorter) || class == Class::Corruption);
        }
    }

    #[test]
    fn packets_are_plain_repeated_or_reordered_on_links_of_any_kind() {
        let mut drawn = BTreeSet::new();
        for seed in 0..100 {
            for fault in draw(Class::Network, seed, Duration::from_secs(3)) {
                if let Accident::Link(kind, packets) = fault.accident {
                    drawn.insert(format!("{kind:?} {packets:?}"));
                }
            }
        }
        assert_eq!(drawn.len(), 4 * 3, "{drawn:?}");
    }

    #[test]
    fn half_of_leaders_faults_end_with_an_election_and_half_of_all_meet_a_checkpoint() {
        let length = Duration::from_secs(3);
        let (mut counts, mut checkpoints) = ([0, 0], [0, 0]);
        for seed in 0..100 {
            let mut plan = draw(Class::Partition, seed, length);
            among_nodes(&mut plan, Engine::Cluster, Class::Partition, seed);
            for fault in plan {
                checkpoints[usize::from(fault.checkpoint)] += 1;
                match fault.on {
                    Some(Victim::Leader) => counts[usize::from(fault.until_election)] += 1,
                    _ => assert!(!fault.until_election, "{fault}"),
                }
            }
        }
        let [timed, elected] = counts;
        assert!(timed > 50 && elected > 50, "{counts:?}");
        assert!(
            checkpoints.iter().all(|count| *count > 100),
            "{checkpoints:?}"
        );
    }

    #[test]
    fn partitions_cut_off_everybody_or_some() {
        let mut cut = BTreeSet::new();
        for seed in 0..200 {
            for fault in draw(Class::Partition, seed, Duration::from_secs(3)) {
                let Accident::Block { clients, .. } = fault.accident else {
                    panic!("another fault");
                };
                cut.insert(clients);
            }
        }
        // All non-empty sets of clients.
        assert_eq!(cut.len(), (1 << CLIENTS) - 1, "{cut:?}");
        assert!(!cut.contains(&vec![]));
    }
}
