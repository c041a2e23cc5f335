//! Links: how bytes get from one node to another.
//!
//! ```text
//!   write ──▶ wait for the line ──▶ lost? wait, send again ──▶ latency ──▶ read
//!             (bytes per second)    (twice as long each time)
//! ```
//!
//! Connections are streams, and a stream loses, repeats and reorders nothing: what a
//! network does to packets, a transport shows as time, or as the end of the
//! connection. So a lost segment arrives late, by the time after which it is sent
//! again, and everything behind it on its connection waits for it, while other
//! connections overtake. A segment lost too often ends the connection. Repeated packets,
//! and packets out of order, are not seen above a transport, so within a connection there
//! is nothing to make of them; there are no datagrams, which would show them.
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
            patience: Duration::from_secs(60),
        }
    }
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

    /// What becomes of a segment of `bytes` that is sent now.
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
        if let Some(rate) = link.bytes_per_second {
            let takes = (bytes as u64).saturating_mul(1_000_000_000) / rate.max(1);
            let free = self.line_free.entry((from, to)).or_default();
            *free = (*free).max(now).saturating_add(takes);
            time += Duration::from_nanos(*free - now);
        }
        let mut losses = 0;
        while happens(link.loss_per_million, random) {
            time += RETRANSMIT * 2u32.pow(losses);
            losses += 1;
            if losses == MAX_LOSSES {
                return Passage::Reset;
            }
        }
        Passage::After(time)
    }
}
