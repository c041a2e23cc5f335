//! Simulated connections: the bytes in flight in both directions between two nodes.
//!
//! Invariant: in each direction arrival times do not decrease, and after a segment that
//! waits for a blocked link no segment has an arrival time.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand::RngExt;
use tokio::io::ReadBuf;

use super::link::Passage;
use super::shared::Shared;
use super::{Node, hash_bytes};

/// Most bytes in flight in one direction.
const PIPE_BYTES: usize = 64 << 10;

/// Bytes in flight, or the end of the stream.
#[derive(Debug)]
struct Segment {
    /// Arrival in nanoseconds of true time; `None` while the segment waits for its link
    /// to open.
    arrives: Option<u64>,
    /// The bytes; empty for the end of the stream.
    bytes: VecDeque<u8>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    segments: VecDeque<Segment>,
    in_flight: usize,
    /// Arrival time of the latest segment.
    last_arrival: u64,
    /// Whether the writing end has closed.
    ended: bool,
    /// Whether the reading end has closed.
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Time and error with which an end of the connection breaks.
#[derive(Clone, Copy, Debug)]
struct Fate {
    at: u64,
    kind: io::ErrorKind,
}

/// State of a connection. Side 0 connected, side 1 accepted. Side n writes direction n.
#[derive(Default)]
struct State {
    directions: [Direction; 2],
    fates: [Option<Fate>; 2],
}

/// A connection between two nodes.
pub(super) struct Connection {
    shared: Arc<Shared>,
    nodes: [Node; 2],
    state: Mutex<State>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} to {:?}", self.nodes[0], self.nodes[1])
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

fn wake_all(state: &mut State) {
    for direction in &mut state.directions {
        wake(&mut direction.reader);
        wake(&mut direction.writer);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl Connection {
    /// A new connection from one node to another.
    pub(super) fn new(shared: &Arc<Shared>, from: Node, to: Node) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            nodes: [from, to],
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Whether the connection is between these two nodes, either way.
    pub(super) fn is_between(&self, one: Node, other: Node) -> bool {
        self.nodes == [one, other] || self.nodes == [other, one]
    }

    /// Resets the connection: both ends break now.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        self.reset_state(&mut state);
    }

    fn reset_state(&self, state: &mut State) {
        let fate = Fate {
            at: self.shared.now_nanos(),
            kind: io::ErrorKind::ConnectionReset,
        };
        state.fates = [Some(fate); 2];
        wake_all(state);
    }

    /// The machine at `side` has lost its power: the other side hears nothing, until the
    /// machine has restarted and rejects the connection, or keep-alive gives up.
    pub(super) fn lost(&self, side: usize) {
        let other = 1 - side;
        let patience = {
            let network = self.shared.network();
            nanos(
                network
                    .links
                    .get(self.nodes[other], self.nodes[side])
                    .patience,
            )
        };
        let silence = self.shared.random().random_range(0..=patience);
        let mut state = self.state();
        if state.fates[other].is_none() {
            state.fates[other] = Some(Fate {
                at: self.shared.now_nanos() + silence,
                kind: io::ErrorKind::ConnectionReset,
            });
        }
        wake_all(&mut state);
    }

    /// The link from `from` to `to` has opened: segments that waited for it are sent
    /// again.
    pub(super) fn opened(&self, from: Node, to: Node) {
        for side in 0..2 {
            if self.nodes[side] != from || self.nodes[1 - side] != to {
                continue;
            }
            let mut state = self.state();
            let mut held = std::mem::take(&mut state.directions[side].segments);
            for segment in held.iter_mut().filter(|segment| segment.arrives.is_none()) {
                segment.arrives = self.send(&mut state, side, segment.bytes.len(), 0);
            }
            state.directions[side].segments.append(&mut held);
            if matches!(state.fates[side], Some(Fate { kind: io::ErrorKind::TimedOut, at }) if at > self.shared.now_nanos())
            {
                state.fates[side] = None;
            }
            wake_all(&mut state);
        }
    }

    /// Sends a segment from `side`, delayed by `behind` nanoseconds of work, and returns
    /// its arrival time, if that is known.
    fn send(&self, state: &mut State, side: usize, bytes: usize, behind: u64) -> Option<u64> {
        let route = (self.nodes[side], self.nodes[1 - side]);
        let now = self.shared.now_nanos();
        let (passage, patience) = {
            let mut network = self.shared.network();
            let passage = network
                .links
                .send(route, bytes, now, &mut self.shared.random());
            (passage, network.links.get(route.0, route.1).patience)
        };
        let direction = &mut state.directions[side];
        let held = direction
            .segments
            .back()
            .is_some_and(|last| last.arrives.is_none());
        match passage {
            Passage::After(time) if !held => {
                direction.last_arrival = direction.last_arrival.max(now + behind + nanos(time));
                Some(direction.last_arrival)
            }
            Passage::After(_) => None,
            Passage::Reset => {
                self.reset_state(state);
                Some(now)
            }
            Passage::Blocked => {
                state.fates[side].get_or_insert(Fate {
                    at: now + nanos(patience),
                    kind: io::ErrorKind::TimedOut,
                });
                // A reader that waits on this side must include the new deadline in its
                // timer.
                wake(&mut state.directions[1 - side].reader);
                None
            }
        }
    }

    /// Returns the error of `side` if it has broken.
    fn check(&self, state: &State, side: usize) -> io::Result<()> {
        match state.fates[side] {
            Some(fate) if fate.at <= self.shared.now_nanos() => Err(fate.kind.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn poll_read(
        &self,
        side: usize,
        timer: &mut Timer,
        context: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut state = self.state();
            self.check(&state, side)?;
            let now = self.shared.now_nanos();
            let fate = state.fates[side].map(|fate| fate.at);
            let direction = &mut state.directions[1 - side];
            let arrival = match direction.segments.front_mut() {
                Some(segment) if segment.arrives.is_some_and(|at| at <= now) => {
                    // The end of the stream stays, for later reads.
                    let count = buffer.remaining().min(segment.bytes.len());
                    let bytes: Vec<u8> = segment.bytes.drain(..count).collect();
                    if count > 0 && segment.bytes.is_empty() {
                        direction.segments.pop_front();
                    }
                    direction.in_flight -= count;
                    wake(&mut direction.writer);
                    drop(state);
                    if let Some(task) = super::current() {
                        task.trace("receive", &[hash_bytes(0, &bytes)]);
                        task.machine(|machine| machine.cores.receive(bytes.len()));
                    }
                    buffer.put_slice(&bytes);
                    return Poll::Ready(Ok(()));
                }
                Some(segment) => segment.arrives,
                None => None,
            };
            direction.reader = Some(context.waker().clone());
            drop(state);
            std::task::ready!(timer.poll(earliest(arrival, fate), now, context));
        }
    }

    pub(super) fn poll_write(
        &self,
        side: usize,
        timer: &mut Timer,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut state = self.state();
            self.check(&state, side)?;
            let direction = &mut state.directions[side];
            if direction.broken || direction.ended {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let count = bytes.len().min(PIPE_BYTES - direction.in_flight);
            if count == 0 && !bytes.is_empty() {
                direction.writer = Some(context.waker().clone());
                let fate = state.fates[side].map(|fate| fate.at);
                drop(state);
                std::task::ready!(timer.poll(fate, self.shared.now_nanos(), context));
                continue;
            }
            if count > 0 {
                let behind = super::current().map_or(0, |task| {
                    task.machine(|machine| {
                        machine.cores.send(count);
                        machine.cores.behind()
                    })
                });
                let bytes = bytes[..count].iter().copied().collect();
                self.push(&mut state, side, bytes, behind);
            }
            return Poll::Ready(Ok(count));
        }
    }

    /// Sends a segment, delayed by `behind` nanoseconds of work.
    fn push(&self, state: &mut State, side: usize, bytes: VecDeque<u8>, behind: u64) {
        let arrives = self.send(state, side, bytes.len(), behind);
        let direction = &mut state.directions[side];
        direction.in_flight += bytes.len();
        direction.segments.push_back(Segment { arrives, bytes });
        wake(&mut direction.reader);
    }

    /// Closes the reading end of `side`.
    pub(super) fn deafen(&self, side: usize) {
        let mut state = self.state();
        let direction = &mut state.directions[1 - side];
        direction.broken = true;
        wake(&mut direction.writer);
    }

    /// Closes the writing end of `side`.
    pub(super) fn end(&self, side: usize) {
        let mut state = self.state();
        if !state.directions[side].ended {
            state.directions[side].ended = true;
            self.push(&mut state, side, VecDeque::new(), 0);
        }
    }
}

fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// A timer that wakes its task.
#[derive(Debug, Default)]
pub(super) struct Timer(Option<Pin<Box<tokio::time::Sleep>>>);

impl Timer {
    /// Ready once `at`, a future time, is reached; never without one.
    fn poll(
        &mut self,
        at: Option<u64>,
        now: u64,
        context: &mut std::task::Context<'_>,
    ) -> Poll<()> {
        let Some(at) = at else {
            self.0 = None;
            return Poll::Pending;
        };
        let wait = super::clock::nap(Duration::from_nanos(at.saturating_sub(now)));
        self.0.insert(Box::pin(wait)).as_mut().poll(context)
    }
}
