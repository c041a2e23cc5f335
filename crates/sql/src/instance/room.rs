//! How much memory all statements together may take.
//!
//! Rows are counted by the engine, and growth ends at its limit. Statements take memory
//! too, for as long as they run: a text becomes a tree and a plan of many times its
//! bytes, and sorting and grouping keep rows. Each has a bound of its own
//! (`max_statement_bytes`, `work_mem`); [`Room`] bounds all of them together, by what the
//! engine has left:
//!
//! ```text
//!   limit ──────────────────────────────────────────────┐
//!     rows, indexes, … and what statements have taken   │ spare │
//!     ──────────────────────────────────────────────────┴───────┘
//!                                          reserved: about to be taken
//! ```
//!
//! What a text will take is *reserved* before it is parsed, and again before it is
//! planned, because neither can stop halfway: what it takes then counts twice for that
//! while, so nobody goes over the limit for having looked at the same moment. What
//! sorting and grouping take is looked at as it grows, a [`STEP`] at a time.
//!
//! Small statements ask nobody. So at the limit reads and deletes go on, as long as they
//! are no larger than [`STEP`].

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// What a statement takes without asking, in bytes; and how much more before it asks
/// again.
pub const STEP: u64 = 1 << 20;

/// Says how many bytes there are yet; `u64::MAX` where there is no limit.
pub(crate) type Spare = Box<dyn Fn() -> u64 + Send + Sync>;

/// What is left for statements.
#[derive(Default)]
pub struct Room {
    spare: OnceLock<Spare>,
    reserved: AtomicU64,
}

impl fmt::Debug for Room {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Room")
            .field("spare", &self.spare.get().map(|spare| spare()))
            .field("reserved", &self.reserved)
            .finish()
    }
}

/// Memory that somebody is about to take. Given back when dropped: by then it has been
/// taken, and is counted, or has been freed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.room.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Room {
    /// What `spare` says, from now on. Until then there is no limit, and a second time
    /// changes nothing.
    pub(crate) fn ask(&self, spare: Spare) {
        let _ = self.spare.set(spare);
    }

    fn spare(&self) -> u64 {
        self.spare.get().map_or(u64::MAX, |spare| spare())
    }

    /// Reserves so many bytes for what `purpose` says, or fails with 53200. `None` for so
    /// little that it is not worth asking.
    pub(crate) fn reserve(&self, bytes: u64, purpose: &str) -> Result<Option<Reservation<'_>>> {
        if bytes <= STEP {
            return Ok(None);
        }
        let before = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let reservation = Reservation { room: self, bytes };
        let spare = self.spare();
        if before.saturating_add(bytes) > spare {
            return Err(Error::no_room(purpose, bytes, spare.saturating_sub(before)));
        }
        Ok(Some(reservation))
    }

    /// Fails with 53200 when so many bytes are not there, for what `purpose` says. Little
    /// is not asked for.
    pub fn ask_for(&self, bytes: u64, purpose: &str) -> Result<()> {
        self.reserve(bytes, purpose).map(drop)
    }

    /// Fails with 53200 unless a [`STEP`] is left.
    fn check(&self) -> Result<()> {
        let spare = self.spare();
        let left = spare.saturating_sub(self.reserved.load(Ordering::Relaxed));
        if left < STEP {
            return Err(Error::no_room("Keeping more rows", STEP, left));
        }
        Ok(())
    }
}

/// Bytes a statement holds on to, against its own limit and everybody's.
#[derive(Clone, Debug)]
pub struct Memory<'a> {
    used: usize,
    limit: usize,
    /// What has been taken since the room was last looked at.
    unseen: usize,
    room: &'a Room,
}

impl<'a> Memory<'a> {
    /// Nothing used yet of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize, room: &'a Room) -> Self {
        Self {
            used: 0,
            limit,
            unseen: 0,
            room,
        }
    }

    /// Takes so many bytes, or fails with 53200.
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit {
            return Err(Error::work_memory(self.limit));
        }
        self.unseen = self.unseen.saturating_add(bytes);
        if self.unseen.min(self.used) > STEP as usize {
            self.unseen = 0;
            self.room.check()?;
        }
        Ok(())
    }

    /// Gives so many bytes back.
    pub fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;

    fn room(spare: u64) -> Room {
        let room = Room::default();
        room.ask(Box::new(move || spare));
        room
    }

    #[test]
    fn what_is_reserved_is_nobody_elses() {
        let room = room(10 * STEP);
        let first = room.reserve(6 * STEP, "Parsing").unwrap();
        let refused = room.reserve(6 * STEP, "Parsing").unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
        let second = room.reserve(4 * STEP, "Parsing").unwrap();
        drop(first);
        assert!(room.reserve(7 * STEP, "Parsing").is_err());
        assert!(room.reserve(6 * STEP, "Parsing").unwrap().is_some());
        drop(second);
        assert!(room.reserve(10 * STEP, "Parsing").is_ok());
        assert_eq!(room.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn little_is_to_be_had_when_nothing_is_left() {
        let room = room(0);
        assert!(room.reserve(STEP, "Parsing").unwrap().is_none());
        let mut memory = Memory::new(1 << 30, &room);
        for _ in 0..STEP / 1024 {
            memory.take(1024).unwrap();
        }
        let refused = memory.take(1).unwrap_err();
        assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    }

    #[test]
    fn each_step_is_looked_at() {
        let left = std::sync::Arc::new(AtomicU64::new(3 * STEP));
        let room = Room::default();
        let asked = std::sync::Arc::clone(&left);
        room.ask(Box::new(move || asked.load(Ordering::Relaxed)));
        let mut memory = Memory::new(usize::MAX, &room);
        let mut taken = 0;
        // As if it were allocated.
        while memory.take(4096).is_ok() {
            taken += 4096;
            left.fetch_sub(4096.min(left.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
        assert!((STEP..=3 * STEP).contains(&taken), "{taken}");
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        let room = Room::default();
        assert!(room.reserve(u64::MAX / 2, "Parsing").unwrap().is_some());
    }
}
