//! Computation of zones of one register, and of the score of each.

use crate::history::Register;

/// A time beyond any moment of a history; two of them can be added without overflow.
const FAR: i128 = 1 << 100;

/// The interval in which an operation ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    start: i128,
    finish: i128,
}

impl Interval {
    /// The interval of the initial state's write.
    pub(super) const BEFORE_ALL: Self = Self {
        start: -FAR,
        finish: -FAR,
    };

    /// Creates an interval; without a finish, the operation may take effect at any later
    /// time.
    pub(super) fn new(start: u64, finish: Option<u64>) -> Self {
        Self {
            start: start.into(),
            finish: finish.map_or(FAR, i128::from),
        }
    }
}

/// The write of a value, and the reads that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) value: Register,
    write_start: i128,
    /// The least finish of a read.
    read_finish: i128,
    /// The least finish of all operations.
    l: i128,
    /// The greatest start of all operations.
    h: i128,
}

/// A positive score with its times and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScoredZone {
    pub(super) gamma: u64,
    pub(super) time: u64,
    pub(super) begins: u64,
    pub(super) ends: u64,
    pub(super) because: Because,
}

/// The reason for a value's score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// A read of the value finished before its write started.
    ReadBeforeWrite,
    /// The value's zone overlaps that of this other value.
    Other(Register),
}

impl Cluster {
    /// Creates a cluster without reads.
    pub(super) fn new(value: Register, write: Interval) -> Self {
        Self {
            value,
            write_start: write.start,
            read_finish: FAR,
            l: write.finish,
            h: write.start,
        }
    }

    /// Adds reads to the cluster, by their greatest start and their least finish.
    pub(super) fn read(&mut self, start: u64, finish: u64) {
        self.read_finish = self.read_finish.min(finish.into());
        self.l = self.l.min(finish.into());
        self.h = self.h.max(start.into());
    }

    /// Whether the zone can collide with any other: not if it may be before or after
    /// everything.
    pub(super) fn constrains(&self) -> bool {
        self.h > -FAR && self.l < FAR
    }

    fn is_forward(&self) -> bool {
        self.l < self.h
    }
}

/// The extreme zones of those before, or after, a position.
#[derive(Clone, Copy, Debug, Default)]
struct Extreme {
    any: Option<usize>,
    forward: Option<usize>,
}

/// The score of each cluster, where it is positive.
pub(super) fn scores(clusters: &[Cluster]) -> Vec<Option<ScoredZone>> {
    let mut sorted: Vec<usize> = (0..clusters.len()).collect();
    sorted.sort_by_key(|index| clusters[*index].l + clusters[*index].h);
    let mut best: Vec<(i128, Because, (i128, i128))> = clusters
        .iter()
        .map(|cluster| {
            let early = cluster.write_start - cluster.read_finish;
            let between = (cluster.read_finish, cluster.write_start);
            (early, Because::ReadBeforeWrite, between)
        })
        .collect();
    // χ is symmetric, and both terms are equal where l + h are equal.
    let mut offer = |index: usize, other: Option<usize>| {
        let Some(other) = other else { return };
        let (one, two) = (&clusters[index], &clusters[other]);
        let chi = (one.h - two.l).min(two.h - one.l);
        if chi > best[index].0 {
            let (from, to) = (one.l.max(two.l), one.h.min(two.h));
            // A backward zone within a forward one begins at its h.
            let common = (from.min(to), from.max(to));
            best[index] = (chi, Because::Other(two.value), common);
        }
    };
    // For each zone: the greatest h before it, and the least l after it.
    let mut before = Extreme::default();
    for index in &sorted {
        let cluster = &clusters[*index];
        offer(*index, before.of(cluster));
        before.take(*index, cluster, |other| clusters[other].h < cluster.h);
    }
    let mut behind = Extreme::default();
    for index in sorted.iter().rev() {
        let cluster = &clusters[*index];
        offer(*index, behind.of(cluster));
        behind.take(*index, cluster, |other| clusters[other].l > cluster.l);
    }
    best.into_iter()
        .map(|(chi, because, (begins, ends))| {
            (chi > 0).then(|| ScoredZone {
                gamma: nanoseconds(chi),
                time: nanoseconds(i128::midpoint(begins, ends)),
                begins: nanoseconds(begins),
                ends: nanoseconds(ends),
                because,
            })
        })
        .collect()
}

impl Extreme {
    /// The extreme zone that can collide with a cluster: two backward zones never collide.
    fn of(&self, cluster: &Cluster) -> Option<usize> {
        if cluster.is_forward() {
            self.any
        } else {
            self.forward
        }
    }

    fn take(&mut self, index: usize, cluster: &Cluster, is_less: impl Fn(usize) -> bool) {
        if self.any.is_none_or(&is_less) {
            self.any = Some(index);
        }
        if cluster.is_forward() && self.forward.is_none_or(&is_less) {
            self.forward = Some(index);
        }
    }
}

/// A time or a difference of times as `u64`, saturating at both ends.
fn nanoseconds(time: i128) -> u64 {
    u64::try_from(time.max(0)).unwrap_or(u64::MAX)
}
