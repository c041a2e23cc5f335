//! What a test does to the machines of a world: the knobs.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cpu::Cores;
use super::disk::Disk;
use super::{Cpu, Link, Loss, Node, Traffic, World};

/// Disks.
impl World {
    fn disk<T>(&self, node: Node, action: impl FnOnce(&mut Disk) -> T) -> T {
        let disk = Arc::clone(&self.shared.nodes()[node.0].disk);
        let mut disk = disk.lock().expect("no panic under this lock");
        action(&mut disk)
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

    /// Whether all syncs of files on `node`'s disk fail, as above.
    pub fn fail_syncs(&self, node: Node, fail: bool) {
        self.disk(node, |disk| disk.faults.fail_syncs = fail);
    }

    /// Whether all writes to `node`'s disk fail, and change nothing.
    pub fn fail_writes(&self, node: Node, fail: bool) {
        self.disk(node, |disk| disk.faults.fail_writes = fail);
    }

    /// The `n`-th change of `node`'s disk, if it is a write, lands at another sector,
    /// perhaps of another file, and reports success.
    pub fn misdirect_write_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.misdirect_at = n);
    }

    /// How long syncs of files on `node`'s disk take: evenly between these.
    pub fn set_sync_time(&self, node: Node, time: Range<Duration>) {
        assert!(time.start <= time.end, "a range of durations");
        self.disk(node, |disk| disk.faults.sync_time = time);
    }

    /// How many bytes the files on `node`'s disk may have together.
    pub fn set_capacity(&self, node: Node, bytes: u64) {
        self.disk(node, |disk| disk.faults.capacity = bytes);
    }

    /// What crashes of `node` leave of what was not durable.
    pub fn set_loss(&self, node: Node, loss: Loss) {
        self.disk(node, |disk| disk.faults.loss = loss);
    }

    /// Whether a crash of `node` may leave a sector that is one version up to a byte
    /// and the version before it from there on.
    pub fn set_torn_sectors(&self, node: Node, torn: bool) {
        self.disk(node, |disk| disk.faults.torn_sectors = torn);
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

    /// Flips a durable bit, which the seed chooses, in one of the files that `choose`
    /// agrees to; says where. `None` when there was none, or the node is just about to
    /// write there.
    pub fn flip_bit(&self, node: Node, choose: impl Fn(&Path) -> bool) -> Option<(PathBuf, u64)> {
        let flipped = self.disk(node, |disk| {
            disk.flip_bit(choose, &mut self.shared.random())
        });
        let place = flipped.as_ref().map_or(u64::MAX, |(_, offset)| *offset);
        self.shared.trace("flip", &[node.0 as u64, place]);
        flipped
    }

    /// Gives `node`, whose process must be dead, another disk: an empty one.
    pub fn replace_disk(&self, node: Node) {
        self.shared.trace("replace disk", &[node.0 as u64]);
        self.shared.nodes()[node.0].disk = Arc::default();
    }

    /// The files on `node`'s disk and their contents, as a program would see them.
    #[must_use]
    pub fn files(&self, node: Node) -> Vec<(PathBuf, Vec<u8>)> {
        self.disk(node, |disk| disk.files())
    }
}

/// Clocks and processors.
impl World {
    fn now(&self) -> u64 {
        let _runtime = self.runtime.enter();
        self.shared.now_nanos()
    }

    /// From now on `node`'s clocks run too fast by so many millionths, or too slow if
    /// negative; timers, too.
    ///
    /// # Panics
    /// When that would be wrong by half or more.
    pub fn set_drift(&self, node: Node, millionths: i64) {
        assert!(millionths.abs() < 500_000, "a clock, not a random number");
        let now = self.now();
        self.shared
            .trace("drift", &[node.0 as u64, millionths.unsigned_abs()]);
        self.shared.nodes()[node.0].clock.set_drift(now, millionths);
    }

    /// Sets `node`'s wall clock forward by so many milliseconds, or back if negative.
    pub fn move_wall_clock(&self, node: Node, milliseconds: i64) {
        self.shared
            .trace("jump", &[node.0 as u64, milliseconds.unsigned_abs()]);
        let nanos = i128::from(milliseconds) * 1_000_000;
        self.shared.nodes()[node.0].clock.jump(nanos);
    }

    /// Nobody on `node` is polled until it is resumed. Time goes on.
    pub fn pause(&self, node: Node) {
        self.shared.trace("pause", &[node.0 as u64]);
        self.shared.nodes()[node.0].paused = true;
    }

    /// Ends a pause of `node`.
    pub fn resume(&self, node: Node) {
        self.shared.trace("resume", &[node.0 as u64]);
        let parked = {
            let mut nodes = self.shared.nodes();
            nodes[node.0].paused = false;
            std::mem::take(&mut nodes[node.0].parked)
        };
        for waker in parked {
            waker.wake();
        }
    }

    /// What steps on `node` have taken of its processors since they were set.
    #[must_use]
    pub fn processor_time(&self, node: Node) -> Duration {
        self.shared.nodes()[node.0].cores.busy()
    }

    /// From now on work on `node` takes time; `None` for none again.
    pub fn set_cpu(&self, node: Node, cpu: Option<Cpu>) {
        let now = self.now();
        let cores = cpu.map_or_else(Cores::default, |cpu| Cores::new(cpu, now));
        self.shared.nodes()[node.0].cores = cores;
    }
}

/// The network.
impl World {
    /// How links are where nothing else is set.
    pub fn set_usual_link(&self, link: Link) {
        self.shared.network().links.set_usual(link);
    }

    /// How bytes get from one node to another from now on; `None` for as usual.
    pub fn set_link(&self, from: Node, to: Node, link: Option<Link>) {
        let mut network = self.shared.network();
        match link {
            Some(link) => network.links.set(from, to, link),
            None => network.links.reset(from, to),
        }
    }

    /// What has become of everything that was sent so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.network().links.traffic()
    }

    /// Nothing that is sent from now on gets from one node to another.
    pub fn block(&self, from: Node, to: Node) {
        self.shared.trace("block", &[from.0 as u64, to.0 as u64]);
        self.shared.network().links.block(from, to);
    }

    /// Opens a link again; what was sent meanwhile is on its way.
    pub fn unblock(&self, from: Node, to: Node) {
        self.shared.trace("unblock", &[from.0 as u64, to.0 as u64]);
        let connections = {
            let mut network = self.shared.network();
            if !network.links.unblock(from, to) {
                return;
            }
            network.connections()
        };
        let _runtime = self.runtime.enter();
        for connection in connections {
            connection.opened(from, to);
        }
    }

    /// Breaks every connection between two nodes, at both ends.
    pub fn break_connections(&self, one: Node, other: Node) {
        self.shared.trace("break", &[one.0 as u64, other.0 as u64]);
        let connections = self.shared.network().connections();
        let _runtime = self.runtime.enter();
        for connection in connections {
            if connection.is_between(one, other) {
                connection.reset();
            }
        }
    }
}
