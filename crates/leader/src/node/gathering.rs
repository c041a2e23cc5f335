//! Gathering: readers that are about to come share the message that waiting ones need
//! (adaptive batching).
//!
//! A question to the leader, or a round of heartbeats, costs the same for one reader and for
//! a hundred. Sent as soon as the last one is answered, it serves only those readers that came
//! in that time, while those that were just answered come back a moment later and need
//! another. So the next one is held back until three quarters of both have come, for a bounded
//! time.
//!
//! ```text
//!   sent      a b c d                                    e f g h a b
//!             ───┬─────────────────┬──────────────────────────┬───────▶
//!   answered     │                 a b c d                    │
//!   come         │    e f g h      │              a b  are six of the eight
//! ```
//!
//! How long that takes follows from how fast readers come: if `b` of them come while a
//! message is under way, messages settle at `3 b` readers, so each waits for about two more
//! of these times at most. A few readers never wait. Where the time runs out, because readers do
//! not come back or the machine is too busy to let them, holding back costs time and spares
//! little: the next messages are not held back.
//!
//! Invariant: nothing is held back for longer than [`HOLD`] and a tick of the timer after an
//! answer.

use std::time::Duration;

use coeval_env::Instant;

/// How long a message is held back at most, besides the tick in which the timer expires: it
/// counts in milliseconds, so for readers that do not come back it is up to twice as long.
const HOLD: Duration = Duration::from_millis(1);

/// Fewer readers than this do not wait for each other.
const FEW: u64 = 4;

/// How many messages are not held back after one whose time ran out.
const RESTS: u32 = 8;

/// Whether the next message for waiting readers is held back. Readers are counted as they
/// come.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Readers that had come when the last message was sent.
    sent: u64,
    /// How many of them share it.
    size: u64,
    /// The reader who makes the next message large enough, and until when it is held back.
    until: Option<(u64, Instant)>,
    /// How many messages are still not held back.
    rests: u32,
}

impl Gathering {
    /// A message is sent, for the first so many readers.
    pub(super) fn sent(&mut self, came: u64) {
        self.size = came.saturating_sub(self.sent);
        self.sent = self.sent.max(came);
        self.until = None;
    }

    /// All readers up to this one have a message under way, the last of them one that it shares
    /// with no other: it says nothing about how many come to share one.
    pub(super) fn pass(&mut self, came: u64) {
        self.sent = self.sent.max(came);
    }

    /// It is answered: its readers may come back.
    pub(super) fn answered(&mut self, came: u64) {
        let known = self.size + came.saturating_sub(self.sent);
        let enough = self.sent + known * 3 / 4;
        self.until = None;
        if known < FEW || came >= enough {
            return;
        }
        match self.rests {
            0 => self.until = Some((enough, coeval_env::now() + HOLD)),
            rests => self.rests = rests - 1,
        }
    }

    /// Whether the next message is held back.
    pub(super) fn holds(&self, came: u64) -> bool {
        self.until.is_some_and(|(enough, _)| came < enough)
    }

    /// Until when it is.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.until.map(|(_, until)| until)
    }

    /// Releases what was held back for long enough.
    pub(super) fn release(&mut self, now: Instant) {
        if self.until.take_if(|(_, until)| *until <= now).is_some() {
            self.rests = RESTS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_waits_for_those_who_share_it() {
        let mut gathering = Gathering::default();
        gathering.sent(6);
        // Two have come meanwhile. Of eight readers, six are enough.
        gathering.answered(8);
        assert!(gathering.holds(8));
        assert!(gathering.holds(11));
        assert!(!gathering.holds(12));
        gathering.sent(12);
        assert!(!gathering.holds(12), "nothing is known before the answer");
        // So many came before the answer that no other has to come back.
        gathering.answered(30);
        assert!(!gathering.holds(30));
    }

    #[test]
    fn a_message_of_one_reader_alone_says_nothing_about_the_shared_one() {
        let mut gathering = Gathering::default();
        gathering.sent(100);
        for reader in 101..=110 {
            gathering.pass(reader);
        }
        gathering.answered(110);
        assert!(gathering.holds(184));
        assert!(
            !gathering.holds(185),
            "three quarters of a hundred have come back"
        );
    }

    #[test]
    fn a_few_readers_do_not_wait() {
        let mut gathering = Gathering::default();
        gathering.answered(0);
        assert!(!gathering.holds(0));
        gathering.sent(2);
        gathering.answered(3);
        assert!(!gathering.holds(3));
        assert_eq!(gathering.held_until(), None);
    }

    #[test]
    fn readers_that_do_not_come_back_are_waited_for_once() {
        let mut gathering = Gathering::default();
        gathering.sent(100);
        gathering.answered(101);
        let until = gathering.held_until().expect("many may come back");
        gathering.release(until - Duration::from_nanos(1));
        assert!(gathering.holds(101));
        gathering.release(until);
        assert!(!gathering.holds(101));
        for message in 1..=u64::from(RESTS) {
            gathering.sent(100 * message + 100);
            gathering.answered(100 * message + 100);
            assert_eq!(gathering.held_until(), None, "it did not pay");
        }
        gathering.sent(2000);
        gathering.answered(2000);
        assert!(gathering.holds(2000), "it is tried again");
    }
}
