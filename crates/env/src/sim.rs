//! The simulated world: machines whose every accident a seed decides.
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
//! A [`World`] is one paused, single-threaded tokio runtime. Tasks run one step
//! at a time; when all of them wait, the clock jumps to the next timer. Each task
//! belongs to a *node*, a simulated machine with a disk; the executor sets the
//! node's identity before it polls a task, which is how the free functions of this
//! crate know whose disk they mean.
//!
//! # What a crash does
//!
//! A crash drops every task of the node, and from its disk whatever was not made
//! durable. Of each sector written since its last sync any version may be what is
//! found afterwards, independently of all others; a length that was not synced may
//! be the old or the new one; of a directory's changes since its last sync a
//! prefix survives. [`Loss`] can ask for the extremes. [`World::crash_at`] crashes
//! a node during its n-th change of its disk, so that a test can try them all.
//! [`World::kill`] drops the tasks and leaves the disk as it is, synced or not.
//!
//! # What a seed decides
//!
//! Random numbers, what a crash leaves, and how long disks take: and with that, in
//! what order tasks go on. Everything a task does through this crate goes into
//! [`World::trace_hash`]; two runs of a seed give the same.
//!
//! # What it cannot do yet
//!
//! No delays, losses or partitions in the network, no drift between clocks. A
//! world in which every task waits for another and none for a timer hangs.
#![allow(clippy::disallowed_methods, reason = "this is the door itself")]

mod disk;
pub(crate) mod fs;
pub(crate) mod net;
pub(crate) mod task;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use disk::Disk;
pub use disk::Loss;
use net::Network;

use crate::{Instant, JoinError, JoinHandle};

/// A simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(usize);

/// When simulated wall clocks start: 2026-01-01, in UTC.
const WALL_CLOCK_START: Duration = Duration::from_secs(1_767_225_600);

/// A simulated world. Everything in it happens during [`World::run`] and
/// [`World::block_on`], on the thread that calls them.
pub struct World {
    runtime: tokio::runtime::Runtime,
    local: tokio::task::LocalSet,
    shared: Arc<Shared>,
}

/// What all tasks of a world share.
pub(crate) struct Shared {
    started: tokio::time::Instant,
    random: Mutex<StdRng>,
    trace: Mutex<u64>,
    nodes: Mutex<Vec<Machine>>,
    network: Mutex<Network>,
}

/// One node's state.
struct Machine {
    disk: Arc<Mutex<Disk>>,
    /// How often it has crashed. A task of an earlier life is dead.
    life: u64,
    /// Tasks of this life, to be aborted when it ends.
    tasks: Vec<tokio::task::AbortHandle>,
}

/// Whose the running task is.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) node: Node,
    pub(crate) life: u64,
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
    /// Whether this thread runs a simulated world.
    static IN_WORLD: Cell<bool> = const { Cell::new(false) };
}

/// The running task's context; `None` in the real world.
pub(crate) fn current() -> Option<Context> {
    // A thread that is being torn down runs no simulated task.
    let context = CONTEXT
        .try_with(|context| context.borrow().clone())
        .ok()
        .flatten();
    if context.is_none() {
        let in_world = IN_WORLD.try_with(Cell::get).unwrap_or(false);
        assert!(
            !in_world,
            "a call of the environment from outside every task of the simulated world"
        );
    }
    context
}

/// Restores a thread local when dropped.
struct Restore<F: FnMut()>(F);

impl<F: FnMut()> Drop for Restore<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Context {
    /// Runs `action` as this task.
    pub(crate) fn enter<T>(&self, action: impl FnOnce() -> T) -> T {
        let mut before = CONTEXT.replace(Some(self.clone()));
        let _restore = Restore(|| {
            CONTEXT.replace(before.take());
        });
        action()
    }

    /// Whether the node has crashed since this task began.
    pub(crate) fn is_dead(&self) -> bool {
        self.shared.nodes()[self.node.0].life != self.life
    }

    pub(crate) fn disk(&self) -> Arc<Mutex<Disk>> {
        Arc::clone(&self.shared.nodes()[self.node.0].disk)
    }

    /// Notes what this task does.
    pub(crate) fn trace(&self, what: &str, details: &[u64]) {
        let mut event = vec![self.now_nanos(), self.node.0 as u64];
        event.extend_from_slice(details);
        self.shared.trace(what, &event);
    }

    fn now_nanos(&self) -> u64 {
        let elapsed = tokio::time::Instant::now() - self.shared.started;
        u64::try_from(elapsed.as_nanos()).expect("a world lasts less than centuries")
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::since_origin(Duration::from_nanos(self.now_nanos()))
    }

    pub(crate) fn wall_clock(&self) -> Duration {
        WALL_CLOCK_START + Duration::from_nanos(self.now_nanos())
    }

    pub(crate) fn random_u64(&self) -> u64 {
        let number = self.shared.random().next_u64();
        self.trace("random", &[number]);
        number
    }

    pub(crate) fn random_bytes(&self, bytes: &mut [u8]) {
        self.shared.random().fill_bytes(bytes);
        self.trace("random", &[bytes.len() as u64, hash_bytes(0, bytes)]);
    }
}

impl Shared {
    fn nodes(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.nodes.lock().expect("no panic under this lock")
    }

    pub(crate) fn random(&self) -> MutexGuard<'_, StdRng> {
        self.random.lock().expect("no panic under this lock")
    }

    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().expect("no panic under this lock")
    }

    fn trace(&self, what: &str, details: &[u64]) {
        let mut trace = self.trace.lock().expect("no panic under this lock");
        *trace = hash_bytes(*trace, what.as_bytes());
        for &detail in details {
            *trace = mix(*trace, detail);
        }
    }

    /// The power fails: the node's tasks go, and what its disk had not made durable.
    pub(crate) fn crash(&self, node: Node) {
        self.end_life(node, true);
    }

    fn end_life(&self, node: Node, power_fails: bool) {
        self.trace("crash", &[node.0 as u64, u64::from(power_fails)]);
        let (disk, tasks) = {
            let mut nodes = self.nodes();
            let machine = &mut nodes[node.0];
            machine.life += 1;
            (
                Arc::clone(&machine.disk),
                std::mem::take(&mut machine.tasks),
            )
        };
        if power_fails {
            let mut random = self.random();
            let mut disk = disk.lock().expect("no panic under this lock");
            disk.crash(&mut random);
        }
        for task in tasks {
            task.abort();
        }
    }
}

const fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

pub(crate) fn hash_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .chunks(8)
        .fold(mix(hash, bytes.len() as u64), |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash, u64::from_le_bytes(word))
        })
}

impl World {
    /// An empty world in which `seed` decides.
    ///
    /// # Panics
    /// When the runtime cannot be made.
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
                nodes: Mutex::default(),
                network: Mutex::default(),
            }),
        }
    }

    /// A new machine with an empty disk.
    #[must_use]
    pub fn node(&self) -> Node {
        let mut nodes = self.shared.nodes();
        nodes.push(Machine {
            disk: Arc::default(),
            life: 0,
            tasks: Vec::new(),
        });
        Node(nodes.len() - 1)
    }

    /// Runs `future` as a task of `node` until it has ended, and everybody else
    /// meanwhile. [`JoinError::Cancelled`] when the node has crashed instead.
    pub fn run<F>(&self, node: Node, future: F) -> Result<F::Output, JoinError>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.block_on(self.spawn(node, future))
    }

    /// Starts a task on `node`; it goes on whenever the world does.
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

    /// Drives the world until `future` has ended. The future itself is the test's,
    /// not a machine's: it spawns and crashes, and calls nothing of the environment.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let before = IN_WORLD.replace(true);
        let _restore = Restore(|| IN_WORLD.set(before));
        self.local.block_on(&self.runtime, future)
    }

    /// The power of `node` fails.
    pub fn crash(&self, node: Node) {
        self.end_life(node, true);
    }

    /// Kills the process on `node`, at an await: its tasks go. Its disk goes on
    /// showing everything written, of which only what was synced is durable.
    pub fn kill(&self, node: Node) {
        self.end_life(node, false);
    }

    fn end_life(&self, node: Node, power_fails: bool) {
        let _runtime = self.runtime.enter();
        self.shared.end_life(node, power_fails);
        // Its tasks are dropped when the executor next looks at them.
        self.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// The power of `node` will fail during its `n`-th change of its disk, counted
    /// from 0 and from the first one it ever made; `None` takes that back.
    pub fn crash_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.crash_at = n);
    }

    /// The `n`-th sync of a file on `node`'s disk, counted as changes are, fails;
    /// what it should have made durable is shown for as long as the node lives, and
    /// then gone.
    pub fn fail_sync_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.fail_sync_at = n);
    }

    /// How many bytes the files on `node`'s disk may have together.
    pub fn set_capacity(&self, node: Node, bytes: u64) {
        self.disk(node, |disk| disk.faults.capacity = bytes);
    }

    /// What crashes of `node` leave of what was not durable.
    pub fn set_loss(&self, node: Node, loss: Loss) {
        self.disk(node, |disk| disk.faults.loss = loss);
    }

    /// How many changes `node` has made to its disk: writes, syncs, new files, new
    /// names, new lengths.
    #[must_use]
    pub fn disk_changes(&self, node: Node) -> u64 {
        self.disk(node, |disk| disk.changes)
    }

    /// How many syncs of files `node` has made.
    #[must_use]
    pub fn disk_syncs(&self, node: Node) -> u64 {
        self.disk(node, |disk| disk.syncs)
    }

    /// Changes a byte on the disk, durably, behind the node's back.
    ///
    /// # Panics
    /// When there is no such byte.
    pub fn damage(&self, node: Node, path: &str, offset: u64, change: impl FnOnce(u8) -> u8) {
        self.disk(node, |disk| disk.damage(path.as_ref(), offset, change));
    }

    /// The files on `node`'s disk and their contents, as a program would see them.
    #[must_use]
    pub fn files(&self, node: Node) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        self.disk(node, |disk| disk.files())
    }

    fn disk<T>(&self, node: Node, action: impl FnOnce(&mut Disk) -> T) -> T {
        let disk = Arc::clone(&self.shared.nodes()[node.0].disk);
        let mut disk = disk.lock().expect("no panic under this lock");
        action(&mut disk)
    }

    /// A hash of everything that has happened so far.
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
