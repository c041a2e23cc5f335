//! Who committed what: the latest committers, so that a conflict can name the other
//! although it has ended.
//!
//! A version says at which timestamp it was committed and not by whom, and a transaction's
//! place is another's soon after. So each commit that writes leaves a note, and who meets
//! one of its versions looks for it:
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
//! Each thread notes on lines of its own, and reads note nothing. A note is for people:
//! where two threads share a shard and meet, the second does without rather than wait,
//! and what has been overwritten since is not known any more.

use std::collections::VecDeque;

use coeval_memory::counters::Sharded;
use coeval_memory::sync::Mutex;
use coeval_txn::Party;
use coeval_types::{Timestamp, TransactionId};

/// How many commits each shard remembers.
const NOTES: usize = 256;

#[derive(Debug)]
struct Shard(Mutex<VecDeque<(Timestamp, Party)>>);

impl Default for Shard {
    /// With room for all notes: a commit has no time to make some.
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(NOTES)))
    }
}

/// The latest committers.
#[derive(Debug, Default)]
pub(crate) struct Committers(Sharded<Shard>);

impl Committers {
    /// `party` commits at this timestamp. Waits for nobody.
    pub(crate) fn note(&self, timestamp: Timestamp, party: Party) {
        let Ok(mut notes) = self.0.mine().0.try_lock() else {
            return;
        };
        if notes.len() == NOTES {
            notes.pop_front();
        }
        notes.push_back((timestamp, party));
    }

    /// Who committed at this timestamp, if that is still known.
    pub(crate) fn at(&self, timestamp: Timestamp) -> Option<Party> {
        self.find(|(at, _)| *at == timestamp)
    }

    /// A transaction with its session, if it was one of the latest that committed.
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
