//! The simulated world: a deterministic simulation of machines, disks, clocks and a
//! network, in which a seed decides every fault.
//!
//! ```
//! use std::time::Duration;
//! use coeval_env::{JoinError, fs};
//! use coeval_env::sim::{Loss, World};
//!
//! let world = World::new(7);
//! let node = world.node();
//! world.set_loss(node, Loss::Everything);
//! world.crash_at(node, Some(3));
//! let crashed = world.run(node, async {
//!     let file = fs::open("/notes", fs::OpenOptions::CREATE).await.unwrap(); // change 0
//!     file.write_at(b"kept", 0).await.unwrap();                              // 1
//!     coeval_env::sleep(Duration::from_secs(3600)).await; // takes no real time
//!     fs::sync_dir("/").await.unwrap();                                      // 2
//!     file.sync_all().await.unwrap();                                        // 3
//! });
//! assert_eq!(crashed, Err(JoinError::Cancelled));
//! let notes = world.run(node, async { fs::read("/notes").await.unwrap() });
//! assert_eq!(notes, Ok(vec![]), "the name was synced, the bytes were not");
//! ```
//!
//! A [`World`] is one paused, single-threaded tokio runtime. Tasks run one step at a time;
//! when all of them wait, the clock jumps to the next timer. Each task belongs to a *node*,
//! a simulated machine with a disk, clocks, processors and links to the others; the
//! executor sets the node's identity before it polls a task, which is how the free
//! functions of this crate find the right disk.
//!
//! When every task of a world waits for another and none for a timer, the world has ended:
//! [`World::run`] returns [`JoinError::Stuck`].
//!
//! # What the seed decides
//!
//! Random numbers, the effects of a crash, the duration of disk and network operations, the
//! position of a flipped bit: and with that, the order in which tasks run. Tasks that one
//! event wakes run in the order in which they were started (`alarm`), whatever order the
//! library wakes them in, which may be random. Every effect of a task through this crate
//! goes into [`World::trace_hash`]; two runs of a seed have the same hash. The test decides
//! *when* a fault happens, by the calls below, at a point of virtual time or at the n-th
//! change of a disk; the test usually generates its plan from the seed (the crate
//! `coeval-sim` does).
//!
//! # Effects of a crash
//!
//! A crash drops every task of the node, and everything on its disk that was not durable.
//! Of each sector written since its last sync any version may be found afterwards,
//! independently of all others, and with [`World::set_torn_sectors`] a mixture of two; an
//! unsynced length may be the old or the new one; of a directory's changes since its last
//! sync a prefix survives. [`Loss`] selects the extremes. [`World::crash_at`] crashes a
//! node during its n-th change of its disk, so that a test can try them all.
//! [`World::kill`] drops the tasks and leaves the disk as it is, synced or not.
//!
//! # Faults, and their counterparts on real machines
//!
//! | part | calls | counterpart |
//! | --- | --- | --- |
//! | disk | [`crash`](World::crash), [`set_loss`](World::set_loss), [`set_torn_sectors`](World::set_torn_sectors) | the power fails |
//! | | [`fail_sync_at`](World::fail_sync_at), [`fail_syncs`](World::fail_syncs), [`fail_writes`](World::fail_writes) | a device that reports errors, once or for good |
//! | | [`flip_bit`](World::flip_bit), [`damage`](World::damage) | a latent sector error, found by the next read |
//! | | [`misdirect_write_at`](World::misdirect_write_at) | firmware that writes elsewhere and reports success |
//! | | [`set_sync_time`](World::set_sync_time), [`set_capacity`](World::set_capacity) | slow, full |
//! | | [`replace_disk`](World::replace_disk) | a replacement machine |
//! | clocks | [`set_drift`](World::set_drift), [`move_wall_clock`](World::move_wall_clock) | a bad crystal; skew, jumps, an operator with `date` |
//! | processor | [`pause`](World::pause), [`resume`](World::resume) | SIGSTOP, a hypervisor that preempts the machine |
//! | | [`set_cpu`](World::set_cpu), [`crate::spend`], [`crate::work`] | work takes time, on a limited number of cores |
//! | network | [`set_link`](World::set_link), [`block`](World::block), [`break_connections`](World::break_connections) | see [`Link`] |
//!
//! # Limits
//!
//! In-memory code between two awaits is one step: races within one are tested with loom and
//! shuttle. Bytes that a step sends leave when the step begins, although its processor time
//! is accounted after it. There are no datagrams.
#![allow(clippy::disallowed_methods, reason = "this is the environment itself")]

mod alarm;
mod clock;
mod cpu;
mod disk;
mod faults;
pub(crate) mod fs;
mod link;
pub(crate) mod net;
mod pipe;
mod shared;
mod stream;
pub(crate) mod task;

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

pub use cpu::{Cpu, Prices};
pub use disk::Loss;
pub use link::{Latency, Link, Traffic};
pub(crate) use shared::{Context, current, hash_bytes};
use shared::{Machine, Restore, Shared, enter_world};

use crate::{JoinError, JoinHandle};

/// A simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(usize);

impl Node {
    /// The node's number: 0 for the first one made, then ascending.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }
}

/// No task sleeps for this long on purpose: when the clock reaches it, every task waits for
/// another.
const STUCK_AFTER: Duration = Duration::from_secs(365 * 24 * 3600);

/// True time since the world of the calling task began, whatever the clock of its node
/// shows: for judges, which compare the times of several nodes. Zero in the real
/// environment.
#[must_use]
pub fn elapsed() -> Duration {
    let elapsed = current().map(|context| Duration::from_nanos(context.shared.now_nanos()));
    elapsed.unwrap_or_default()
}

/// A simulated world. Its tasks run only during [`World::run`] and [`World::block_on`], on
/// the calling thread.
pub struct World {
    runtime: tokio::runtime::Runtime,
    local: tokio::task::LocalSet,
    shared: Arc<Shared>,
}

impl World {
    /// An empty world with this seed.
    ///
    /// # Panics
    /// When the runtime cannot be created.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without drivers");
        let started = runtime.block_on(async { tokio::time::Instant::now() });
        Self {
            runtime,
            local: tokio::task::LocalSet::new(),
            shared: Arc::new(Shared {
                started,
                random: Mutex::new(StdRng::seed_from_u64(seed)),
                trace: Mutex::new(seed),
                alarms: Arc::default(),
                nodes: Mutex::default(),
                network: Mutex::default(),
            }),
        }
    }

    /// Adds a machine with an empty disk. It may join at any time.
    #[must_use]
    pub fn node(&self) -> Node {
        let mut nodes = self.shared.nodes();
        nodes.push(Machine::default());
        Node(nodes.len() - 1)
    }

    /// Sets the addresses of a host name; a world has no names of its own.
    pub fn name(&self, host: &str, addresses: &[IpAddr]) {
        let names = &mut self.shared.network().names;
        names.insert(host.to_owned(), addresses.to_vec());
    }

    /// Runs `future` as a task of `node` until it has ended, and all other tasks meanwhile.
    /// Returns [`JoinError::Cancelled`] when the node has crashed instead,
    /// [`JoinError::Stuck`] when the task waits and nothing can ever wake it.
    pub fn run<F>(&self, node: Node, future: F) -> Result<F::Output, JoinError>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let task = self.spawn(node, future);
        self.drive(task).unwrap_or(Err(JoinError::Stuck))
    }

    /// Starts a task on `node`; it runs whenever the world is driven.
    pub fn spawn<F>(&self, node: Node, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let _runtime = self.runtime.enter();
        let _local = self.local.enter();
        let life = self.shared.nodes()[node.0].life;
        let context = Context {
            shared: Arc::clone(&self.shared),
            node,
            life,
        };
        JoinHandle {
            inner: task::spawn_local(context, "main", future),
        }
    }

    /// Drives the world until `future` has ended. The future belongs to the test, not to a
    /// machine: it spawns tasks and crashes nodes, and of the environment it may only use
    /// [`World::wait`].
    ///
    /// # Panics
    /// When every task waits for another, and none for a timer.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let output = self.drive(future);
        output.expect("every task of the simulated world waits for another")
    }

    /// Drives the world until `future` has ended; `None` when no task can ever run again.
    fn drive<F: Future>(&self, future: F) -> Option<F::Output> {
        let before = enter_world(true);
        let _restore = Restore(|| {
            enter_world(before);
        });
        self.local.block_on(&self.runtime, async {
            tokio::select! {
                biased;
                output = future => Some(output),
                () = clock::sleep(STUCK_AFTER) => None,
            }
        })
    }

    /// Lets `duration` of true time pass. The test's own future calls it in
    /// [`World::block_on`], between two faults.
    pub async fn wait(&self, duration: Duration) {
        clock::sleep(duration).await;
    }

    /// True time since the world began. The nodes' clocks may show other times.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let _runtime = self.runtime.enter();
        Duration::from_nanos(self.shared.now_nanos())
    }

    /// Fails the power of `node`. Within [`World::block_on`] its tasks are dropped at the
    /// next await.
    pub fn crash(&self, node: Node) {
        self.end_life(node, true);
    }

    /// Kills the process on `node`, at an await: its tasks are dropped. Its disk still
    /// shows everything written, of which only synced bytes are durable.
    pub fn kill(&self, node: Node) {
        self.end_life(node, false);
    }

    fn end_life(&self, node: Node, power_fails: bool) {
        let driven = tokio::runtime::Handle::try_current().is_ok();
        let _runtime = self.runtime.enter();
        self.shared.end_life(node, power_fails);
        if driven {
            return;
        }
        // The executor drops the tasks when it next polls them.
        self.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// A hash of all events so far.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        *self.shared.trace.lock().expect("no panic under this lock")
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("World")
            .field("trace_hash", &self.trace_hash())
            .finish_non_exhaustive()
    }
}
