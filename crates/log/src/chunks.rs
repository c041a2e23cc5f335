//! The table of transactions whose chunks log truncation must retain: those that have
//! written chunks ahead of their commit and that no checkpoint covers yet.
//!
//! A checkpoint at snapshot *s* makes the log before the end of *s* unneeded, with one
//! exception: a transaction that commits after *s* may have written chunks before it.
//! Recovery replays its commit frame, which references them. So the log is kept from the
//! oldest chunk of any such transaction:
//!
//! ```text
//!        chunk of T          end of s           commit of T
//!  ───────┼──────────────────────┼──────────────────┼─────────▶
//!         ▲ the log is kept      ▲ replay begins
//!           from here              here
//! ```
//!
//! Every transaction with chunks is entered here before it reserves its first chunk, and
//! stays until it has aborted, or its commit is before the end of every future snapshot.
//! The checkpointer takes its snapshot and reads this table in one step, under the lock,
//! so that it misses no transaction: one that is entered later reserves its first chunk
//! after the snapshot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_types::Lsn;

#[derive(Debug)]
struct Open {
    /// Log offset before which the transaction has no chunk.
    first: Lsn,
    /// Log offset of its commit frame, once it has committed.
    commit: Option<Lsn>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    open: BTreeMap<u64, Open>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct OpenChunks(Mutex<List>);

impl OpenChunks {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Enters a transaction that is about to write its first chunk. `position` returns an
    /// offset at or before the log's next frame; `complete` an offset that all future
    /// snapshots include.
    pub(crate) fn enter(
        self: &Arc<Self>,
        position: impl FnOnce() -> Lsn,
        complete: impl FnOnce() -> Lsn,
    ) -> Ticket {
        let mut list = self.list();
        let complete = complete();
        list.open
            .retain(|_, open| open.commit.is_none_or(|commit| commit >= complete));
        let number = list.next;
        list.next += 1;
        let open = Open {
            first: position(),
            commit: None,
        };
        list.open.insert(number, open);
        Ticket {
            list: Arc::clone(self),
            number,
        }
    }

    /// Calls `snapshot`, which takes a snapshot and returns its end, and returns the log
    /// offset from which recovery needs the log for commits after that end.
    pub(crate) fn needed_from(&self, snapshot: impl FnOnce() -> Lsn) -> Lsn {
        let list = self.list();
        let end = snapshot();
        let behind = |open: &&Open| open.commit.is_none_or(|commit| commit >= end);
        let chunks = list.open.values().filter(behind).map(|open| open.first);
        chunks.fold(end, Lsn::min)
    }
}

/// A transaction's entry in the table. Dropping it without a commit removes the entry:
/// the transaction has aborted.
#[derive(Debug)]
pub(crate) struct Ticket {
    list: Arc<OpenChunks>,
    number: u64,
}

impl Ticket {
    /// Records the offset of the transaction's commit frame. The committer calls it
    /// before that frame is complete.
    pub(crate) fn committed_at(&self, lsn: Lsn) {
        if let Some(open) = self.list.list().open.get_mut(&self.number) {
            open.commit = Some(lsn);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut list = self.list.list();
        if let Some(open) = list.open.get(&self.number)
            && open.commit.is_none()
        {
            list.open.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_kept_for_who_commits_behind_the_snapshot() {
        let list = Arc::new(OpenChunks::default());
        let needed = |end| list.needed_from(|| Lsn(end));
        let enter = |at, complete| list.enter(|| Lsn(at), || Lsn(complete));
        assert_eq!(needed(100), Lsn(100));
        let (running, given_up) = (enter(40, 30), enter(24, 30));
        assert_eq!(needed(100), Lsn(24));
        drop(given_up);
        assert_eq!(needed(100), Lsn(40));
        running.committed_at(Lsn(120));
        drop(running);
        assert_eq!(needed(120), Lsn(40), "120 is behind what ends there");
        assert_eq!(needed(128), Lsn(128));
        // A later entry finds the transaction covered.
        let _other = enter(200, 128);
        assert_eq!(needed(120), Lsn(120));
        assert_eq!(needed(208), Lsn(200));
    }
}
