//! Pause detection: a follower that did not run for a while notices it, and has the reads
//! that take its state as it is wait until that state has caught up.
//!
//! A process that was stopped (a signal, a stolen virtual processor, a machine short of
//! them) goes on with what waits in its sockets, in any order: a read may be answered before
//! the entries that were committed meanwhile. The driver of the node promises when it will
//! run next (its *due* time), and a driver that is late by more than a limit was *away*.
//! Readers compare the clock with the due time themselves, since a reader may run before the
//! driver does.
//!
//! ```text
//!   driver  ┴────┴────┴──── away ────────────────────────┴─ late ─┴────┴────┴──
//!                     due ┘                              │ catches up
//!   reader                               looks: late ─▶ a hold begins
//!                                        asks the leader ────────────▶ answer: the hold ends
//! ```
//!
//! What ends a hold is a question of the node's ([`questions`](super::questions)) that was
//! asked after the hold had begun: the leader received it later still, so its answer covers
//! all that was acknowledged while the node was away, and is not one of the old messages in
//! the socket. Caught up is what shows the answered commit.
//!
//! # One look is enough
//!
//! A reader looks once, before it takes its snapshot. Had the process been away between the
//! look and the snapshot, or the answer, the client would have sent the read before that:
//! the operation's own interval then covers the absence, and the state that it read was the
//! newest at a moment within that interval.
//!
//! # Invariants
//!
//! 1. A driver that is late says so before it publishes its next due time: a reader that finds
//!    the new due time finds the hold.
//! 2. One absence begins one hold, whether the driver or a reader notices it first. The driver's
//!    return prolongs it.
//! 3. A read is held for the bound of a hold at most, and a hold that nothing ends has run
//!    out: these reads promise to be available first.
//!
//! The driver is due at its next tick, or, while readers look, twice in each limit: a node
//! without such readers wakes no more often for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coeval_env::Instant;

/// How long after the last look of a reader the driver goes on to run often.
const LOOKED_LATELY: Duration = Duration::from_secs(10);

/// Interval after which a look is recorded again.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Detects that this process was away, and holds reads for that.
#[derive(Debug)]
pub struct PauseDetector {
    opened: Instant,
    /// Microseconds by which the driver may be late; 0 when nothing is detected.
    limit: u64,
    /// Microseconds that a hold lasts at most.
    hold: u64,
    /// When the driver will run next, in microseconds after `opened`.
    due: AtomicU64,
    /// When a reader last looked, about.
    looked: AtomicU64,
    /// Whether a hold is in force.
    is_held: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The hold in force, if there is one.
    hold: Option<Hold>,
    /// The due time of the last absence for which a hold was begun, and of the last one
    /// from which the driver has returned.
    noticed: Option<u64>,
    returned: Option<u64>,
    counts: HoldCounts,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    begun: u64,
    until: u64,
}

/// Counters of a node's holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldCounts {
    /// Holds begun: absences noticed.
    pub begun: u64,
    /// Holds that ended because the node had caught up.
    pub ended: u64,
    /// Holds that ran out.
    pub ran_out: u64,
}

impl PauseDetector {
    /// A detector of absences longer than `limit`, whose holds last for `hold` at most. With
    /// a limit of zero it detects nothing.
    pub(super) fn new(limit: Duration, hold: Duration) -> Self {
        Self {
            opened: coeval_env::now(),
            limit: microseconds(limit),
            hold: microseconds(hold),
            due: AtomicU64::new(u64::MAX),
            looked: AtomicU64::new(0),
            is_held: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// How long a read is held at most.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.hold)
    }

    /// Until when a read that takes the state as it is waits, if it has to wait.
    #[must_use]
    pub fn look(&self, now: Instant) -> Option<Instant> {
        if self.limit == 0 {
            return None;
        }
        let now = self.time(now);
        let looked = self.looked.load(Ordering::Relaxed);
        if now.saturating_sub(looked) > microseconds(BETWEEN_LOOKS) || looked == 0 {
            self.looked.store(now.max(1), Ordering::Relaxed);
        }
        // Invariant 1: the due time is read first.
        let due = self.due.load(Ordering::Acquire);
        let is_late = self.is_late(now, due);
        if !is_late && !self.is_held.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.state();
        if is_late && state.noticed != Some(due) && state.returned != Some(due) {
            self.begin(&mut state, now, due);
        }
        let hold = state.hold?;
        if now >= hold.until {
            state.counts.ran_out += 1;
            self.end(&mut state);
            return None;
        }
        Some(self.opened + Duration::from_micros(hold.until))
    }

    /// The node shows what the leader answered to a question that was asked then.
    pub fn caught_up(&self, asked: Instant) {
        let asked = self.time(asked);
        let mut state = self.state();
        if state.hold.is_some_and(|hold| asked >= hold.begun) {
            state.counts.ended += 1;
            self.end(&mut state);
        }
    }

    /// Counters of the holds.
    #[must_use]
    pub fn counts(&self) -> HoldCounts {
        self.state().counts
    }

    /// The driver runs.
    pub(super) fn runs(&self, now: Instant) {
        if self.limit == 0 {
            return;
        }
        let now = self.time(now);
        let due = self.due.load(Ordering::Relaxed);
        if !self.is_late(now, due) {
            return;
        }
        let mut state = self.state();
        if state.returned == Some(due) {
            return;
        }
        state.returned = Some(due);
        match &mut state.hold {
            Some(hold) => hold.until = now.saturating_add(self.hold),
            None => self.begin(&mut state, now, due),
        }
    }

    /// The driver is about to wait until `wake`. Returns when it has to run at the latest.
    pub(super) fn waits(&self, now: Instant, wake: Instant, follows: bool) -> Instant {
        if self.limit == 0 {
            return wake;
        }
        self.runs(now);
        let looked = self.looked.load(Ordering::Relaxed);
        let lately = looked > 0
            && self.time(now).saturating_sub(looked) < microseconds(LOOKED_LATELY)
            && follows;
        let wake = match lately {
            true => wake.min(now + Duration::from_micros(self.limit / 2)),
            false => wake,
        };
        self.due.store(self.time(wake), Ordering::Release);
        wake
    }

    const fn is_late(&self, now: u64, due: u64) -> bool {
        now > due.saturating_add(self.limit)
    }

    fn begin(&self, state: &mut State, now: u64, due: u64) {
        state.noticed = Some(due);
        state.counts.begun += 1;
        state.hold = Some(Hold {
            begun: now,
            until: now.saturating_add(self.hold),
        });
        self.is_held.store(true, Ordering::Release);
    }

    fn end(&self, state: &mut State) {
        state.hold = None;
        self.is_held.store(false, Ordering::Release);
    }

    fn time(&self, at: Instant) -> u64 {
        microseconds(at.duration_since(self.opened))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A detector with a limit of 20 ms and holds of 200 ms, and its clock.
    struct World {
        detector: PauseDetector,
        at: Instant,
    }

    impl World {
        fn new() -> Self {
            let ms = Duration::from_millis;
            let detector = PauseDetector::new(ms(20), ms(200));
            let at = detector.opened + ms(1);
            Self { detector, at }
        }

        fn pass(&mut self, milliseconds: u64) {
            self.at += Duration::from_millis(milliseconds);
        }

        /// The driver runs, and waits for a tick of 50 ms. Returns after how many
        /// milliseconds it is to run.
        fn drive(&self) -> u128 {
            self.detector.runs(self.at);
            let tick = self.at + Duration::from_millis(50);
            let wake = self.detector.waits(self.at, tick, true);
            wake.duration_since(self.at).as_millis()
        }

        fn is_held(&self) -> bool {
            self.detector.look(self.at).is_some()
        }

        fn counts(&self) -> (u64, u64, u64) {
            let counts = self.detector.counts();
            (counts.begun, counts.ended, counts.ran_out)
        }
    }

    #[test]
    fn the_driver_runs_often_while_readers_look() {
        let mut world = World::new();
        assert_eq!(world.drive(), 50);
        assert!(!world.is_held());
        assert_eq!(world.drive(), 10);
        for _ in 0..1001 {
            world.pass(10);
            world.drive();
        }
        assert_eq!(world.drive(), 50);
        assert_eq!(world.counts(), (0, 0, 0));
        let wake = world.at + Duration::from_millis(50);
        world.is_held();
        assert_eq!(world.detector.waits(world.at, wake, false), wake, "leads");
    }

    #[test]
    fn a_reader_that_runs_before_the_driver_is_held() {
        let mut world = World::new();
        world.is_held();
        world.drive();
        world.pass(30);
        assert!(!world.is_held(), "10 ms, and 20 ms late");
        world.pass(1);
        assert!(world.is_held());
        // The driver returns: the same absence, and no answer is there yet.
        world.pass(3);
        world.drive();
        assert!(world.is_held());
        // A question from before the hold says nothing.
        let early = world.at + Duration::from_millis(0);
        world.detector.caught_up(world.detector.opened);
        assert!(world.is_held());
        world.detector.caught_up(early);
        assert!(!world.is_held());
        assert_eq!(world.counts(), (1, 1, 0));
        world.pass(5);
        world.drive();
        assert!(!world.is_held());
        assert_eq!(world.counts(), (1, 1, 0));
    }

    #[test]
    fn a_driver_that_returns_first_tells_the_readers() {
        let mut world = World::new();
        world.drive();
        world.pass(250);
        world.drive();
        world.pass(1);
        assert!(world.is_held());
        world.detector.caught_up(world.at);
        assert_eq!(world.counts(), (1, 1, 0));
        // Twice in one step is one absence.
        world.pass(250);
        world.detector.runs(world.at);
        world.detector.caught_up(world.at);
        world.detector.runs(world.at);
        assert!(!world.is_held());
        assert_eq!(world.counts(), (2, 2, 0));
    }

    #[test]
    fn a_hold_runs_out_and_the_drivers_return_begins_another() {
        let mut world = World::new();
        world.drive();
        world.pass(100);
        assert!(world.is_held());
        world.pass(199);
        assert!(world.is_held());
        world.pass(1);
        assert!(!world.is_held());
        assert!(!world.is_held(), "the same absence");
        assert_eq!(world.counts(), (1, 0, 1));
        world.pass(1000);
        world.drive();
        assert!(world.is_held(), "what it has missed is not there yet");
        world.detector.caught_up(world.at);
        assert_eq!(world.counts(), (2, 1, 1));
    }

    #[test]
    fn without_a_limit_nothing_is_detected() {
        let ms = Duration::from_millis;
        let detector = PauseDetector::new(ms(0), ms(200));
        let wake = detector.opened + ms(50);
        assert_eq!(detector.waits(detector.opened, wake, true), wake);
        assert!(detector.look(detector.opened + ms(500)).is_none());
        detector.runs(detector.opened + ms(500));
        assert_eq!(detector.counts(), HoldCounts::default());
    }
}
