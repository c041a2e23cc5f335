//! Simulated network links: latency, bandwidth, loss and blocking between two nodes.
//!
//! ```text
//!   write ──▶ wait for the line ──▶ lost? wait, send again ──▶ latency, ──▶ read
//!             (bytes per second;    (twice as long each time)  detour
//!              twice, if repeated)
//! ```
//!
//! Connections are streams, and a stream loses, repeats and reorders no bytes: a
//! transport shows the fate of packets only as delay, or as the end of the connection.
//!
//! - A lost segment arrives late, by the time after which it is sent again, and
//!   everything after it on its connection waits for it, while other connections
//!   overtake. A segment that is lost too often ends the connection.
//! - A repeated segment occupies the line twice: every segment sent after it, on any
//!   connection, waits for the copy, which the transport discards. On a line of unlimited
//!   bandwidth the copy costs nothing.
//! - A segment out of order takes a detour. Later segments of its connection arrive first
//!   and are held until it has arrived; other connections' segments are not.
//!
//! There are no datagrams, in which programs would see copies and gaps.
//!
//! A blocked link lets no segment pass in its direction: segments wait for it to open,
//! and when that takes longer than [`Link::patience`], the sender's end breaks. Blocking
//! only one direction is a one-way partition, blocking some pairs a partial one. The
//! transport's acknowledgements are not modelled: segments sent before the link was
//! blocked count as received.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::Node;

/// The first wait before a lost segment is sent again.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// Number of losses of one segment that ends its connection.
const MAX_LOSSES: u32 = 8;
const MILLION: u32 = 1_000_000;

/// Latency distribution of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Minimum latency of a segment.
    pub least: Duration,
    /// Most that is added to the minimum, uniformly distributed.
    pub spread: Duration,
    /// Segments in a million that take up to [`Latency::tail`] longer.
    pub tail_per_million: u32,
    /// Most additional latency of the segments counted by [`Latency::tail_per_million`].
    pub tail: Duration,
}

/// Properties of one direction between two nodes. The default has no latency and no
/// faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Latency of a segment.
    pub latency: Latency,
    /// Segments in a million that are lost, and sent again after 200 ms, then 400, and so
    /// on; the eighth loss of one ends its connection.
    pub loss_per_million: u32,
    /// Segments in a million that reset their connection.
    pub resets_per_million: u32,
    /// Bandwidth in bytes per second; `None` for unlimited.
    pub bytes_per_second: Option<u64>,
    /// Segments in a million that are repeated, and occupy the line twice.
    pub repeats_per_million: u32,
    /// Segments in a million that take a detour, and arrive after later ones.
    pub detours_per_million: u32,
    /// Most additional latency of a detour.
    pub detour: Duration,
    /// How long a sender retries while nothing gets through, before its connection
    /// breaks.
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

/// Counts of all segments sent between different nodes, and their fates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of segments sent. A segment that waits for a blocked link counts when the
    /// link opens.
    pub segments: u64,
    /// Number of losses.
    pub lost: u64,
    /// Number of repeated segments.
    pub repeated: u64,
    /// Number of segments that took a detour.
    pub detoured: u64,
}

/// Fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// The segment arrives after this time.
    After(Duration),
    /// The segment waits until the link opens.
    Blocked,
    /// The segment ends the connection.
    Reset,
}

/// All links of a world.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Properties of links for which none are set.
    usual: Link,
    set: BTreeMap<(Node, Node), Link>,
    blocked: BTreeSet<(Node, Node)>,
    /// Time at which each line has transmitted all its bytes, in nanoseconds.
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

    /// Unblocks a link; returns whether it was blocked.
    pub(super) fn unblock(&mut self, from: Node, to: Node) -> bool {
        self.blocked.remove(&(from, to))
    }

    pub(super) fn is_blocked(&self, from: Node, to: Node) -> bool {
        self.blocked.contains(&(from, to))
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Decides the fate of a segment of `bytes` that is sent now. A property that is not
    /// set draws no random number, and newer properties draw last: runs of a seed without
    /// them stay the same.
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
            // The first of the two copies arrives at the time computed above.
            self.line((from, to), &link, bytes, now);
        }
        if happens(link.detours_per_million, random) {
            self.traffic.detoured += 1;
            time += up_to(random, link.detour);
        }
        Passage::After(time)
    }

    /// Puts `bytes` bytes on the line; returns the time until it has transmitted them.
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
