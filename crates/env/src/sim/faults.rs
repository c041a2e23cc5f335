//! Fault injection: the calls by which a test causes faults on the machines of a world.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cpu::Cores;
use super::disk::Disk;
use super::{Cpu, Link, Loss, Node, Traffic, World};

/// Faults of disks.
impl World {
    fn disk<T>(&self, node: Node, action: impl FnOnce(&mut Disk) -> T) -> T {
        let disk = Arc::clone(&self.shared.nodes()[node.0].disk);
        let mut disk = disk.lock().expect("no panic under this lock");
        action(&mut disk)
    }

    /// Makes the power of `node` fail during its `n`-th change of its disk, counted from
    /// 0 and from the first change it ever made; `None` cancels that.
    pub fn crash_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.crash_at = n);
    }

    /// Makes the `n`-th sync of a file on `node`'s disk fail, counted as for `crash_at`;
    /// the bytes it should have made durable are visible for as long as the node runs,
    /// and then lost.
    pub fn fail_sync_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.fail_sync_at = n);
    }

    /// Sets whether all syncs of files on `node`'s disk fail, with the same effect.
    pub fn fail_syncs(&self, node: Node, fail: bool) {
        self.disk(node, |disk| disk.faults.fail_syncs = fail);
    }

    /// Sets whether all writes to `node`'s disk fail, and change nothing.
    pub fn fail_writes(&self, node: Node, fail: bool) {
        self.disk(node, |disk| disk.faults.fail_writes = fail);
    }

    /// Makes the `n`-th change of `node`'s disk, if it is a write, land at another
    /// sector, perhaps of another file, and report success.
    pub fn misdirect_write_at(&self, node: Node, n: Option<u64>) {
        self.disk(node, |disk| disk.faults.misdirect_at = n);
    }

    /// Sets the duration of syncs on `node`'s disk, uniform in this range.
    pub fn set_sync_time(&self, node: Node, time: Range<Duration>) {
        assert!(time.start <= time.end, "a range of durations");
        self.disk(node, |disk| disk.faults.sync_time = time);
    }

    /// Sets the capacity of `node`'s disk, in bytes of all files together.
    pub fn set_capacity(&self, node: Node, bytes: u64) {
        self.disk(node, |disk| disk.faults.capacity = bytes);
    }

    /// Sets which unsynced changes a crash of `node` loses.
    pub fn set_loss(&self, node: Node, loss: Loss) {
        self.disk(node, |disk| disk.faults.loss = loss);
    }

    /// Sets whether a crash of `node` may leave a torn sector: one version up to a byte,
    /// and the previous version after it.
    pub fn set_torn_sectors(&self, node: Node, torn: bool) {
        self.disk(node, |disk| disk.faults.torn_sectors = torn);
    }

    /// Number of changes that `node` has made to its disk: writes, syncs, new files, new
    /// names, new lengths.
    #[must_use]
    pub fn disk_changes(&self, node: Node) -> u64 {
        self.disk(node, |disk| disk.changes)
    }

    /// Number of syncs of files that `node` has made.
    #[must_use]
    pub fn disk_syncs(&self, node: Node) -> u64 {
        self.disk(node, |disk| disk.syncs)
    }

    /// Changes a byte on the disk, durably, without the node's knowledge.
    ///
    /// # Panics
    /// When there is no such byte.
    pub fn damage(&self, node: Node, path: &str, offset: u64, change: impl FnOnce(u8) -> u8) {
        self.disk(node, |disk| disk.damage(path.as_ref(), offset, change));
    }

    /// Flips a durable bit, chosen by the seed, in one of the files that `choose`
    /// accepts, and returns its file and offset. `None` when there is none, or the node
    /// has an unsynced write there.
    pub fn flip_bit(&self, node: Node, choose: impl Fn(&Path) -> bool) -> Option<(PathBuf, u64)> {
        let flipped = self.disk(node, |disk| {
            disk.flip_bit(choose, &mut self.shared.random())
        });
        let place = flipped.as_ref().map_or(u64::MAX, |(_, offset)| *offset);
        self.shared.trace("flip", &[node.0 as u64, place]);
        flipped
    }

    /// Replaces the disk of `node`, whose process must be dead, by an empty one.
    pub fn replace_disk(&self, node: Node) {
        self.shared.trace("replace disk", &[node.0 as u64]);
        self.shared.nodes()[node.0].disk = Arc::default();
    }

    /// The files on `node`'s disk with their contents, as a program would read them.
    #[must_use]
    pub fn files(&self, node: Node) -> Vec<(PathBuf, Vec<u8>)> {
        self.disk(node, |disk| disk.files())
    }
}

/// Faults of clocks and processors.
impl World {
    fn now(&self) -> u64 {
        let _runtime = self.runtime.enter();
        self.shared.now_nanos()
    }

    /// Sets the rate error of `node`'s clocks and timers, in millionths; positive when
    /// they run too fast.
    ///
    /// # Panics
    /// When the error would be a half or more.
    pub fn set_drift(&self, node: Node, millionths: i64) {
        assert!(millionths.abs() < 500_000, "a clock, not a random number");
        let now = self.now();
        self.shared
            .trace("drift", &[node.0 as u64, millionths.unsigned_abs()]);
        self.shared.nodes()[node.0].clock.set_drift(now, millionths);
    }

    /// Moves `node`'s wall clock forward by this many milliseconds, or back if negative.
    pub fn move_wall_clock(&self, node: Node, milliseconds: i64) {
        self.shared
            .trace("jump", &[node.0 as u64, milliseconds.unsigned_abs()]);
        let nanos = i128::from(milliseconds) * 1_000_000;
        self.shared.nodes()[node.0].clock.jump(nanos);
    }

    /// Pauses `node`: none of its tasks is polled until it is resumed. Time continues.
    pub fn pause(&self, node: Node) {
        self.shared.trace("pause", &[node.0 as u64]);
        self.shared.nodes()[node.0].paused = true;
    }

    /// Resumes a paused `node`.
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

    /// Processor time that steps on `node` have taken since its processors were set.
    #[must_use]
    pub fn processor_time(&self, node: Node) -> Duration {
        self.shared.nodes()[node.0].cores.busy()
    }

    /// Sets the processors of `node`, on which work takes time; with `None` work takes no
    /// time.
    pub fn set_cpu(&self, node: Node, cpu: Option<Cpu>) {
        let now = self.now();
        let cores = cpu.map_or_else(Cores::default, |cpu| Cores::new(cpu, now));
        self.shared.nodes()[node.0].cores = cores;
    }
}

/// Faults of the network.
impl World {
    /// Sets the properties of links for which no others are set.
    pub fn set_usual_link(&self, link: Link) {
        self.shared.network().links.set_usual(link);
    }

    /// Sets the properties of the link from one node to another from now on; `None`
    /// restores the usual ones.
    pub fn set_link(&self, from: Node, to: Node, link: Option<Link>) {
        let mut network = self.shared.network();
        match link {
            Some(link) => network.links.set(from, to, link),
            None => network.links.reset(from, to),
        }
    }

    /// Counts of all segments sent so far, and their fates.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.network().links.traffic()
    }

    /// Blocks a link: no segment sent from now on passes from one node to the other.
    pub fn block(&self, from: Node, to: Node) {
        self.shared.trace("block", &[from.0 as u64, to.0 as u64]);
        self.shared.network().links.block(from, to);
    }

    /// Unblocks a link; segments sent meanwhile are now in flight.
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

    /// Resets every connection between two nodes, at both ends.
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
