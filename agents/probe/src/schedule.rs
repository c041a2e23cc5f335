//! The open loop: operations start when the schedule says so, whether earlier ones have
//! ended or not.
//!
//! In a closed loop a slow store slows its clients, which then do not see how slow it is.
//! Here operation *n* is due *n* / rate seconds after the beginning. What the probe cannot
//! start in time has *slipped*: a probe that was paused itself would take its own pause for
//! one of the store. Too many operations under way at once are counted as slipped as well,
//! and left out, so that a store that does not keep up does not fill the probe's memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::hotspot::{Hotspot, Operation};
use crate::options::Options;
use crate::record::{Done, Kind, Recorder};
use crate::run::Stop;
use crate::store::Store;

/// Greatest number of operations under way.
const MOST_UNDER_WAY: u32 = 20_000;
/// Number of first values that are written at a time.
const LOADED_AT_ONCE: usize = 16;
/// Greatest number of different failures that are told.
const TOLD: usize = 5;

/// How the schedule was kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Number of operations that were due.
    pub due: u64,
    /// Number of those that started late, or not at all.
    pub slipped: u64,
    /// Number of those that did not start, because too many were under way.
    pub left_out: u64,
    /// The latest start, after it was due.
    pub worst: Duration,
    /// Whether the user ended the run.
    pub interrupted: bool,
    /// Failures of operations, by their text.
    pub failures: Vec<(String, u64)>,
}

impl Kept {
    /// Whether too much has slipped for the run to be judged.
    pub fn is_void(&self, options: &Options) -> bool {
        self.slipped as f64 > self.due as f64 * options.slip_percent / 100.0
    }
}

/// What the operations of a run share.
struct Shared {
    store: Store,
    origin: Instant,
    /// The system's monotonic clock at the origin, in nanoseconds, which logs of other
    /// processes on this machine have as well.
    origin_ns: u64,
    timeout: Duration,
    slip: Duration,
    slots: Mutex<Slots>,
    kept: Mutex<Kept>,
}

/// Numbers for operations under way: the operations of one number do not overlap, so that
/// it can stand for a process in a history.
#[derive(Default)]
struct Slots {
    free: BinaryHeap<Reverse<u64>>,
    used: u64,
}

impl Slots {
    fn take(&mut self) -> u64 {
        match self.free.pop() {
            Some(Reverse(slot)) => slot,
            None => {
                self.used += 1;
                self.used - 1
            }
        }
    }
}

/// The system's monotonic clock, in nanoseconds.
fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let part = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(part)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at all times.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of a run and its operations.
pub struct Schedule {
    shared: Arc<Shared>,
}

impl Schedule {
    /// The clock of the run begins.
    pub fn new(options: &Options, store: &Store) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: store.clone(),
                origin: Instant::now(),
                origin_ns: monotonic(),
                timeout: options.timeout,
                slip: options.slip,
                slots: Mutex::default(),
                kept: Mutex::default(),
            }),
        }
    }

    /// Writes the first value of each key, on the clock of the run, a few at a time.
    ///
    /// # Errors
    /// When a write fails.
    pub async fn load(&self, keys: u64, recorder: &Recorder) -> Result<(), String> {
        let mut writes = JoinSet::new();
        let mut next = 0;
        loop {
            while next < keys && writes.len() < LOADED_AT_ONCE {
                let (shared, to, key) = (self.shared.clone(), recorder.sender(), next);
                writes.spawn(async move { shared.load(key).await.map(|done| to.send(done)) });
                next += 1;
            }
            match writes.join_next().await {
                None => return Ok(()),
                Some(Ok(Ok(_))) => {}
                Some(Ok(Err(problem))) => return Err(problem),
                Some(Err(ended)) => return Err(format!("a write did not end: {ended}")),
            }
        }
    }

    /// Runs the workload, and waits for the last operation.
    pub async fn run(&self, options: &Options, recorder: &Recorder, stop: &mut Stop) -> Kept {
        let mut hotspot = Hotspot::new(options, first_value(options.keys));
        let under_way = Arc::new(Semaphore::new(MOST_UNDER_WAY as usize));
        let to = recorder.sender();
        let rate = u64::from(options.rate);
        let count = rate * u64::from(options.seconds);
        let begun = Instant::now();
        let mut interrupted = false;
        let mut due_count = 0;
        for number in 0..count {
            let due = begun + Duration::from_nanos(number * 1_000_000_000 / rate);
            if due > Instant::now() {
                tokio::select! {
                    () = tokio::time::sleep_until(due.into()) => {}
                    () = stop.asked() => interrupted = true,
                }
            }
            if interrupted {
                break;
            }
            due_count += 1;
            let operation = hotspot.next();
            match under_way.clone().try_acquire_owned() {
                Ok(permit) => {
                    let (shared, to) = (self.shared.clone(), to.clone());
                    tokio::spawn(async move {
                        let _ = to.send(shared.operate(number, operation, due).await);
                        drop(permit);
                    });
                }
                Err(_) => {
                    let mut kept = lock(&self.shared.kept);
                    kept.slipped += 1;
                    kept.left_out += 1;
                }
            }
        }
        // Each operation ends at its timeout at the latest.
        let _ = under_way.acquire_many(MOST_UNDER_WAY).await;
        let mut kept = lock(&self.shared.kept).clone();
        kept.due = due_count;
        kept.interrupted = interrupted;
        kept
    }
}

/// The first value of a key. Every value of a run is used once, for all keys together.
pub fn first_value(key: u64) -> i64 {
    key as i64
}

impl Shared {
    fn now(&self) -> u64 {
        let elapsed = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.origin_ns.saturating_add(elapsed)
    }

    async fn load(&self, key: u64) -> Result<Done, String> {
        let slot = lock(&self.slots).take();
        let value = first_value(key);
        let started = self.now();
        let written = tokio::time::timeout(self.timeout, self.store.load(key, value)).await;
        let finished = self.now();
        lock(&self.slots).free.push(Reverse(slot));
        let written = written.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        written.map_err(|error| format!("cannot write the first value of a key: {error}"))?;
        Ok(Done {
            slot,
            key,
            kind: Kind::Write(value),
            started,
            finished: Some(finished),
        })
    }

    async fn operate(&self, number: u64, operation: Operation, due: Instant) -> Done {
        let slot = lock(&self.slots).take();
        let late = Instant::now().saturating_duration_since(due);
        let started = self.now();
        let Operation { key, value } = operation;
        let answer = match value {
            Some(value) => {
                let write = self.store.write(number, key, value);
                let write = tokio::time::timeout(self.timeout, write).await;
                write.map(|done| done.map(|()| Kind::Write(value)))
            }
            None => {
                let read = self.store.read(number, key);
                let read = tokio::time::timeout(self.timeout, read).await;
                read.map(|done| done.map(Kind::Read))
            }
        };
        let now = self.now();
        let asked = value.map_or(Kind::Read(None), Kind::Write);
        let (kind, finished) = match answer {
            Ok(Ok(kind)) => (kind, Some(now)),
            Ok(Err(failure)) => {
                self.failed(failure);
                (asked, None)
            }
            Err(_) => {
                self.failed("no answer in time".to_owned());
                (asked, None)
            }
        };
        lock(&self.slots).free.push(Reverse(slot));
        let mut kept = lock(&self.kept);
        kept.slipped += u64::from(late > self.slip);
        kept.worst = kept.worst.max(late);
        Done {
            slot,
            key,
            kind,
            started,
            finished,
        }
    }

    fn failed(&self, failure: String) {
        let failures = &mut lock(&self.kept).failures;
        // Once there are enough, further kinds count with the last.
        let place = failures.iter().position(|(text, _)| *text == failure);
        let place = place.or(failures
            .len()
            .checked_sub(1)
            .filter(|_| failures.len() == TOLD));
        match place {
            Some(place) => failures[place].1 += 1,
            None => failures.push((failure, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_operation_at_a_time() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 2]);
        slots.free.push(Reverse(1));
        assert_eq!([slots.take(), slots.take()], [1, 3]);
    }

    #[test]
    fn a_run_is_void_when_too_much_slipped() {
        let arguments = ["coeval-probe", "redis://a"].map(Into::into);
        let options = crate::options::parse(arguments).unwrap();
        let kept = |slipped| Kept {
            due: 1_000,
            slipped,
            ..Kept::default()
        };
        assert!(!kept(10).is_void(&options));
        assert!(kept(11).is_void(&options));
    }
}
