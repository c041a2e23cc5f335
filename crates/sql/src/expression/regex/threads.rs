//! The NFA simulation (Pike's virtual machine): all threads of the program advance
//! through the text in lockstep, in the order in which a backtracking engine would try
//! them, each with the positions of its groups.
//!
//! Its time is text × program at most, and it counts each visit of a state as work.

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

use super::{Span, Work};
use crate::Result;

/// Visits of states between two calls of the work meter.
const VISITS: usize = 4096;

/// Threads in the order of their priority, with their slots.
struct Threads {
    dense: Vec<StateID>,
    /// Position of each state in `dense`, valid if `dense` agrees.
    places: Vec<usize>,
    /// Slots of each state's thread.
    slots: Vec<Option<usize>>,
}

impl Threads {
    fn new(states: usize, width: usize) -> Self {
        Self {
            dense: Vec::with_capacity(states),
            places: vec![0; states],
            slots: vec![None; states * width],
        }
    }

    /// Adds a state; false if it is there already.
    fn insert(&mut self, state: StateID) -> bool {
        let place = self.places[state.as_usize()];
        if self.dense.get(place) == Some(&state) {
            return false;
        }
        self.places[state.as_usize()] = self.dense.len();
        self.dense.push(state);
        true
    }
}

/// A step of following transitions that consume nothing.
enum Follow {
    Explore(StateID),
    /// Restores a slot once all that followed its change has been explored.
    Restore(usize, Option<usize>),
}

struct Search<'a> {
    program: &'a NFA,
    text: &'a [u8],
    /// Number of slots kept for each thread.
    width: usize,
    stack: Vec<Follow>,
    /// Slots of the thread being followed.
    current: Vec<Option<usize>>,
    visits: usize,
}

/// Searches `span` for the leftmost match that a backtracking engine would find first;
/// puts the positions of its groups, as many as `slots` has room for, into `slots`.
pub(super) fn search(
    program: &NFA,
    text: &str,
    span: Span,
    slots: &mut [Option<usize>],
    work: &mut Work<'_>,
) -> Result<bool> {
    let states = program.states().len();
    let width = slots.len();
    let mut search = Search {
        program,
        text: text.as_bytes(),
        width,
        stack: Vec::new(),
        current: vec![None; width],
        visits: 0,
    };
    let mut now = Threads::new(states, width);
    let mut next = Threads::new(states, width);
    work(states.saturating_mul(width.max(1)))?;
    let (from, to) = span;
    let mut matched = false;
    for at in from..=to {
        search.count(now.dense.len() + 1, work)?;
        if now.dense.is_empty() && matched {
            break;
        }
        if !matched {
            // A new thread begins here, after those that began before.
            search.current.fill(None);
            search.follow(&mut now, program.start_anchored(), at, work)?;
        }
        for place in 0..now.dense.len() {
            let state = now.dense[place];
            let own = state.as_usize() * width;
            let target = match program.state(state) {
                State::Match { .. } => {
                    slots.copy_from_slice(&now.slots[own..own + width]);
                    matched = true;
                    // Threads of lower priority end.
                    break;
                }
                State::ByteRange { trans } if at < to => {
                    trans.matches(search.text, at).then_some(trans.next)
                }
                State::Sparse(sparse) if at < to => sparse.matches(search.text, at),
                State::Dense(dense) if at < to => dense.matches(search.text, at),
                _ => None,
            };
            if let Some(target) = target {
                search.current.copy_from_slice(&now.slots[own..own + width]);
                search.follow(&mut next, target, at + 1, work)?;
            }
        }
        std::mem::swap(&mut now, &mut next);
        next.dense.clear();
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
                Follow::Restore(slot, position) => self.current[slot] = position,
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
                    let own = state.as_usize() * self.width;
                    threads.slots[own..own + self.width].copy_from_slice(&self.current);
                    return Ok(());
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
                        self.stack.push(Follow::Restore(slot, self.current[slot]));
                        self.current[slot] = Some(at);
                    }
                    state = *next;
                }
            }
        }
    }
}
