//! Processors: work takes time, and only so much of it is done at once.
//!
//! A node without a [`Cpu`] computes in no time, which is what tests of correctness
//! want. With one, each poll of a task occupies a core for
//! [`Cpu::poll`] and for whatever the polled code says it [spends](crate::spend);
//! while every core is occupied, nobody on that node is polled. Costs are measured
//! on a real machine and given to the simulation, so that the throughput of more
//! machines than there are can be drawn.

use std::time::Duration;

/// A node's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// How many cores, at least one.
    pub cores: usize,
    /// What each poll of a task costs beside what its code says.
    pub poll: Duration,
}

/// The cores of a node, by the true time at which they are free, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// None: work takes no time.
    free_at: Vec<u64>,
    poll: u64,
    /// By the running step, so far.
    spent: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Cores {
    pub(crate) fn new(cpu: Cpu, now: u64) -> Self {
        Self {
            free_at: vec![now; cpu.cores.max(1)],
            poll: nanos(cpu.poll),
            spent: 0,
        }
    }

    pub(crate) fn spend(&mut self, duration: Duration) {
        self.spent = self.spent.saturating_add(nanos(duration));
    }

    /// When a core is free, if none is now.
    pub(crate) fn busy_until(&self, now: u64) -> Option<u64> {
        let free = *self.free_at.iter().min()?;
        (free > now).then_some(free)
    }

    /// A step has been made.
    pub(crate) fn occupy(&mut self, now: u64) {
        let spent = std::mem::take(&mut self.spent).saturating_add(self.poll);
        if let Some(core) = self.free_at.iter_mut().min() {
            *core = (*core).max(now).saturating_add(spent);
        }
    }
}
