//! Plans: which faults happen when.
//!
//! A plan is a list of [`Fault`]s, drawn from the seed for a class and a length, before
//! the run begins. Each has a beginning and, if it lasts, an end; they may overlap.
//! Faults are numbered, so that a run can be repeated with some of them only.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::workload::CLIENTS;
use crate::{Class, Engine};

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accident {
    /// The process dies; it is started again when this ends.
    Kill,
    /// The power fails; it comes back when this ends.
    Power,
    /// Somebody asks for a checkpoint, and the power fails during the change so many
    /// changes of the disk ahead, unless this ends before.
    PowerAt(u64),
    /// Nobody on the machine is polled.
    Pause,
    /// Syncs take up to so long.
    SlowSync(Duration),
    /// The next sync fails.
    FailSync,
    /// Every sync fails.
    FailSyncs,
    /// Every write fails.
    FailWrites,
    /// The disk has room for so many bytes beyond what is there.
    Full(u64),
    /// A durable bit flips.
    FlipBit(Part),
    /// The write so many changes of the disk ahead lands elsewhere.
    Misdirect(u64),
    /// Links to and from the server are like this.
    Link(LinkKind, Packets),
    /// Nothing gets from some clients to the server, from the server to them, or both.
    Block {
        /// Which clients, in order; the others go on. Of a cluster, first the other nodes,
        /// then clients that have machines of their own.
        clients: Vec<usize>,
        /// What clients send.
        requests: bool,
        /// What the server sends.
        answers: bool,
    },
    /// Every connection to the server breaks.
    Reset,
    /// The server's clocks are wrong by so many millionths.
    Drift(i64),
    /// The server's wall clock moves by so many milliseconds.
    Jump(i64),
    /// The disk is lost with all that was on it, and the process with it. When this ends, a
    /// new node begins in its place. Where another disk was lost and its node is not
    /// replaced yet, only the process dies.
    LoseDisk,
}

/// Of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Any file.
    Any,
    /// Segments of the log.
    Log,
    /// Checkpoints.
    Checkpoints,
}

impl Part {
    /// Whether this file is of it.
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

/// How links are meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Far away: tens of milliseconds, with a tail.
    Far,
    /// Every tenth segment is lost.
    Lossy,
    /// A few kilobytes per second.
    Narrow,
    /// One segment in fifty ends its connection.
    Breaking,
}

/// What becomes of packets meanwhile, beneath the streams that programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// Nothing but what the link is like anyhow.
    Plain,
    /// Many arrive twice, on a line on which that takes room.
    Repeated,
    /// Many arrive behind others that were sent after them.
    Reordered,
}

/// To which nodes of a cluster something happens; who leads is seen when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Whoever leads; the first if nobody does.
    Leader,
    /// One who does not, counted from behind the leader.
    Follower(usize),
    /// This one.
    Node(usize),
    /// All at once.
    All,
}

/// An accident with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its number in the plan as it was drawn.
    pub number: usize,
    /// When it begins, after the clients have.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What happens.
    pub accident: Accident,
    /// To whom, where there are several nodes.
    pub on: Option<Victim>,
    /// Of a leader: whether it ends as soon as another node is elected, if that is earlier.
    pub until_election: bool,
    /// Of a cluster: whether a leader to whom it happens is asked for a checkpoint a moment
    /// later.
    pub checkpoint: bool,
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
        match self.checkpoint {
            true => formatter.write_str(", with a checkpoint"),
            false => Ok(()),
        }
    }
}

/// Draws the plan of a run.
#[must_use]
pub fn draw(class: Class, seed: u64, length: Duration) -> Vec<Fault> {
    // Another stream than the world's.
    let mut random = StdRng::seed_from_u64(seed ^ 0x706C_616E);
    // And another than that of the plan: what is drawn of it moves no other fault.
    let mut of_packets = StdRng::seed_from_u64(seed ^ 0x7061_636B);
    let mut faults = Vec::new();
    let mut at = Duration::ZERO;
    if class == Class::None {
        return faults;
    }
    loop {
        // In the first half of a short run there is one.
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
        });
        if then_power {
            // Late enough for the log to have said of what was hit that it was durable.
            at += between(&mut random, 300, 1500);
            faults.push(Fault {
                number: faults.len(),
                at,
                lasts: between(&mut random, 10, 500),
                accident: Accident::Power,
                on: None,
                until_election: false,
                checkpoint: false,
            });
        }
    }
}

/// Says of each fault which nodes of a cluster it is for.
///
/// Damage is for one of them only: of two copies that lie, the third cannot know. A disk
/// that is full or lost is one node's matter, too.
///
/// Half of what happens to leaders ends with the election of another. That is when an old
/// leader comes back with what nobody else has, and what it has sent arrives late: of times
/// that are drawn, hardly any are the time that an election takes. And half of all faults find
/// a checkpoint under way, which may not cover what only the leader has.
pub fn among_nodes(plan: &mut [Fault], engine: Engine, class: Class, seed: u64) {
    let nodes = engine.nodes();
    let neighbours = nodes - 1 + if engine.is_remote() { CLIENTS } else { 0 };
    let mut random = StdRng::seed_from_u64(seed ^ 0x6E6F_6465);
    let damaged = random.random_range(0..nodes);
    // Other streams: what is drawn of them moves no other fault.
    let mut of_disks = StdRng::seed_from_u64(seed ^ 0x6469_736B);
    let mut of_leaders = StdRng::seed_from_u64(seed ^ 0x6C65_6164);
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
        let victim = match (class, &fault.accident, drawn) {
            (Class::Corruption, ..) => Victim::Node(damaged),
            (_, Accident::Full(_) | Accident::LoseDisk, Victim::All) => Victim::Node(node),
            (.., drawn) => drawn,
        };
        fault.on = Some(victim);
        fault.until_election = of_leaders.random() && victim == Victim::Leader;
        fault.checkpoint = of_leaders.random();
        let cut = cut(&mut random, neighbours);
        if let Accident::Block { clients, .. } = &mut fault.accident {
            *clients = cut;
        }
    }
}

/// Who is cut off: everybody, or as often some and not others.
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
        Class::None => (Accident::Jump(0), at_once),
        Class::Kill => (Accident::Kill, between(random, 1, 1000)),
        Class::Power => match random.random_range(0..4) {
            0 | 1 => (Accident::Power, between(random, 1, 1000)),
            2 => {
                let ahead = random.random_range(1..25);
                (Accident::PowerAt(ahead), between(random, 500, 1500))
            }
            // The longer a sync takes, the more is half done when the next one strikes.
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
        Class::Clock => {
            if random.random() {
                let drift = random.random_range(-100_000..=100_000);
                (Accident::Drift(drift), between(random, 100, 3000))
            } else {
                let jump = random.random_range(-100_000_000..=100_000_000);
                (Accident::Jump(jump), at_once)
            }
        }
        // Others die meanwhile, so that more than a minority is away at times.
        Class::Loss => match random.random_range(0..4) {
            0 | 1 => (Accident::LoseDisk, between(random, 10, 1500)),
            2 => (Accident::Kill, between(random, 10, 2000)),
            _ => (Accident::Power, between(random, 10, 2000)),
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
            assert_eq!(plan.is_empty(), class == Class::None);
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
        // Each set of clients but that of nobody.
        assert_eq!(cut.len(), (1 << CLIENTS) - 1, "{cut:?}");
        assert!(!cut.contains(&vec![]));
    }
}
