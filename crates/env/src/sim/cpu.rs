//! Processors: work takes time, and only so much of it is done at once.
//!
//! A node without a [`Cpu`] computes in no time, which is what tests of correctness
//! want. With one, each poll of a task occupies a core for whatever the polled code says
//! it [spends](crate::spend), and for the [`Prices`] of its turn, of what it says it
//! [does](crate::work), and of the bytes it sends and receives; while every core is
//! occupied, nobody on that node is polled. Prices are measured on a real machine and
//! given to the simulation, so that the throughput of more machines than there are can be
//! drawn.
//!
//! ```text
//!   core 0  ▒▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓          ▒▓▓▓▓▓▓▓     ▒ wake: it was idle
//!   core 1         ▒▓▓▓▓▓▓▓▓                           ▓ poll, work, bytes, spend
//!                           └ nobody waits: idle
//! ```
//!
//! A core that sleeps is woken if nobody who works would take the step up sooner, which
//! costs; on a machine with much to do hardly anybody sleeps.
//!
//! A step happens at the moment it begins; what it costs keeps the next from beginning,
//! and bytes it sends leave when the work before them is done. Cores cost each other
//! nothing: neither a line of cache that both write to, nor a lock, is in a price.

use std::time::Duration;

use crate::Work;

/// A node's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// How many cores, at least one.
    pub cores: usize,
    /// What is done on them costs.
    pub prices: Prices,
}

/// What work costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// A poll of a task, beside what its code says.
    pub poll: Duration,
    /// A core that was idle begins to work: the thread that slept is woken, and falls
    /// asleep again when there is no more.
    pub wake: Duration,
    /// A sync of a file, beside the wait for it, with the writes it makes durable.
    pub sync: Duration,
    /// Bytes received at once.
    pub receive: Duration,
    /// Bytes sent at once.
    pub send: Duration,
    /// 1024 of those bytes.
    pub copy: Duration,
    /// [`Work::Ask`].
    pub ask: Duration,
    /// [`Work::Plan`].
    pub plan: Duration,
    /// [`Work::Execute`].
    pub execute: Duration,
    /// [`Work::Transaction`].
    pub transaction: Duration,
    /// [`Work::Read`].
    pub read: Duration,
    /// [`Work::Row`].
    pub row: Duration,
    /// [`Work::Write`].
    pub write: Duration,
}

impl Prices {
    const fn of(&self, work: Work) -> Duration {
        match work {
            Work::Ask => self.ask,
            Work::Plan => self.plan,
            Work::Execute => self.execute,
            Work::Transaction => self.transaction,
            Work::Read => self.read,
            Work::Row => self.row,
            Work::Write => self.write,
        }
    }
}

/// So long a core looks for more before it sleeps, in nanoseconds. Timers of a simulated
/// world are late by up to a microsecond, which is no idleness.
const AWAKE: u64 = 2000;
/// By so much timers are late at most, in nanoseconds.
const GRAIN: u64 = 1000;

/// The cores of a node, by the true time at which they are free, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// None: work takes no time.
    free_at: Vec<u64>,
    prices: Prices,
    /// Who makes the running step.
    running: usize,
    /// How much earlier than now that began, because its timer was late.
    late: u64,
    /// When they were awake: what they make ready is so no earlier.
    awake_at: u64,
    /// By the running step, so far.
    spent: u64,
    /// By all steps before it.
    busy: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Cores {
    pub(crate) fn new(cpu: Cpu, now: u64) -> Self {
        Self {
            free_at: vec![now; cpu.cores.max(1)],
            prices: cpu.prices,
            ..Self::default()
        }
    }

    pub(crate) fn spend(&mut self, duration: Duration) {
        self.spent = self.spent.saturating_add(nanos(duration));
    }

    pub(crate) fn work(&mut self, work: Work, times: usize) {
        let of_one = nanos(self.prices.of(work));
        let of_all = of_one.saturating_mul(times as u64);
        self.spent = self.spent.saturating_add(of_all);
    }

    pub(crate) fn sync(&mut self) {
        self.spend(self.prices.sync);
    }

    pub(crate) fn receive(&mut self, bytes: usize) {
        self.pass(self.prices.receive, bytes);
    }

    pub(crate) fn send(&mut self, bytes: usize) {
        self.pass(self.prices.send, bytes);
    }

    fn pass(&mut self, at_once: Duration, bytes: usize) {
        let copied = nanos(self.prices.copy).saturating_mul(bytes as u64) / 1024;
        self.spend(at_once + Duration::from_nanos(copied));
    }

    /// What all steps have taken.
    pub(crate) const fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy)
    }

    /// A core takes a step up; or when to ask again, if none does now. Who `waited` for
    /// that has done so before.
    ///
    /// A core that is awake is asked first, the one that worked last before others. One
    /// that sleeps is left asleep if another is free before it could be awake: the threads
    /// of a runtime find by themselves what one of them has made ready. That is waited for
    /// once, so that a queue wakes more of them.
    pub(crate) fn begin(&mut self, now: u64, waited: bool) -> Result<(), u64> {
        let cores = || self.free_at.iter().copied().zip(0..);
        let Some((soonest, _)) = cores().min() else {
            return Ok(());
        };
        let Some((free, core)) = cores().filter(|&(free, _)| free <= now).max() else {
            return Err(soonest);
        };
        let asleep = free.saturating_add(AWAKE) < now;
        let wake = if asleep { nanos(self.prices.wake) } else { 0 };
        let next = cores().map(|(free, _)| free).filter(|&free| free > now);
        if let Some(next) = next.min()
            && !waited
            && next.saturating_sub(now.max(self.awake_at)) < wake
        {
            return Err(next);
        }
        self.running = core;
        self.late = match waited && !asleep {
            true => (now - free).min(GRAIN),
            false => 0,
        };
        self.awake_at = now.saturating_add(wake);
        self.spend(self.prices.poll + Duration::from_nanos(wake));
        Ok(())
    }

    /// For how much longer the running step has work to do before what it does next, in
    /// nanoseconds.
    pub(crate) fn behind(&self) -> u64 {
        match self.free_at.is_empty() {
            true => 0,
            false => self.spent.saturating_sub(self.late),
        }
    }

    /// A step has been made.
    pub(crate) fn occupy(&mut self, now: u64) {
        let spent = std::mem::take(&mut self.spent);
        self.busy = self.busy.saturating_add(spent);
        if let Some(core) = self.free_at.get_mut(self.running) {
            *core = now.saturating_sub(self.late).saturating_add(spent);
        }
    }
}
