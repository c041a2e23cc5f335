//! The state that all tasks of a simulated world share, and the identity of the running
//! task.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::Node;
use super::alarm::Alarms;
use super::clock::Clock;
use super::cpu::Cores;
use super::disk::Disk;
use super::net::Network;
use crate::{Instant, Work};

/// State that all tasks of a world share.
pub(crate) struct Shared {
    pub(super) started: tokio::time::Instant,
    pub(super) random: Mutex<StdRng>,
    pub(super) trace: Mutex<u64>,
    pub(super) alarms: Arc<Alarms>,
    pub(super) nodes: Mutex<Vec<Machine>>,
    pub(super) network: Mutex<Network>,
}

/// State of one node.
#[derive(Default)]
pub(crate) struct Machine {
    pub(super) disk: Arc<Mutex<Disk>>,
    /// Number of crashes so far. A task of an earlier life is dead.
    pub(super) life: u64,
    /// Whether the node's latest life ended by a power failure, of which its peers were
    /// not notified.
    pub(super) lost_power: bool,
    /// Tasks of the node's present life, which are aborted when it ends.
    pub(super) tasks: Vec<tokio::task::AbortHandle>,
    pub(super) clock: Clock,
    pub(super) cores: Cores,
    pub(super) paused: bool,
    /// Wakers of the tasks that would have been polled during a pause.
    pub(super) parked: Vec<Waker>,
}

/// Identity of a task: its world, its node, and the node's life.
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

/// Sets whether this thread runs a simulated world; returns whether it did before.
pub(super) fn enter_world(inside: bool) -> bool {
    IN_WORLD.replace(inside)
}

/// The running task's context; `None` in the real environment.
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
pub(super) struct Restore<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for Restore<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Context {
    /// Runs `action` with this task's identity.
    pub(crate) fn enter<T>(&self, action: impl FnOnce() -> T) -> T {
        let mut before = CONTEXT.replace(Some(self.clone()));
        let _restore = Restore(|| {
            CONTEXT.replace(before.take());
        });
        self.shared.alarms.in_order(action)
    }

    /// Runs `action` on this task's machine.
    pub(crate) fn machine<T>(&self, action: impl FnOnce(&mut Machine) -> T) -> T {
        action(&mut self.shared.nodes()[self.node.0])
    }

    /// Whether the node has crashed or been killed since this task began.
    pub(crate) fn is_dead(&self) -> bool {
        self.machine(|machine| machine.life != self.life)
    }

    /// Whether the node has lost its power since this task began, so that its peers were
    /// not notified.
    pub(crate) fn has_lost_power(&self) -> bool {
        self.machine(|machine| machine.life != self.life && machine.lost_power)
    }

    pub(crate) fn disk(&self) -> Arc<Mutex<Disk>> {
        self.machine(|machine| Arc::clone(&machine.disk))
    }

    /// Adds an event of this task to the trace.
    pub(crate) fn trace(&self, what: &str, details: &[u64]) {
        let mut event = vec![self.shared.now_nanos(), self.node.0 as u64];
        event.extend_from_slice(details);
        self.shared.trace(what, &event);
    }

    pub(crate) fn now(&self) -> Instant {
        let now = self.shared.now_nanos();
        let shown = self.machine(|machine| machine.clock.monotonic(now));
        Instant::since_origin(Duration::from_nanos(shown))
    }

    pub(crate) fn wall_clock(&self) -> Duration {
        let now = self.shared.now_nanos();
        self.machine(|machine| machine.clock.wall(now))
    }

    /// Waits for `duration` on this node's clock.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let truly = self.machine(|machine| machine.clock.truly(duration));
        super::clock::sleep(truly).await;
    }

    /// Charges `duration` of processor time to the running step.
    pub(crate) fn spend(&self, duration: Duration) {
        self.machine(|machine| machine.cores.spend(duration));
    }

    /// Charges `times` units of work to the running step.
    pub(crate) fn work(&self, work: Work, times: usize) {
        self.machine(|machine| machine.cores.work(work, times));
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

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.node)
    }
}

impl Shared {
    pub(super) fn nodes(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.nodes.lock().expect("no panic under this lock")
    }

    pub(crate) fn random(&self) -> MutexGuard<'_, StdRng> {
        self.random.lock().expect("no panic under this lock")
    }

    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().expect("no panic under this lock")
    }

    /// True time since the world began.
    pub(crate) fn now_nanos(&self) -> u64 {
        super::clock::since(self.started)
    }

    pub(super) fn trace(&self, what: &str, details: &[u64]) {
        let mut trace = self.trace.lock().expect("no panic under this lock");
        *trace = hash_bytes(*trace, what.as_bytes());
        for &detail in details {
            *trace = mix(*trace, detail);
        }
    }

    /// Fails the power of a node: its tasks are dropped, and everything on its disk that
    /// was not durable is lost.
    pub(crate) fn crash(&self, node: Node) {
        self.end_life(node, true);
    }

    pub(super) fn end_life(&self, node: Node, power_fails: bool) {
        self.trace("crash", &[node.0 as u64, u64::from(power_fails)]);
        let (disk, tasks) = {
            let mut nodes = self.nodes();
            let machine = &mut nodes[node.0];
            machine.life += 1;
            machine.lost_power = power_fails;
            machine.paused = false;
            machine.parked.clear();
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
