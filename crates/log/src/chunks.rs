//! Which transactions have sent chunks ahead and are not yet behind a checkpoint.
//!
//! A checkpoint at snapshot *s* makes the log before the end of *s* unneeded, but
//! for one thing: a transaction that commits behind *s* may have written chunks
//! before it. Its commit frame is replayed, and names them. So the log is kept
//! from the oldest chunk of any such transaction:
//!
//! ```text
//!        chunk of T          end of s           commit of T
//!  ───────┼──────────────────────┼──────────────────┼─────────▶
//!         ▲ the log is kept      ▲ replay begins
//!           from here              here
//! ```
//!
//! Every transaction with chunks is entered here before it draws the place of its
//! first, and stays until it is known never to commit, or its commit lies before
//! the end of every snapshot to come. A checkpoint takes its snapshot and looks
//! here in one step, under the lock, so that nobody is forgotten in between: who
//! is entered later draws its first chunk behind the snapshot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_types::Lsn;

#[derive(Debug)]
struct Open {
    /// No chunk of it is before this.
    first: Lsn,
    /// Where its commit is, once it has committed.
    commit: Option<Lsn>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    open: BTreeMap<u64, Open>,
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct OpenChunks(Mutex<List>);

impl OpenChunks {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Enters a transaction that is about to send its first chunk. `position` says
    /// where the next frame of the log will start, at the earliest; `complete` how
    /// far snapshots to come reach, at least.
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

    /// Calls `snapshot`, which says where the snapshot ends that it takes, and
    /// returns from where on the log is needed for what commits behind that.
    pub(crate) fn needed_from(&self, snapshot: impl FnOnce() -> Lsn) -> Lsn {
        let list = self.list();
        let end = snapshot();
        let behind = |open: &&Open| open.commit.is_none_or(|commit| commit >= end);
        let chunks = list.open.values().filter(behind).map(|open| open.first);
        chunks.fold(end, Lsn::min)
    }
}

/// A transaction's entry. Dropped without a commit, it says that there will be
/// none.
#[derive(Debug)]
pub(crate) struct Ticket {
    list: Arc<OpenChunks>,
    number: u64,
}

impl Ticket {
    /// The transaction's commit frame is here. To be called before it is complete.
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
        // A later one finds it done with.
        let _other = enter(200, 128);
        assert_eq!(needed(120), Lsn(120));
        assert_eq!(needed(208), Lsn(200));
    }
}
