//! Memory limits and memory use of the process: the source of the budget that the engine
//! enforces.
//!
//! [`machine`] finds how much memory is available. A thread measures the process's use,
//! and its place, several times a second for the budget ([`watch`]), and the metrics
//! measure it on request. The limit holds regardless of that frequency: near it, a writer
//! that wants to grow asks the kernel first (`coeval_occ`'s `memory` argues why that
//! holds).

mod machine;
mod occupied;
mod preallocated;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_env::fs::{self, OpenOptions};
use coeval_memory::heap;
use coeval_occ::{Budget, Engine, FollowerEngine, MemoryAccounts};

use occupied::Looked;

pub use preallocated::preallocate;

use crate::Settings;

/// Share of the available memory that the database may take when no setting limits it, in
/// per cent: the rest is for the kernel, its page cache of the log, and other programs.
const DEFAULT_PERCENT: u64 = 75;

const MEBIBYTE: u64 = 1 << 20;

/// The memory accounts of the engine, and the process's resident size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Bytes by purpose.
    pub accounts: MemoryAccounts,
    /// Resident size of the process, in bytes; 0 where the kernel does not report it.
    pub resident: u64,
}

/// The memory budget that the settings make on this machine: the limit, and the part of
/// it that old row versions may take.
pub async fn budget(settings: &Settings) -> Budget {
    let limit = match settings.memory_limit_megabytes {
        0 => (machine::memory().await).map(|memory| memory.total / 100 * DEFAULT_PERCENT),
        megabytes => Some(megabytes.saturating_mul(MEBIBYTE)),
    };
    limit.map_or(Budget::UNLIMITED, |limit| {
        Budget::of(limit, settings.old_versions_percent)
    })
}

/// The memory that the machine or the container has, in bytes; `None` where neither says it.
pub async fn of_machine() -> Option<u64> {
    machine::memory().await.map(|memory| memory.total)
}

/// Resident size of this process, in bytes.
pub(crate) async fn resident() -> Option<u64> {
    let statm = read("/proc/self/statm").await?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Interval between two measurements while the allocated size changes by a [`NOTABLE`]
/// part of the limit: a minimum, and a multiple of the duration of one measurement, which
/// bounds its cost to a fiftieth of a core.
const MOVING: (Duration, u32) = (Duration::from_millis(200), 50);
/// The same interval otherwise; it costs at most a five hundredth of a core.
const AT_REST: (Duration, u32) = (Duration::from_secs(1), 500);
const NOTABLE: u64 = 64;

/// A function that asks the kernel for the process's resident memory, in bytes.
type Resident = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// An engine that has a memory budget.
pub(crate) trait Budgeted: Send + Sync + 'static {
    /// The limit; `u64::MAX` for none.
    fn limit(&self) -> u64;
    fn set_occupied(&self, arenas: u64, program: u64);
    fn ask_resident(&self, resident: Resident);
}

impl Budgeted for Engine {
    fn limit(&self) -> u64 {
        self.memory().limit
    }

    fn set_occupied(&self, arenas: u64, program: u64) {
        self.set_occupied(arenas, program);
    }

    fn ask_resident(&self, resident: Resident) {
        self.ask_resident(resident);
    }
}

impl Budgeted for FollowerEngine {
    fn limit(&self) -> u64 {
        self.memory().map_or(u64::MAX, |memory| memory.limit)
    }

    fn set_occupied(&self, arenas: u64, program: u64) {
        self.set_occupied(arenas, program);
    }

    fn ask_resident(&self, resident: Resident) {
        self.ask_resident(resident);
    }
}

/// The thread that reports the process's memory use to an engine.
#[derive(Debug)]
pub(crate) struct Watch {
    looked: Arc<Mutex<Looked>>,
    /// `None` where the allocator does not count, and arenas could not be told from other
    /// memory.
    thread: Option<JoinHandle<()>>,
}

/// Reports the process's memory use to the engine at intervals, until the [`Watch`] is
/// dropped or the engine is gone. It has a thread of its own, because one measurement of
/// many gigabytes takes several milliseconds.
pub(crate) fn watch<E: Budgeted>(engine: &Arc<E>) -> Watch {
    let looked = Arc::<Mutex<Looked>>::default();
    let thread = heap::bytes().map(|_| {
        if let Some(resident) = occupied::resident() {
            engine.ask_resident(Box::new(resident));
        }
        let (engine, looked) = (Arc::downgrade(engine), Arc::clone(&looked));
        coeval_env::spawn_dedicated("memory", move || async move {
            while let Some(engine) = engine.upgrade() {
                let took = tell(&*engine, &looked);
                let notable = engine.limit() / NOTABLE;
                drop(engine);
                until_next_look(took, notable).await;
            }
        })
    });
    Watch { looked, thread }
}

async fn until_next_look(took: Duration, notable: u64) {
    let (before, began) = (heap::bytes(), coeval_env::now());
    let longest = AT_REST.0.max(took * AT_REST.1);
    while began.elapsed() < longest {
        coeval_env::sleep(MOVING.0.max(took * MOVING.1)).await;
        let moved = heap::bytes().zip(before);
        if moved.is_some_and(|(now, before)| now.abs_diff(before) > notable) {
            return;
        }
    }
}

impl Watch {
    /// Measures at once, unless the last measurement is recent.
    pub(crate) fn look(&self, engine: &impl Budgeted) {
        if self.thread.is_some() {
            tell(engine, &self.looked);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.abort();
        }
    }
}

/// Measures and informs the engine. Returns the duration of the last measurement.
fn tell(engine: &impl Budgeted, looked: &Mutex<Looked>) -> Duration {
    let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(occupied) = looked.look() {
        engine.set_occupied(occupied.arenas, occupied.program);
    }
    looked.took()
}

/// Reads a file of the kernel, whose metadata gives no length.
async fn read(path: impl AsRef<Path>) -> Option<String> {
    let file = fs::open(path.as_ref(), OpenOptions::READ).await.ok()?;
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        match file.read_at(&mut bytes, text.len() as u64).await.ok()? {
            0 => return String::from_utf8(text).ok(),
            count => text.extend_from_slice(&bytes[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_default_is_a_share_of_it() {
        let budget = budget(&Settings::default()).await;
        let available = machine::memory().await.unwrap().total;
        assert!(budget.limit < available && budget.limit > available / 2);
        let own = resident().await.unwrap();
        assert!(own > MEBIBYTE && own < available);
        let settings = Settings {
            memory_limit_megabytes: 100,
            old_versions_percent: 10,
            ..Settings::default()
        };
        let budget = super::budget(&settings).await;
        assert_eq!(budget.limit, 100 << 20);
        assert_eq!(budget.old_versions, (100 << 20) / 100 * 10);
    }
}
