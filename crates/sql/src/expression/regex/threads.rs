//! The NFA simulation (Pike's virtual machine): all threads of the program advance
//! through the text in lockstep, in the order in which a backtracking engine would try
//! them, each with the positions of its groups.
//!
//! Its time is text × program at most, and it counts each visit of a state as work. Its
//! memory is that of the threads that live, each with its positions; states that have
//! none of their own take eight bytes.

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

use super::{Span, Work};
use crate::Result;

/// Visits of states between two calls of the work meter.
const VISITS: usize = 4096;

/// A position in the text, or [`NOWHERE`].
type Position = u32;

/// No position. Texts are shorter than this.
const NOWHERE: Position = Position::MAX;

/// Bytes of a position.
#[cfg(test)]
pub(super) const POSITION_BYTES: usize = size_of::<Position>();

/// Threads in the order of their priority, with their slots.
#[derive(Debug, Default)]
struct Threads {
    /// The states that have been visited.
    visited: Vec<StateID>,
    /// Position of each state in `visited`, valid if `visited` agrees; so it need not be
    /// cleared.
    places: Vec<u32>,
    /// The states that wait for the next byte, or match.
    live: Vec<StateID>,
    /// Slots of each state in `live`.
    slots: Vec<Position>,
}

impl Threads {
    fn clear(&mut self) {
        self.visited.clear();
        self.live.clear();
        self.slots.clear();
    }

    /// Visits a state; false if it has been visited already.
    fn insert(&mut self, state: StateID) -> bool {
        let place = &mut self.places[state.as_usize()];
        if self.visited.get(*place as usize) == Some(&state) {
            return false;
        }
        *place = self.visited.len() as u32;
        self.visited.push(state);
        true
    }

    fn bytes(&self) -> usize {
        self.visited.capacity() * size_of::<StateID>()
            + self.live.capacity() * size_of::<StateID>()
            + self.places.capacity() * size_of::<u32>()
            + self.slots.capacity() * size_of::<Position>()
    }
}

/// What a search needs, and the next one uses again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    now: Threads,
    next: Threads,
    stack: Vec<Follow>,
    /// Slots of the thread being followed.
    current: Vec<Position>,
}

impl Buffers {
    /// Memory of the buffers, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.now.bytes()
            + self.next.bytes()
            + self.stack.capacity() * size_of::<Follow>()
            + self.current.capacity() * size_of::<Position>()
    }
}

/// A step of following transitions that consume nothing.
#[derive(Debug)]
enum Follow {
    Explore(StateID),
    /// Restores a slot once all that followed its change has been explored.
    Restore(u32, Position),
}

struct Search<'a> {
    program: &'a NFA,
    text: &'a [u8],
    /// Number of slots kept for each thread.
    width: usize,
    stack: &'a mut Vec<Follow>,
    current: &'a mut [Position],
    visits: usize,
}

/// Which of the matches a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Of the leftmost, the one that a backtracking engine would find first.
    First,
    /// Of those that begin where the span does, the longest, as a backtracking engine would
    /// find it if it looked for no other.
    Longest,
}

/// Searches `span` for a match; puts the positions of its groups, as many as `slots` has
/// room for, into `slots`.
pub(super) fn search(
    program: &NFA,
    text: &str,
    (span, wanted): (Span, Wanted),
    slots: &mut [Option<usize>],
    buffers: &mut Buffers,
    work: &mut Work<'_>,
) -> Result<bool> {
    let states = program.states().len();
    let width = slots.len();
    let Buffers {
        now,
        next,
        stack,
        current,
    } = buffers;
    for threads in [&mut *now, &mut *next] {
        threads.clear();
        if threads.places.len() < states {
            work(states)?;
            threads.places.resize(states, 0);
        }
    }
    stack.clear();
    current.clear();
    current.resize(width, NOWHERE);
    let mut search = Search {
        program,
        text: text.as_bytes(),
        width,
        stack,
        current,
        visits: 0,
    };
    let (from, to) = span;
    let mut matched = false;
    for at in from..=to {
        search.count(now.live.len() + 1, work)?;
        let begins = match wanted {
            Wanted::First => !matched,
            Wanted::Longest => at == from,
        };
        if now.live.is_empty() && !begins {
            break;
        }
        if begins {
            // A new thread begins here, after those that began before.
            search.current.fill(NOWHERE);
            search.follow(now, program.start_anchored(), at, work)?;
        }
        let mut matched_here = false;
        for (place, state) in now.live.iter().enumerate() {
            let own = &now.slots[place * width..(place + 1) * width];
            let target = match program.state(*state) {
                State::Match { .. } => {
                    if !std::mem::replace(&mut matched_here, true) {
                        for (slot, position) in slots.iter_mut().zip(own) {
                            *slot = (*position != NOWHERE).then_some(*position as usize);
                        }
                    }
                    matched = true;
                    if wanted == Wanted::First {
                        // Threads of lower priority end.
                        break;
                    }
                    None
                }
                State::ByteRange { trans } if at < to => {
                    trans.matches(search.text, at).then_some(trans.next)
                }
                State::Sparse(sparse) if at < to => sparse.matches(search.text, at),
                State::Dense(dense) if at < to => dense.matches(search.text, at),
                _ => None,
            };
            if let Some(target) = target {
                search.current.copy_from_slice(own);
                search.follow(next, target, at + 1, work)?;
            }
        }
        std::mem::swap(now, next);
        next.clear();
    }
    work(search.visits)?;
    Ok(matched)
}

impl Search<'_> {
    fn count(&mut self, visits: usize, work: &mut Work<'_>) -> Result<()> {
        self.visits += visits;
        if self.visits >= VISITS {
            work(std::mem::take(&mut self.visits))?;
        }
        Ok(())
    }

    /// Adds all states that follow `state` at position `at` without consuming a byte.
    fn follow(
        &mut self,
        threads: &mut Threads,
        state: StateID,
        at: usize,
        work: &mut Work<'_>,
    ) -> Result<()> {
        self.stack.push(Follow::Explore(state));
        while let Some(step) = self.stack.pop() {
            match step {
                Follow::Restore(slot, position) => self.current[slot as usize] = position,
                Follow::Explore(state) => self.explore(threads, state, at, work)?,
            }
        }
        Ok(())
    }

    fn explore(
        &mut self,
        threads: &mut Threads,
        mut state: StateID,
        at: usize,
        work: &mut Work<'_>,
    ) -> Result<()> {
        let program = self.program;
        loop {
            self.count(1, work)?;
            if !threads.insert(state) {
                return Ok(());
            }
            match program.state(state) {
                State::Fail => return Ok(()),
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Match { .. } => {
                    threads.live.push(state);
                    threads.slots.extend_from_slice(self.current);
                    return self.count(self.width / 16, work);
                }
                State::Look { look, next } => {
                    if !program.look_matcher().matches(*look, self.text, at) {
                        return Ok(());
                    }
                    state = *next;
                }
                State::Union { alternates } => {
                    let Some((first, rest)) = alternates.split_first() else {
                        return Ok(());
                    };
                    self.stack
                        .extend(rest.iter().rev().map(|each| Follow::Explore(*each)));
                    state = *first;
                }
                State::BinaryUnion { alt1, alt2 } => {
                    self.stack.push(Follow::Explore(*alt2));
                    state = *alt1;
                }
                State::Capture { next, slot, .. } => {
                    let slot = slot.as_usize();
                    if slot < self.width {
                        let before = std::mem::replace(&mut self.current[slot], at as Position);
                        self.stack.push(Follow::Restore(slot as u32, before));
                    }
                    state = *next;
                }
            }
        }
    }
}
