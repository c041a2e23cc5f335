//! Recent committers: maps a commit timestamp to its transaction and session, so that a
//! conflict can name the winner although it has ended.
//!
//! A version carries the timestamp of its commit but not its writer, and the writer's
//! slot is soon reused. So each writing transaction leaves a note at commit, and a
//! transaction that conflicts with one of its versions looks the note up:
//!
//! ```text
//!   commit at 3/73728 by transaction 65537 of session 12
//!      │ noted before its versions are installed
//!      ▼
//!   thread 0  [ 3/73216: 65540, 11 │ 3/73728: 65537, 12 │ … ]   the latest NOTES
//!   thread 1  [ 3/73472: 65538, 14 │ … ]
//!      ▲
//!      └ another finds a version of 3/73728 where it must not be: by session 12
//! ```
//!
//! Each thread writes notes to its own shard; read-only transactions leave none. Notes
//! serve diagnostics only: where two threads contend for a shard, the second leaves no
//! note rather than wait, and overwritten notes are forgotten.

use std::collections::VecDeque;

use coeval_memory::counters::Sharded;
use coeval_memory::sync::Mutex;
use coeval_txn::Party;
use coeval_types::{Timestamp, TransactionId};

/// Notes that each shard keeps.
const NOTES: usize = 256;

#[derive(Debug)]
struct Shard(Mutex<VecDeque<(Timestamp, Party)>>);

impl Default for Shard {
    /// Allocates room for all notes at once, so that a commit never allocates here.
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(NOTES)))
    }
}

/// Notes of the latest commits, sharded by thread.
#[derive(Debug, Default)]
pub(crate) struct Committers(Sharded<Shard>);

impl Committers {
    /// Notes that `party` commits at `timestamp`. Never waits.
    pub(crate) fn note(&self, timestamp: Timestamp, party: Party) {
        let Ok(mut notes) = self.0.mine().0.try_lock() else {
            return;
        };
        if notes.len() == NOTES {
            notes.pop_front();
        }
        notes.push_back((timestamp, party));
    }

    /// The transaction that committed at `timestamp`, if its note is still kept.
    pub(crate) fn at(&self, timestamp: Timestamp) -> Option<Party> {
        self.find(|(at, _)| *at == timestamp)
    }

    /// A recently committed transaction with its session.
    pub(crate) fn party(&self, transaction: TransactionId) -> Option<Party> {
        self.find(|(_, party)| party.transaction == transaction)
    }

    fn find(&self, is_it: impl Fn(&(Timestamp, Party)) -> bool) -> Option<Party> {
        self.0.all().find_map(|shard| {
            let notes = shard.0.lock().expect("no panic while it was held");
            notes
                .iter()
                .rev()
                .find(|note| is_it(note))
                .map(|note| note.1)
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn party(transaction: u64) -> Party {
        Party {
            transaction: TransactionId(transaction),
            session: Some(transaction as i32 + 1000),
        }
    }

    #[test]
    fn the_latest_are_known() {
        let committers = Committers::default();
        let at = |n: u64| Timestamp::from_bits(n * 64);
        let all = NOTES as u64 + 10;
        (1..=all).for_each(|n| committers.note(at(n), party(n)));
        assert_eq!(committers.at(at(all)), Some(party(all)));
        assert_eq!(committers.at(at(11)), Some(party(11)));
        assert_eq!(committers.at(at(10)), None, "overwritten");
        assert_eq!(committers.party(TransactionId(all)), Some(party(all)));
        assert_eq!(committers.party(TransactionId(10)), None);
    }
}
