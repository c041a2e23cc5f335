//! The lazy DFA, a chunk of text at a time: the states of a deterministic automaton are
//! built from the program when the text first reaches them.
//!
//! A step that finds its state built takes nanoseconds, one that builds it takes time in
//! proportion to the program. So chunks are short where the program is large, and a
//! chunk that built states counts as much work as if each byte had built one.

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::{PROGRAM_BYTES, Span, Work};
use crate::Result;

/// Memory of built states in bytes, in each direction; beyond it the automaton forgets
/// them and begins anew.
const STATES_BYTES: usize = 1 << 20;

/// Steps in which a chunk builds states at most.
const STEPS_OF_CHUNK: usize = 1 << 18;

/// Result of a search.
pub(super) enum Found {
    Match(Span),
    Nothing,
    /// The automaton cannot decide.
    Unknown,
}

/// How far an automaton has come in one direction.
enum Scanned {
    /// Position where the best match ends, as seen in the scan's direction; `None`
    /// without a match.
    At(Option<usize>),
    Unknown,
}

/// Both automata of a pattern; `None` where it cannot have them.
#[derive(Debug)]
pub(super) struct Automaton {
    both: Option<[Direction; 2]>,
}

#[derive(Debug)]
struct Direction {
    dfa: DFA,
    chunk: usize,
}

impl Direction {
    fn new(program: &NFA, kind: MatchKind) -> Option<Self> {
        let config = Config::new()
            .match_kind(kind)
            .unicode_word_boundary(true)
            .skip_cache_capacity_check(true)
            .cache_capacity(STATES_BYTES);
        let dfa = Builder::new()
            .configure(config)
            .build_from_nfa(program.clone())
            .ok()?;
        let chunk = (STEPS_OF_CHUNK / program.states().len().max(1)).clamp(16, 16 << 10);
        Some(Self { dfa, chunk })
    }

    /// Work of a chunk, and of the states that it built.
    fn weigh(&self, bytes: usize, before: (usize, usize), cache: &Cache) -> usize {
        if before == built(cache) {
            return bytes;
        }
        bytes.saturating_mul(self.dfa.get_nfa().states().len())
    }

    /// Scans `span` forward from its start.
    fn forward(
        &self,
        cache: &mut Cache,
        text: &[u8],
        span: Span,
        (earliest, anchored): (bool, Anchored),
        work: &mut Work<'_>,
    ) -> Result<Scanned> {
        let (from, to) = span;
        let input = Input::new(text).range(from..to).anchored(anchored);
        let Ok(mut state) = self.dfa.start_state_forward(cache, &input) else {
            return Ok(Scanned::Unknown);
        };
        let mut last = None;
        let mut at = from;
        while at < to {
            let end = to.min(at + self.chunk);
            let before = built(cache);
            for (position, byte) in text[at..end].iter().enumerate() {
                let Ok(next) = self.dfa.next_state(cache, state, *byte) else {
                    return Ok(Scanned::Unknown);
                };
                state = next;
                if state.is_tagged() {
                    // A match is seen one byte after its end.
                    match look(state) {
                        Some(true) => last = Some(at + position),
                        Some(false) => {
                            work(self.weigh(position, before, cache))?;
                            return Ok(Scanned::At(last));
                        }
                        None if state.is_quit() => return Ok(Scanned::Unknown),
                        None => {}
                    }
                    if earliest && last.is_some() {
                        return Ok(Scanned::At(last));
                    }
                }
            }
            work(self.weigh(end - at, before, cache))?;
            at = end;
        }
        let state = match text.get(to) {
            Some(byte) => self.dfa.next_state(cache, state, *byte),
            None => self.dfa.next_eoi_state(cache, state),
        };
        match state {
            Ok(state) if state.is_quit() => Ok(Scanned::Unknown),
            Ok(state) if state.is_match() => Ok(Scanned::At(Some(to))),
            Ok(_) => Ok(Scanned::At(last)),
            Err(_) => Ok(Scanned::Unknown),
        }
    }

    /// Scans `span` backward from its end, where the match is to begin.
    fn backward(
        &self,
        cache: &mut Cache,
        text: &[u8],
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Scanned> {
        let (from, to) = span;
        let input = Input::new(text).range(from..to).anchored(Anchored::Yes);
        let Ok(mut state) = self.dfa.start_state_reverse(cache, &input) else {
            return Ok(Scanned::Unknown);
        };
        let mut last = None;
        let mut at = to;
        while at > from {
            let begin = from.max(at.saturating_sub(self.chunk));
            let before = built(cache);
            for position in (begin..at).rev() {
                let Ok(next) = self.dfa.next_state(cache, state, text[position]) else {
                    return Ok(Scanned::Unknown);
                };
                state = next;
                if state.is_tagged() {
                    match look(state) {
                        Some(true) => last = Some(position + 1),
                        Some(false) => {
                            work(self.weigh(at - position, before, cache))?;
                            return Ok(Scanned::At(last));
                        }
                        None if state.is_quit() => return Ok(Scanned::Unknown),
                        None => {}
                    }
                }
            }
            work(self.weigh(at - begin, before, cache))?;
            at = begin;
        }
        let state = match from.checked_sub(1) {
            Some(position) => self.dfa.next_state(cache, state, text[position]),
            None => self.dfa.next_eoi_state(cache, state),
        };
        match state {
            Ok(state) if state.is_quit() => Ok(Scanned::Unknown),
            Ok(state) if state.is_match() => Ok(Scanned::At(Some(from))),
            Ok(_) => Ok(Scanned::At(last)),
            Err(_) => Ok(Scanned::Unknown),
        }
    }
}

/// True for a match, false for a state that nothing can follow.
fn look(state: LazyStateID) -> Option<bool> {
    if state.is_match() {
        Some(true)
    } else if state.is_dead() {
        Some(false)
    } else {
        None
    }
}

/// How many states have been built, as far as the cache tells.
fn built(cache: &Cache) -> (usize, usize) {
    (cache.memory_usage(), cache.clear_count())
}

impl Automaton {
    /// Memory of the automata in bytes, without their states.
    pub(super) fn bytes(&self) -> usize {
        let directions = self.both.iter().flatten();
        directions.map(|each| each.dfa.memory_usage()).sum()
    }

    pub(super) fn new(tree: &Hir, program: &NFA) -> Self {
        let config = thompson::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .which_captures(WhichCaptures::None)
            .reverse(true);
        let reversed = thompson::Compiler::new()
            .configure(config)
            .build_from_hir(tree)
            .ok();
        let forward = Direction::new(program, MatchKind::LeftmostFirst);
        let backward = reversed.and_then(|reversed| Direction::new(&reversed, MatchKind::All));
        Self {
            both: forward
                .zip(backward)
                .map(|(forward, backward)| [forward, backward]),
        }
    }

    /// The leftmost match at or after `from`. With `earliest`, the bounds of the result
    /// mean nothing. `states` are those that earlier searches have built.
    pub(super) fn find(
        &self,
        text: &str,
        from: usize,
        earliest: bool,
        states: &mut [Option<Cache>; 2],
        work: &mut Work<'_>,
    ) -> Result<Found> {
        let Some([forward, backward]) = &self.both else {
            return Ok(Found::Unknown);
        };
        let [ahead, behind] = states;
        let text = text.as_bytes();
        let cache = ahead.get_or_insert_with(|| forward.dfa.create_cache());
        let end = match forward.forward(
            cache,
            text,
            (from, text.len()),
            (earliest, Anchored::No),
            work,
        )? {
            Scanned::Unknown => return Ok(Found::Unknown),
            Scanned::At(None) => return Ok(Found::Nothing),
            Scanned::At(Some(end)) => end,
        };
        if earliest || end == from {
            return Ok(Found::Match((from.min(end), end)));
        }
        let cache = behind.get_or_insert_with(|| backward.dfa.create_cache());
        Ok(match backward.backward(cache, text, (from, end), work)? {
            Scanned::At(Some(start)) => Found::Match((start, end)),
            Scanned::At(None) | Scanned::Unknown => Found::Unknown,
        })
    }
}

/// The automaton that finds the end of the longest match; `None` where there is none.
#[derive(Debug)]
pub(super) struct Longest(Option<Direction>);

impl Longest {
    pub(super) fn new(program: &NFA) -> Self {
        Self(Direction::new(program, MatchKind::All))
    }

    /// Memory of the automaton in bytes, without its states.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |each| each.dfa.memory_usage())
    }

    /// The end of the longest match that begins at `from`.
    pub(super) fn end(
        &self,
        text: &str,
        from: usize,
        states: &mut Option<Cache>,
        work: &mut Work<'_>,
    ) -> Result<Found> {
        let Some(direction) = &self.0 else {
            return Ok(Found::Unknown);
        };
        let cache = states.get_or_insert_with(|| direction.dfa.create_cache());
        let (span, how) = ((from, text.len()), (false, Anchored::Yes));
        let scanned = direction.forward(cache, text.as_bytes(), span, how, work)?;
        Ok(match scanned {
            Scanned::At(Some(end)) => Found::Match((from, end)),
            Scanned::At(None) => Found::Nothing,
            Scanned::Unknown => Found::Unknown,
        })
    }
}
