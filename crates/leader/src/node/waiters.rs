//! Readers that wait for a round, each with its waker: of the leader's read index, and of a
//! follower's questions.

use std::task::{Context, Waker};

/// The waiting readers, each with the round that it waits for.
#[derive(Debug, Default)]
pub(super) struct Waiters(Vec<(u64, Waker)>);

impl Waiters {
    /// Notes that the polled reader waits for this round.
    pub(super) fn add(&mut self, round: u64, context: &Context<'_>) {
        let known =
            |(waits, waker): &(u64, Waker)| *waits == round && waker.will_wake(context.waker());
        if !self.0.iter().any(known) {
            self.0.push((round, context.waker().clone()));
        }
    }

    /// Removes the readers of rounds up to this one. The caller wakes them once it holds no
    /// lock that they need.
    pub(super) fn take(&mut self, round: u64) -> Vec<Waker> {
        let done = self.0.extract_if(.., |(waits, _)| *waits <= round);
        done.map(|(_, waker)| waker).collect()
    }

    /// Removes all readers, likewise.
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        self.take(u64::MAX)
    }
}
