//! Garbage collection of a record's expired versions: shared by writers, readers and the
//! sweep.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::Timestamp;

use super::list::{NODE_BYTES, retire_node};
use super::write::Upkeep;
use super::{INFINITE, LockWord, MAINTENANCE, Record};
use crate::collector::Remaining;
use crate::value::{absent, row_at, size_at, tombstone};

/// Result of collecting one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// Nothing was removed, because nothing has expired or another thread holds the lock.
    Nothing,
    /// This many versions were removed.
    Versions(usize),
    /// Everything was removed, the tombstone included: the record is dead, its index
    /// entries are gone, and the caller must retire its RID. Holds the number of removed
    /// versions, the tombstone included.
    Dead(usize),
}

impl Record {
    /// Removes expired versions, if no thread holds the lock. Never waits.
    pub(crate) fn collect(&self, upkeep: &Upkeep<'_>) -> Collected {
        let word = self.word();
        if word.is_dead() || word.holder().is_some() || !self.has_garbage(word, upkeep) {
            return Collected::Nothing;
        }
        let held = word.held_by(MAINTENANCE);
        if !self.change_free_word(word, held) {
            return Collected::Nothing;
        }
        let mut removed = self.invalidate_expired_secondary(held, upkeep);
        removed += self.unlink_expired(upkeep, usize::MAX);
        removed += self.drop_expired_list(held, upkeep);
        if self.is_forgettable(held, upkeep) {
            self.die(held);
            return Collected::Dead(removed + 1);
        }
        self.change_word(held, held.released());
        match removed {
            0 => Collected::Nothing,
            _ => Collected::Versions(removed),
        }
    }

    /// Whether the record seems to have expired versions, so that a sweep does not write to
    /// records that have none.
    fn has_garbage(&self, word: LockWord, upkeep: &Upkeep<'_>) -> bool {
        let Some((newest, value)) = self.region(word.primary()).committed() else {
            return false;
        };
        let expiry = upkeep.collector.expiry;
        if value == tombstone() && expiry.is_settled(newest) {
            return true;
        }
        let mut successor = newest;
        if let Some((cts, _)) = self.region(word.primary().other()).committed() {
            if cts < successor && expiry.is_expired(cts, successor) {
                return true;
            }
            successor = cts;
        }
        let mut nodes = self.versions.nodes(upkeep.collector.guard).peekable();
        while let Some(node) = nodes.next() {
            let next = nodes.peek().map_or(successor, |next| next.cts);
            if node.cts < next && expiry.is_expired(node.cts, next) {
                return true;
            }
        }
        false
    }

    /// Passes each version that has been replaced to `visit`, as its timestamp and its
    /// successor's. No other thread may write meanwhile.
    pub(crate) fn replaced(&self, guard: &Guard<'_>, visit: &mut dyn FnMut(Timestamp, Timestamp)) {
        let word = self.word();
        let Some((newest, _)) = self.region(word.primary()).committed() else {
            return;
        };
        let mut successor = newest;
        if let Some((cts, _)) = self.region(word.primary().other()).committed() {
            visit(cts, successor);
            successor = cts;
        }
        let mut nodes = self.versions.nodes(guard).peekable();
        while let Some(node) = nodes.next() {
            visit(node.cts, nodes.peek().map_or(successor, |next| next.cts));
        }
    }

    fn invalidate_expired_secondary(&self, held: LockWord, upkeep: &Upkeep<'_>) -> usize {
        let secondary = self.region(held.primary().other());
        let (Some((newest, _)), Some((cts, value))) = (
            self.region(held.primary()).committed(),
            secondary.committed(),
        ) else {
            return 0;
        };
        if !upkeep.collector.expiry.is_expired(cts, newest) {
            return 0;
        }
        secondary.cts.store(INFINITE, Ordering::Release);
        secondary.value.store(absent(), Ordering::Release);
        self.discard(upkeep.rid, value, upkeep.usage, upkeep.collector);
        1
    }

    /// Unlinks at most `most` expired list nodes, never the newest. The caller holds the
    /// record's lock.
    pub(super) fn unlink_expired(&self, upkeep: &Upkeep<'_>, most: usize) -> usize {
        let expiry = upkeep.collector.expiry;
        let unlinked = self
            .versions
            .unlink(most, |cts, successor| expiry.is_expired(cts, successor));
        self.discard_nodes(&unlinked, upkeep);
        unlinked.len()
    }

    /// Drops the list if its only node has expired.
    fn drop_expired_list(&self, held: LockWord, upkeep: &Upkeep<'_>) -> usize {
        let guard = upkeep.collector.guard;
        let mut nodes = self.versions.nodes(guard);
        let (Some(node), None) = (nodes.next(), nodes.next()) else {
            return 0;
        };
        let successor = self
            .region(held.primary().other())
            .committed()
            .or_else(|| self.region(held.primary()).committed());
        let (successor, _) = successor.expect("an older version has a newer");
        if !upkeep.collector.expiry.is_expired(node.cts, successor) {
            return 0;
        }
        let unlinked = self.versions.unlink_all();
        self.discard_nodes(&unlinked, upkeep);
        unlinked.len()
    }

    fn discard_nodes(&self, unlinked: &[*mut super::list::Node], upkeep: &Upkeep<'_>) {
        let collector = upkeep.collector;
        for &node in unlinked {
            // SAFETY: unlinked by the caller, not retired yet.
            let value = unsafe { (*node).value };
            // SAFETY: a node's value is present, and retired with the node.
            if let Some(row) = unsafe { row_at(value) } {
                collector
                    .indexes
                    .removed(upkeep.rid, row, &Remaining::new(self, collector.guard));
            }
            // SAFETY: as above.
            let bytes = unsafe { size_at(value) };
            upkeep.usage.value_removed(bytes);
            upkeep.usage.old_value_removed(bytes);
            upkeep.usage.node_removed(NODE_BYTES);
            // SAFETY: unlinked by the caller, once.
            unsafe { retire_node(node, collector.guard) };
        }
    }

    /// Whether only a tombstone is left, and no earlier version can come back: to every
    /// snapshot, past and future, the row does not exist.
    fn is_forgettable(&self, held: LockWord, upkeep: &Upkeep<'_>) -> bool {
        let primary = self.region(held.primary()).committed();
        primary.is_some_and(|(cts, value)| {
            value == tombstone() && upkeep.collector.expiry.is_settled(cts)
        }) && self.region(held.primary().other()).committed().is_none()
            && self.versions.is_empty()
    }
}
