//! The send queue of one node: always bounded, with two lanes.
//!
//! Each lane has the full limit. Frames of urgent kinds are sent before all others, so that
//! a heartbeat does not wait for a checkpoint; within a lane frames are sent in order. When
//! a lane is full, its oldest droppable frames are dropped; when that is not enough, the
//! sender gets an error.
//!
//! A queue accepts frames only while its node is connected, and is cleared when the
//! connection ends: later frames belong to a new connection.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::frame::{Kinds, MessageKind};
use crate::settings::FRAME_COST;

/// Whether a frame may be dropped when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The frame may be dropped for a later frame: another one like it will follow.
    Droppable,
    /// Once accepted the frame is sent, as long as the connection lasts.
    Kept,
}

/// Why a frame was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no connection to the node at the moment.
    #[error("the node is not connected")]
    NotConnected,
    /// The queue is full: send again when it has room.
    #[error("too much waits to be sent to the node already")]
    Full,
    /// The frame is longer than `frame_bytes`.
    #[error("the frame is longer than frame_bytes")]
    TooLong,
    /// No member has the id.
    #[error("no such member")]
    Unknown,
}

/// A frame in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) kind: MessageKind,
    pub(crate) payload: Bytes,
    loss: Loss,
}

impl Waiting {
    fn cost(&self) -> usize {
        cost(self.payload.len())
    }
}

fn cost(payload: usize) -> usize {
    payload.saturating_add(FRAME_COST)
}

#[derive(Debug, Default)]
struct Lane {
    frames: VecDeque<Waiting>,
    bytes: usize,
    /// The part of `bytes` that belongs to droppable frames.
    droppable: usize,
}

impl Lane {
    fn push(&mut self, frame: Waiting, limit: usize) -> Result<u64, SendError> {
        let needed = (self.bytes + frame.cost()).saturating_sub(limit);
        if needed > self.droppable {
            return Err(SendError::Full);
        }
        let dropped = self.give_way(needed);
        self.bytes += frame.cost();
        if frame.loss == Loss::Droppable {
            self.droppable += frame.cost();
        }
        self.frames.push_back(frame);
        Ok(dropped)
    }

    /// Drops the oldest droppable frames until `needed` bytes are free.
    fn give_way(&mut self, needed: usize) -> u64 {
        if needed == 0 {
            return 0;
        }
        let (mut freed, mut dropped) = (0, 0);
        self.frames.retain(|frame| {
            let stays = frame.loss == Loss::Kept || freed >= needed;
            if !stays {
                freed += frame.cost();
                dropped += 1;
            }
            stays
        });
        self.bytes -= freed;
        self.droppable -= freed;
        dropped
    }

    fn pop(&mut self) -> Option<Waiting> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.cost();
        if frame.loss == Loss::Droppable {
            self.droppable -= frame.cost();
        }
        Some(frame)
    }
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    urgent: Lane,
    other: Lane,
}

impl State {
    fn lane(&mut self, is_urgent: bool) -> &mut Lane {
        match is_urgent {
            true => &mut self.urgent,
            false => &mut self.other,
        }
    }
}

/// A node's send queue; see the module.
#[derive(Debug)]
pub(crate) struct Queue {
    kinds: Kinds,
    limit: usize,
    longest: usize,
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
}

impl Queue {
    /// A queue with `limit` bytes in each lane, for frames of at most `longest` bytes.
    pub(crate) fn new(limit: usize, longest: usize, kinds: Kinds) -> Self {
        Self {
            kinds,
            limit,
            longest,
            state: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Accepts frames from now on.
    pub(crate) fn open(&self) {
        self.state().open = true;
        self.emptied.notify_waiters();
    }

    /// Accepts no more frames, and clears the queue; returns the number of cleared frames.
    pub(crate) fn close(&self) -> u64 {
        let state = std::mem::take(&mut *self.state());
        self.emptied.notify_waiters();
        (state.urgent.frames.len() + state.other.frames.len()) as u64
    }

    /// Accepts a frame; returns the number of frames dropped for it.
    pub(crate) fn push(
        &self,
        kind: MessageKind,
        payload: Bytes,
        loss: Loss,
    ) -> Result<u64, SendError> {
        if payload.len() > self.longest {
            return Err(SendError::TooLong);
        }
        let frame = Waiting {
            kind,
            payload,
            loss,
        };
        let mut state = self.state();
        if !state.open {
            return Err(SendError::NotConnected);
        }
        let dropped = state
            .lane(self.kinds.is_urgent(kind))
            .push(frame, self.limit)?;
        drop(state);
        self.filled.notify_one();
        Ok(dropped)
    }

    /// Waits until a frame of this many bytes would be accepted.
    pub(crate) async fn room(&self, kind: MessageKind, bytes: usize) -> Result<(), SendError> {
        if bytes > self.longest {
            return Err(SendError::TooLong);
        }
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // From here on no notification is missed.
            emptied.as_mut().enable();
            {
                let mut state = self.state();
                if !state.open {
                    return Err(SendError::NotConnected);
                }
                let lane = state.lane(self.kinds.is_urgent(kind));
                if lane.bytes - lane.droppable + cost(bytes) <= self.limit {
                    return Ok(());
                }
            }
            emptied.await;
        }
    }

    /// Waits for frames, and takes about `bytes` of them, at least one frame. Cancelling
    /// the wait loses none.
    pub(crate) async fn take(&self, bytes: usize) -> Vec<Waiting> {
        loop {
            let filled = self.filled.notified();
            let taken = self.take_now(bytes);
            if !taken.is_empty() {
                self.emptied.notify_waiters();
                return taken;
            }
            filled.await;
        }
    }

    fn take_now(&self, bytes: usize) -> Vec<Waiting> {
        let mut state = self.state();
        let mut taken = Vec::new();
        let mut room = bytes;
        while let Some(frame) = state.urgent.pop().or_else(|| state.other.pop()) {
            let left = room.saturating_sub(frame.cost());
            taken.push(frame);
            if left == 0 {
                break;
            }
            room = left;
        }
        taken
    }

    /// Number of queued frames, and their bytes.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let state = self.state();
        (
            state.urgent.frames.len() + state.other.frames.len(),
            state.urgent.bytes + state.other.bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONSENSUS: MessageKind = MessageKind::new(1);
    const LOG: MessageKind = MessageKind::new(2);
    const CHECKPOINT: MessageKind = MessageKind::new(3);
    const SESSION: MessageKind = MessageKind::new(4);
    const KINDS: Kinds = Kinds {
        urgent: &[CONSENSUS, LOG],
        other: &[CHECKPOINT, SESSION],
    };

    const LIMIT: usize = 10 * (FRAME_COST + 100);

    fn queue() -> Queue {
        let queue = Queue::new(LIMIT, 1000, KINDS);
        queue.open();
        queue
    }

    fn payload(name: u8) -> Bytes {
        vec![name; 100].into()
    }

    fn names(queue: &Queue) -> Vec<u8> {
        let taken = queue.take_now(usize::MAX);
        taken.iter().map(|frame| frame.payload[0]).collect()
    }

    #[test]
    fn what_may_be_lost_gives_way_oldest_first() {
        let queue = queue();
        for name in 0..10 {
            let loss = if name % 2 == 0 {
                Loss::Kept
            } else {
                Loss::Droppable
            };
            assert_eq!(queue.push(CONSENSUS, payload(name), loss), Ok(0));
        }
        assert_eq!(queue.push(LOG, payload(20), Loss::Kept), Ok(1));
        assert_eq!(queue.push(LOG, payload(21), Loss::Droppable), Ok(1));
        assert_eq!(names(&queue), [0, 2, 4, 5, 6, 7, 8, 9, 20, 21]);
        assert_eq!(queue.depth(), (0, 0));
    }

    #[test]
    fn when_nothing_may_be_lost_the_sender_is_told() {
        let queue = queue();
        for name in 0..10 {
            queue.push(LOG, payload(name), Loss::Kept).unwrap();
        }
        for loss in [Loss::Kept, Loss::Droppable] {
            let refused = queue.push(LOG, payload(10), loss);
            assert_eq!(refused, Err(SendError::Full));
        }
        // The other lane has room of its own, and is sent after this one.
        queue.push(CHECKPOINT, payload(30), Loss::Kept).unwrap();
        queue.take_now(1);
        queue.push(LOG, payload(11), Loss::Kept).unwrap();
        assert_eq!(names(&queue), [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 30]);
    }

    #[test]
    fn nobody_gives_way_in_vain() {
        let queue = queue();
        for name in 0..9 {
            queue.push(LOG, payload(name), Loss::Kept).unwrap();
        }
        queue.push(LOG, payload(9), Loss::Droppable).unwrap();
        let large = Bytes::from(vec![0; 1000]);
        assert_eq!(queue.push(LOG, large, Loss::Kept), Err(SendError::Full));
        assert_eq!(names(&queue), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_frame_too_long_is_never_taken() {
        let long = Bytes::from(vec![0; 1001]);
        let refused = queue().push(LOG, long, Loss::Kept);
        assert_eq!(refused, Err(SendError::TooLong));
    }

    #[test]
    fn without_a_connection_nothing_waits() {
        let queue = queue();
        queue.push(LOG, payload(1), Loss::Kept).unwrap();
        assert_eq!(queue.close(), 1);
        let refused = queue.push(LOG, payload(2), Loss::Kept);
        assert_eq!(refused, Err(SendError::NotConnected));
        queue.open();
        assert_eq!(names(&queue), []);
    }

    proptest! {
        #[test]
        fn it_holds_its_limit_and_counts_right(
            steps in proptest::collection::vec((0usize..4, 0usize..1200, any::<bool>(), 0usize..3000), 1..200),
        ) {
            let queue = queue();
            for (kind, length, kept, taken) in steps {
                let loss = if kept { Loss::Kept } else { Loss::Droppable };
                let _ = queue.push([CONSENSUS, LOG, CHECKPOINT, SESSION][kind], vec![0; length].into(), loss);
                if taken > 2000 {
                    queue.take_now(taken - 2000);
                }
                let state = queue.state();
                for lane in [&state.urgent, &state.other] {
                    let cost = |droppable: bool| {
                        let frames = lane.frames.iter();
                        let counted = frames.filter(|frame| !droppable || frame.loss == Loss::Droppable);
                        counted.map(Waiting::cost).sum::<usize>()
                    };
                    prop_assert!(lane.bytes <= LIMIT);
                    prop_assert_eq!(lane.bytes, cost(false));
                    prop_assert_eq!(lane.droppable, cost(true));
                }
            }
        }
    }
}
