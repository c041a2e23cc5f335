//! Numbers that many threads add to and somebody reads now and then.
//!
//! A counter that every core adds to is one cache line that every core fights for.
//! Here each thread adds to a shard of its own, and who reads adds the shards up.
//!
//! ```text
//!   thread 0 ──▶ shard 0 │ commits 41 │ waits 3 │ …      one thread's counters lie
//!   thread 1 ──▶ shard 1 │ commits 17 │ waits 0 │ …      together, and nobody else's
//!                                  │                      on the same cache line
//!   reader   ──────────────────────┴──▶ 58
//! ```
//!
//! ```
//! use coeval_memory::counters::{Counter, Sharded};
//!
//! #[derive(Default)]
//! struct Numbers {
//!     commits: Counter,
//! }
//! let numbers = Sharded::<Numbers>::default();
//! numbers.mine().commits.add(1);
//! assert_eq!(numbers.sum(|shard| &shard.commits), 1);
//! ```
//!
//! A [`Histogram`] is counters too: values fall into classes whose bounds grow by a
//! half and by a third in turn, so that any quantile can be told within a third of
//! itself, whatever its size.
//!
//! ```text
//!   bounds   1  2  3  4  6  8  12  16  24  32 …        each class (previous, bound]
//! ```
//!
//! Sums taken while others add may miss what is being added. Nothing here orders
//! anything else, and nothing is ever lost, unless [`Counter::add_alone`] is called
//! by two threads at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::padded::CachePadded;
use crate::sync::thread_hint;

/// How many shards there are: as many threads as add at once in a large machine,
/// at a few hundred bytes each.
const SHARDS: usize = 16;

/// A number that grows.
// Counters are no part of any protocol, so std's atomics serve under checkers too.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Any number of threads at once.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Adds, at the price of an ordinary addition. Of two threads that do it at
    /// once, one's addition may be lost, so it is for counters that have one writer.
    #[inline]
    pub fn add_alone(&self, by: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(by), Ordering::Relaxed);
    }

    /// What it has come to.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Several copies of some counters, of which each thread uses one.
#[derive(Debug)]
pub struct Sharded<T>(Box<[CachePadded<T>]>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        Self::from_fn(T::default)
    }
}

impl<T> Sharded<T> {
    /// Copies that are made by `make`.
    pub fn from_fn(make: impl Fn() -> T) -> Self {
        Self((0..SHARDS).map(|_| CachePadded(make())).collect())
    }

    /// The copy of the calling thread.
    #[inline]
    #[must_use]
    pub fn mine(&self) -> &T {
        &self.0[thread_hint() % SHARDS]
    }

    /// Every copy.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &**shard)
    }

    /// One counter, of all copies together.
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&T) -> &Counter) -> u64 {
        self.all()
            .map(|shard| counter(shard).get())
            .fold(0, u64::wrapping_add)
    }

    /// One histogram, of all copies together.
    #[must_use]
    pub fn distribution<const CLASSES: usize>(
        &self,
        histogram: impl Fn(&T) -> &Histogram<CLASSES>,
    ) -> Distribution {
        let mut all = Distribution::default();
        self.all()
            .for_each(|shard| all.merge(&histogram(shard).read()));
        all
    }
}

/// Counts values by their size, in `CLASSES` classes, of which the last has no
/// upper bound.
#[derive(Debug)]
pub struct Histogram<const CLASSES: usize> {
    counts: [Counter; CLASSES],
    sum: Counter,
}

/// Classes for durations in microseconds: up to 67 seconds.
pub const DURATION_CLASSES: usize = 53;

/// A histogram of durations in microseconds.
pub type Durations = Histogram<DURATION_CLASSES>;

impl<const CLASSES: usize> Default for Histogram<CLASSES> {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Counter::default()),
            sum: Counter::default(),
        }
    }
}

impl Durations {
    /// Counts a duration, in microseconds rounded up. Any number of threads at once.
    #[inline]
    pub fn record_time(&self, time: Duration) {
        self.record(microseconds(time));
    }

    /// Counts a duration, as [`Counter::add_alone`] adds.
    #[inline]
    pub fn record_time_alone(&self, time: Duration) {
        self.record_alone(microseconds(time));
    }
}

#[inline]
fn microseconds(time: Duration) -> u64 {
    let whole = time.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(u64::from(time.subsec_nanos().div_ceil(1000)))
}

impl<const CLASSES: usize> Histogram<CLASSES> {
    /// Counts a value. Any number of threads at once.
    #[inline]
    pub fn record(&self, value: u64) {
        self.counts[class(value).min(CLASSES - 1)].add(1);
        self.sum.add(value);
    }

    /// Counts a value, as [`Counter::add_alone`] adds.
    #[inline]
    pub fn record_alone(&self, value: u64) {
        self.counts[class(value).min(CLASSES - 1)].add_alone(1);
        self.sum.add_alone(value);
    }

    /// What it has come to.
    #[must_use]
    pub fn read(&self) -> Distribution {
        Distribution {
            counts: self.counts.iter().map(Counter::get).collect(),
            sum: self.sum.get(),
        }
    }
}

/// The class of a value.
#[inline]
const fn class(value: u64) -> usize {
    let below = value.saturating_sub(1);
    if below < 2 {
        return below as usize;
    }
    let octave = below.ilog2();
    let half = below >> (octave - 1) & 1;
    2 * octave as usize + half as usize
}

/// The greatest value of a class.
#[must_use]
pub const fn bound(class: usize) -> u64 {
    if class < 2 {
        return class as u64 + 1;
    }
    (2 + class as u64 % 2 + 1) << (class / 2 - 1)
}

/// How many values fell into each class, and what they sum up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// By class; see [`bound`]. The last has no upper bound.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: u64,
}

impl Distribution {
    /// Adds another's values.
    pub fn merge(&mut self, other: &Self) {
        let classes = self.counts.len().max(other.counts.len());
        self.counts.resize(classes, 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::wrapping_add)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_above_the_previous_bound_and_not_above_its_own() {
        let bounds: Vec<u64> = (0..10).map(bound).collect();
        assert_eq!(bounds, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
        assert_eq!((class(0), class(1)), (0, 0));
        for value in (2..5000).chain([1 << 40, (1 << 40) + 1, u64::MAX >> 1]) {
            let class = class(value);
            assert!(value <= bound(class), "{value}");
            assert!(value > bound(class - 1), "{value}");
        }
        assert_eq!(bound(DURATION_CLASSES - 2), 1 << 26);
    }

    #[test]
    fn values_beyond_the_last_bound_are_counted_too() {
        let histogram = Histogram::<4>::default();
        for value in [0, 1, 2, 3, 4, 100, u64::MAX >> 1] {
            histogram.record(value);
        }
        histogram.record_alone(5);
        let read = histogram.read();
        assert_eq!(read.counts, [2, 1, 1, 4]);
        assert_eq!(read.count(), 8);
        assert_eq!(read.sum, 115 + (u64::MAX >> 1));
    }

    #[test]
    fn a_duration_is_never_counted_below_itself() {
        let durations = Durations::default();
        durations.record_time(Duration::from_nanos(2001));
        durations.record_time_alone(Duration::from_secs(3600));
        let read = durations.read();
        assert_eq!(read.counts[2], 1, "2.001 µs are not within 2 µs");
        assert_eq!(read.counts[DURATION_CLASSES - 1], 1);
        assert_eq!(read.sum, 3_600_000_003);
    }

    #[test]
    fn what_all_threads_add_is_there() {
        #[derive(Default)]
        struct Numbers {
            events: Counter,
            sizes: Histogram<8>,
        }
        let numbers = Sharded::<Numbers>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for value in 0..1000 {
                        numbers.mine().events.add(2);
                        numbers.mine().sizes.record(value);
                    }
                });
            }
        });
        assert_eq!(numbers.sum(|shard| &shard.events), 8000);
        let sizes = numbers.distribution(|shard| &shard.sizes);
        assert_eq!(sizes.count(), 4000);
        assert_eq!(sizes.sum, 4 * 499_500);
    }
}
