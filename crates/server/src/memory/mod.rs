//! How much memory there is, and how much this process has.
//!
//! What there is [`machine`] finds out. What the process has, and where, is looked at some
//! times a second for the budget ([`watch`]), and for whoever asks. The limit does not
//! depend on how often: near it, whoever wants to grow asks the kernel (`coeval_occ`'s
//! `memory` argues why that holds).

mod machine;
mod occupied;
mod preallocated;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_env::fs::{self, OpenOptions};
use coeval_memory::heap;
use coeval_occ::{Budget, Engine, MemoryAccounts};

use occupied::Looked;

pub use preallocated::preallocate;

use crate::Settings;

/// What the database may take of the memory there is, when nobody said how much: the
/// rest is for the kernel, its cache of the log, and other programs.
const DEFAULT_PERCENT: u64 = 75;

const MEBIBYTE: u64 = 1 << 20;

/// What takes memory, and what the kernel says of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// By what it is for.
    pub accounts: MemoryAccounts,
    /// What the process occupies, in bytes; 0 where that cannot be asked.
    pub resident: u64,
}

/// The memory budget that the settings make on this machine: the limit, and how much of it
/// old row versions may take.
pub async fn budget(settings: &Settings) -> Budget {
    let limit = match settings.memory_limit_megabytes {
        0 => (machine::memory().await).map(|memory| memory.total / 100 * DEFAULT_PERCENT),
        megabytes => Some(megabytes.saturating_mul(MEBIBYTE)),
    };
    limit.map_or(Budget::UNLIMITED, |limit| {
        Budget::of(limit, settings.old_versions_percent)
    })
}

/// What this process occupies, in bytes.
pub(crate) async fn resident() -> Option<u64> {
    let statm = read("/proc/self/statm").await?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// How long the budget goes by what was seen before, at least, and how many times as long
/// as a look takes, which is a fiftieth of a core: while what is allocated moves by a
/// [`NOTABLE`] part of the limit.
const MOVING: (Duration, u32) = (Duration::from_millis(200), 50);
/// Likewise otherwise: a five hundredth of a core.
const AT_REST: (Duration, u32) = (Duration::from_secs(1), 500);
const NOTABLE: u64 = 64;

/// Tells an engine what the process occupies.
#[derive(Debug)]
pub(crate) struct Watch {
    looked: Arc<Mutex<Looked>>,
    /// None where the allocator does not count, and so nothing could be told apart.
    thread: Option<JoinHandle<()>>,
}

/// Tells the engine what the process occupies, now and again, until this is dropped or
/// the engine is gone. On a thread of its own: a look at many gigabytes takes a while.
pub(crate) fn watch(engine: &Arc<Engine>) -> Watch {
    let looked = Arc::<Mutex<Looked>>::default();
    let thread = heap::bytes().map(|_| {
        if let Some(resident) = occupied::resident() {
            engine.ask_resident(resident);
        }
        let (engine, looked) = (Arc::downgrade(engine), Arc::clone(&looked));
        coeval_env::spawn_dedicated("memory", move || async move {
            while let Some(engine) = engine.upgrade() {
                let took = tell(&engine, &looked);
                let notable = engine.memory().limit / NOTABLE;
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
    /// Looks at once, unless somebody has just looked.
    pub(crate) fn look(&self, engine: &Engine) {
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

/// Returns how long the last look took.
fn tell(engine: &Engine, looked: &Mutex<Looked>) -> Duration {
    let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(occupied) = looked.look() {
        engine.set_occupied(occupied.arenas, occupied.program);
    }
    looked.took()
}

/// A file of the kernel's, which has no length that it would tell.
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
