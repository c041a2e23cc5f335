//! Sharded statistics counters: many threads add to them, and a metrics reader sums them up
//! now and then.
//!
//! If all cores added to one counter, they would contend for its cache line. Here each
//! thread adds to a shard of its own, and the reader adds up the shards.
//!
//! ```text
//!   thread 0 ──▶ shard 0 │ commits 41 │ waits 3 │ …      one thread's counters are
//!   thread 1 ──▶ shard 1 │ commits 17 │ waits 0 │ …      together, and no other thread's
//!                                  │                      are on the same cache line
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
//! A [`Histogram`] is made of counters too: values fall into classes whose bounds grow by a
//! half and by a third in turn, so that any quantile is known to within a third of its
//! value, however large it is.
//!
//! ```text
//!   bounds   1  2  3  4  6  8  12  16  24  32 …        each class (previous, bound]
//! ```
//!
//! A sum taken while other threads add may miss their latest additions. The counters order
//! no other memory access, and no addition is ever lost, unless two threads call
//! [`Counter::add_alone`] at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::padded::CachePadded;
use crate::sync::thread_hint;

/// Number of shards: about the number of threads that add at the same time on a large
/// machine, at a few hundred bytes per shard.
const SHARDS: usize = 16;

/// A number that only grows.
// Counters are no part of any protocol, so std's atomics serve under loom and shuttle too.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `by`. Any number of threads may call this at once.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Adds `by` at the cost of an ordinary addition. If two threads call this at once, one
    /// addition may be lost, so it is for counters with one writer.
    #[inline]
    pub fn add_alone(&self, by: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(by), Ordering::Relaxed);
    }

    /// The counter's current value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Several copies of a set of counters; each thread uses one.
#[derive(Debug)]
pub struct Sharded<T>(Box<[CachePadded<T>]>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        Self::from_fn(T::default)
    }
}

impl<T> Sharded<T> {
    /// Creates the copies by calling `make` for each.
    pub fn from_fn(make: impl Fn() -> T) -> Self {
        Self((0..SHARDS).map(|_| CachePadded(make())).collect())
    }

    /// The copy that the calling thread adds to.
    #[inline]
    #[must_use]
    pub fn mine(&self) -> &T {
        &self.0[thread_hint() % SHARDS]
    }

    /// Iterates over all copies.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &**shard)
    }

    /// The sum of one counter over all copies.
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&T) -> &Counter) -> u64 {
        self.all()
            .map(|shard| counter(shard).get())
            .fold(0, u64::wrapping_add)
    }

    /// One histogram, merged over all copies.
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

/// Counts values by size, in `CLASSES` classes; the last class has no upper bound.
#[derive(Debug)]
pub struct Histogram<const CLASSES: usize> {
    counts: [Counter; CLASSES],
    sum: Counter,
}

/// Number of classes for durations in microseconds: up to 67 seconds.
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
    /// Counts a duration, in microseconds rounded up. Any number of threads may call this
    /// at once.
    #[inline]
    pub fn record_time(&self, time: Duration) {
        self.record(microseconds(time));
    }

    /// Counts a duration like [`Durations::record_time`], for a histogram with one writer:
    /// see [`Counter::add_alone`].
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
    /// Counts a value. Any number of threads may call this at once.
    #[inline]
    pub fn record(&self, value: u64) {
        self.counts[class(value).min(CLASSES - 1)].add(1);
        self.sum.add(value);
    }

    /// Counts a value, for a histogram with one writer: see [`Counter::add_alone`].
    #[inline]
    pub fn record_alone(&self, value: u64) {
        self.counts[class(value).min(CLASSES - 1)].add_alone(1);
        self.sum.add_alone(value);
    }

    /// Copies the current counts.
    #[must_use]
    pub fn read(&self) -> Distribution {
        Distribution {
            counts: self.counts.iter().map(Counter::get).collect(),
            sum: self.sum.get(),
        }
    }
}

/// The index of the class into which a value falls.
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

/// The greatest value that falls into a class.
#[must_use]
pub const fn bound(class: usize) -> u64 {
    if class < 2 {
        return class as u64 + 1;
    }
    (2 + class as u64 % 2 + 1) << (class / 2 - 1)
}

/// Snapshot of a histogram: the number of values in each class, and the sum of all values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Number of values by class; see [`bound`]. The last class has no upper bound.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: u64,
}

impl Distribution {
    /// Adds the values of another distribution.
    pub fn merge(&mut self, other: &Self) {
        let classes = self.counts.len().max(other.counts.len());
        self.counts.resize(classes, 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Number of values in all classes together.
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
