//! Links: how bytes get from one node to another.
//!
//! ```text
//!   write ──▶ wait for the line ──▶ lost? wait, send again ──▶ latency, ──▶ read
//!             (bytes per second;    (twice as long each time)  detour
//!              twice, if repeated)
//! ```
//!
//! Connections are streams, and a stream loses, repeats and reorders nothing: what a
//! network does to packets, a transport shows as time, or as the end of the
//! connection.
//!
//! - A lost segment arrives late, by the time after which it is sent again, and
//!   everything behind it on its connection waits for it, while other connections
//!   overtake. A segment lost too often ends the connection.
//! - A repeated segment takes the line twice: whatever is sent after it, on any
//!   connection, waits for its copy, which the transport throws away. A line that takes
//!   any number of bytes takes the copy, too, at no cost.
//! - A segment out of order comes by a detour. What its connection sent behind it is
//!   there first and is not shown before it has come; other connections' segments are.
//!
//! There are no datagrams, which would show copies and gaps to programs.
//!
//! A blocked link lets nothing pass in its direction: what is sent waits for it to
//! open, and when that takes longer than [`Link::patience`], the sender's end breaks.
//! Blocking one direction only is a one-way partition, blocking some pairs a partial
//! one. Acknowledgements of a transport are not modelled: what was sent before the
//! link was blocked counts as received.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::Node;

/// The first wait before a lost segment is sent again.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// A segment lost so often ends its connection.
const MAX_LOSSES: u32 = 8;
const MILLION: u32 = 1_000_000;

/// How long a segment takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// At least.
    pub least: Duration,
    /// And up to so much more, evenly.
    pub spread: Duration,
    /// Of a million segments so many take up to [`Latency::tail`] beyond that.
    pub tail_per_million: u32,
    /// See [`Latency::tail_per_million`].
    pub tail: Duration,
}

/// One direction between two nodes. The default has no length and no accidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How long a segment takes.
    pub latency: Latency,
    /// Of a million segments so many are lost, and sent again after 200 ms, then 400,
    /// and so on; the eighth loss of one ends its connection.
    pub loss_per_million: u32,
    /// Of a million segments so many end their connection.
    pub resets_per_million: u32,
    /// How many bytes the line takes in a second; `None` for any number.
    pub bytes_per_second: Option<u64>,
    /// Of a million segments so many are there twice, and take twice the line.
    pub repeats_per_million: u32,
    /// Of a million segments so many come by a detour, behind those sent after them.
    pub detours_per_million: u32,
    /// How much longer that takes at most.
    pub detour: Duration,
    /// How long a sender goes on trying when nothing gets through.
    pub patience: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            latency: Latency::default(),
            loss_per_million: 0,
            resets_per_million: 0,
            bytes_per_second: None,
            repeats_per_million: 0,
            detours_per_million: 0,
            detour: Duration::ZERO,
            patience: Duration::from_secs(60),
        }
    }
}

/// What has become of all segments that were sent from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many there were. What waits for a link to open is none before it does.
    pub segments: u64,
    /// How often one was lost.
    pub lost: u64,
    /// How many were there twice.
    pub repeated: u64,
    /// How many came by a detour.
    pub detoured: u64,
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It arrives after so long.
    After(Duration),
    /// It waits until the link opens.
    Blocked,
    /// It ends the connection.
    Reset,
}

/// All links of a world.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Where none is set.
    usual: Link,
    set: BTreeMap<(Node, Node), Link>,
    blocked: BTreeSet<(Node, Node)>,
    /// When each line has sent what it was given, in nanoseconds.
    line_free: BTreeMap<(Node, Node), u64>,
    traffic: Traffic,
}

fn up_to(random: &mut StdRng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.random_range(0..=nanos))
}

impl Links {
    pub(super) fn get(&self, from: Node, to: Node) -> Link {
        *self.set.get(&(from, to)).unwrap_or(&self.usual)
    }

    pub(super) fn set_usual(&mut self, link: Link) {
        self.usual = link;
    }

    pub(super) fn set(&mut self, from: Node, to: Node, link: Link) {
        self.set.insert((from, to), link);
    }

    pub(super) fn reset(&mut self, from: Node, to: Node) {
        self.set.remove(&(from, to));
    }

    pub(super) fn block(&mut self, from: Node, to: Node) {
        self.blocked.insert((from, to));
    }

    /// Whether it was blocked.
    pub(super) fn unblock(&mut self, from: Node, to: Node) -> bool {
        self.blocked.remove(&(from, to))
    }

    pub(super) fn is_blocked(&self, from: Node, to: Node) -> bool {
        self.blocked.contains(&(from, to))
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What becomes of a segment of `bytes` that is sent now. A setting that is not made
    /// draws no number, and what was added last draws last: a seed's runs without it stay
    /// what they were.
    pub(super) fn send(
        &mut self,
        (from, to): (Node, Node),
        bytes: usize,
        now: u64,
        random: &mut StdRng,
    ) -> Passage {
        if from == to {
            return Passage::After(Duration::ZERO);
        }
        if self.is_blocked(from, to) {
            return Passage::Blocked;
        }
        let link = self.get(from, to);
        self.traffic.segments += 1;
        let happens = |chance: u32, random: &mut StdRng| {
            chance > 0 && random.random_range(0..MILLION) < chance
        };
        if happens(link.resets_per_million, random) {
            return Passage::Reset;
        }
        let mut time = link.latency.least;
        if !link.latency.spread.is_zero() {
            time += up_to(random, link.latency.spread);
        }
        if happens(link.latency.tail_per_million, random) {
            time += up_to(random, link.latency.tail);
        }
        time += self.line((from, to), &link, bytes, now);
        let mut losses = 0;
        while happens(link.loss_per_million, random) {
            self.traffic.lost += 1;
            time += RETRANSMIT * 2u32.pow(losses);
            losses += 1;
            if losses == MAX_LOSSES {
                return Passage::Reset;
            }
        }
        if happens(link.repeats_per_million, random) {
            self.traffic.repeated += 1;
            // The first of the two has arrived before.
            self.line((from, to), &link, bytes, now);
        }
        if happens(link.detours_per_million, random) {
            self.traffic.detoured += 1;
            time += up_to(random, link.detour);
        }
        Passage::After(time)
    }

    /// Puts so many bytes on the line; how long until it has taken them.
    fn line(&mut self, route: (Node, Node), link: &Link, bytes: usize, now: u64) -> Duration {
        let Some(rate) = link.bytes_per_second else {
            return Duration::ZERO;
        };
        let takes = (bytes as u64).saturating_mul(1_000_000_000) / rate.max(1);
        let free = self.line_free.entry(route).or_default();
        *free = (*free).max(now).saturating_add(takes);
        Duration::from_nanos(*free - now)
    }
}
