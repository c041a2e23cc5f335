//! Regular expressions: compiled within bounds, matched so that a long match can be
//! canceled.
//!
//! The evaluator compiles a pattern when it meets it; the statement and the session keep
//! the last ones ([`kept`]), and what they and the buffers of their searches ([`scratch`])
//! take is charged to the session. The length of a pattern, its nesting, its [character classes](classes) and its program are
//! bounded, so compiling takes some milliseconds, and a tenth of a second at most.
//!
//! Short texts are searched by the library's engine, which chooses among many
//! techniques but cannot be interrupted. It is used only where text × program is small,
//! as no engine takes longer than that. Longer texts are searched a chunk at a time
//! by a lazy DFA ([`automaton`]): forward for the end of the leftmost match, backward for
//! its start. What that cannot decide (Unicode's word boundaries beside letters beyond
//! ASCII, and groups of long matches) a simulation of the NFA does ([`threads`]). All of
//! them find the leftmost match that a backtracking engine would find first, so the
//! answer does not depend on which one ran; a test compares them.
//!
//! PostgreSQL prefers the longest of the matches that begin there, if the expression is
//! greedy. The two differ where the expression has alternatives; then the match is
//! lengthened ([`Regex::lengthen`]).
//!
//! ```text
//!                      text × program small?
//!                 yes ╱                     ╲ no
//!        library's engine            lazy DFA: end, then start
//!                                      │ word boundary, groups
//!                                    NFA simulation
//! ```

mod automaton;
mod classes;
mod kept;
mod scratch;
mod threads;

use std::sync::{Arc, Mutex, PoisonError};

use self::automaton::{Automaton, Longest};
use self::classes::Classes;
pub(super) use self::kept::CompiledPatterns;
pub(crate) use self::kept::KeptPatterns;
pub(super) use self::kept::compiled;
use self::scratch::Scratch;
use self::threads::Wanted;
use super::EvaluationContext;
use crate::instance::{Charge, SessionMemory};
use crate::{Error, Result, SqlState, Value};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Hir, HirKind};

/// Maximum length of a pattern, in bytes.
const PATTERN_BYTES: usize = 32 << 10;

/// Maximum depth to which a pattern may nest groups and repetitions.
const NESTING: u32 = 200;

/// Maximum memory of a compiled pattern, in bytes.
const PROGRAM_BYTES: usize = 1 << 20;

/// Maximum number of positions that the NFA simulation keeps: groups × program. They are of
/// four bytes, and of two steps of the text.
const POSITIONS: usize = 1 << 20;

/// Maximum number of positions that the library's engine keeps, which are of eight bytes.
const POSITIONS_OF_LIBRARY: usize = 1 << 17;

/// Memory of states that the library's engine builds, in bytes.
const STATES_OF_LIBRARY: usize = 512 << 10;

/// Text in bytes × states of the program up to which the library's engine searches.
const SEARCHED_AT_ONCE: usize = 1 << 19;

/// Called with work done, in bytes; fails when the statement is canceled.
type Work<'w> = dyn FnMut(usize) -> Result<()> + 'w;

/// Called with the groups of a match.
type Visit<'v> = dyn FnMut(&[Option<Span>], &mut Work<'_>) -> Result<()> + 'v;

/// A compiled regular expression.
#[derive(Debug)]
pub(super) struct Regex {
    engine: meta::Regex,
    program: NFA,
    automaton: Automaton,
    /// Finds the longest match, if the first one may be shorter.
    longest: Option<Longest>,
    /// Buffers of the last search.
    scratch: Mutex<Option<Box<Scratch>>>,
    /// The session that the pattern and its buffers are charged to, and the charge of the
    /// pattern; `None` where nothing is charged.
    charged: Option<(Arc<SessionMemory>, Charge)>,
}

/// Start and end of a match, or of a group of one.
type Span = (usize, usize);

fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {reason}"),
    )
}

fn too_complex() -> Error {
    invalid("regular expression is too complex").with_detail(format!(
        "A compiled pattern takes {PROGRAM_BYTES} bytes at most, and its groups have {POSITIONS} positions."
    ))
}

impl Regex {
    /// Compiles a regular expression. The syntax is PostgreSQL's without back references
    /// and lookahead, which would make matching time unbounded.
    pub(super) fn new(pattern: &str, ignore_case: bool) -> Result<Self> {
        if pattern.len() > PATTERN_BYTES {
            return Err(invalid("regular expression is too long")
                .with_detail(format!("A pattern has {PATTERN_BYTES} bytes at most.")));
        }
        if !Classes::of(pattern, ignore_case, NESTING).are_few() {
            return Err(invalid("regular expression is too complex")
                .with_detail("Its character classes have too many characters."));
        }
        let config = syntax::Config::new()
            .case_insensitive(ignore_case)
            .dot_matches_new_line(true)
            .nest_limit(NESTING);
        let tree = syntax::parse_with(pattern, &config).map_err(|error| {
            if let regex_syntax::Error::Parse(error) = &error
                && matches!(
                    error.kind(),
                    regex_syntax::ast::ErrorKind::NestLimitExceeded(_)
                )
            {
                return invalid("regular expression is too complex")
                    .with_detail(format!("A pattern nests {NESTING} groups at most."));
            }
            Error::new(
                SqlState::INVALID_REGULAR_EXPRESSION,
                "invalid regular expression",
            )
            .with_detail(error.to_string())
        })?;
        let config = thompson::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .which_captures(WhichCaptures::All);
        let program = thompson::Compiler::new()
            .configure(config)
            .build_from_hir(&tree)
            .map_err(|_| too_complex())?;
        let config = meta::Config::new()
            .nfa_size_limit(Some(PROGRAM_BYTES))
            .hybrid_cache_capacity(STATES_OF_LIBRARY);
        let engine = meta::Builder::new()
            .configure(config)
            .build_from_hir(&tree)
            .map_err(|_| too_complex())?;
        let automaton = Automaton::new(&tree, &program);
        let longest = prefers_longest(&tree).then(|| Longest::new(&program));
        Ok(Self {
            engine,
            program,
            automaton,
            longest,
            scratch: Mutex::new(None),
            charged: None,
        })
    }

    /// Charges the pattern to a session, and from then on the buffers of its searches.
    fn charge_to(&mut self, memory: &Arc<SessionMemory>) -> Result<()> {
        let charge = memory.charge(self.bytes() as u64, scratch::WHAT)?;
        self.charged = Some((Arc::clone(memory), charge));
        Ok(())
    }

    /// Memory of the compiled pattern in bytes, without the buffers of its searches.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.engine.memory_usage()
            + self.program.memory_usage()
            + self.automaton.bytes()
            + self.longest.as_ref().map_or(0, Longest::bytes)
    }

    /// Runs a search with the buffers of the one before, and charges for them.
    fn with_scratch<T>(&self, search: impl FnOnce(&mut Scratch) -> Result<T>) -> Result<T> {
        let kept = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = kept().take().unwrap_or_default();
        let found = search(&mut scratch);
        if let Some((memory, _)) = &self.charged {
            scratch.charge(memory)?;
        }
        *kept() = Some(scratch);
        found
    }

    /// Gives back what the statement's searches have taken, unless it is little.
    fn rest(&self) {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.take_if(|scratch| scratch.bytes() > kept::KEPT_BYTES);
    }

    /// Number of groups, the whole match included.
    pub(super) fn groups(&self) -> usize {
        self.program
            .group_info()
            .group_len(regex_automata::PatternID::ZERO)
    }

    /// Whether a search through so many bytes is short.
    fn is_short(&self, bytes: usize) -> bool {
        let states = self.program.states().len();
        // The library's engine keeps the positions of all groups.
        bytes.saturating_mul(states) <= SEARCHED_AT_ONCE
            && self.positions(self.groups()) <= POSITIONS_OF_LIBRARY
    }

    /// Number of positions of so many groups in all threads.
    fn positions(&self, groups: usize) -> usize {
        let states = self.program.states().len();
        (2 * groups).saturating_mul(states)
    }

    /// Whether the text has a match.
    pub(super) fn is_match(&self, text: &str, work: &mut Work<'_>) -> Result<bool> {
        self.with_scratch(|scratch| {
            if self.is_short(text.len()) {
                work(text.len())?;
                let input = Input::new(text).earliest(true);
                let found = self
                    .engine
                    .search_half_with(self.engine_cache(scratch), &input);
                return Ok(found.is_some());
            }
            Ok(self.find(text, 0, true, scratch, work)?.is_some())
        })
    }

    /// The buffers of the library's engine.
    fn engine_cache<'s>(&self, scratch: &'s mut Scratch) -> &'s mut meta::Cache {
        let cache = &mut scratch.engine_cache;
        cache.get_or_insert_with(|| self.engine.create_cache())
    }

    /// The leftmost match at or after `from`; with `earliest`, only whether there is
    /// one.
    fn find(
        &self,
        text: &str,
        from: usize,
        earliest: bool,
        scratch: &mut Scratch,
        work: &mut Work<'_>,
    ) -> Result<Option<Span>> {
        let mut from = from;
        while from <= text.len() {
            let states = &mut scratch.states;
            let found = match self.automaton.find(text, from, earliest, states, work)? {
                automaton::Found::Match(span) => Some(span),
                automaton::Found::Nothing => None,
                automaton::Found::Unknown => {
                    let mut slots = [None; 2];
                    let rest = ((from, text.len()), Wanted::First);
                    let threads = &mut scratch.threads;
                    threads::search(&self.program, text, rest, &mut slots, threads, work)?
                        .then(|| whole(&slots))
                        .flatten()
                }
            };
            match found {
                // An empty match in the middle of a character is none.
                Some((_, end)) if !text.is_char_boundary(end) => from += 1,
                found => return Ok(found),
            }
        }
        Ok(None)
    }

    /// Positions of the first `wanted` groups of a match; the whole match is the first
    /// one.
    fn groups_of(
        &self,
        text: &str,
        span: Span,
        wanted: usize,
        scratch: &mut Scratch,
        work: &mut Work<'_>,
    ) -> Result<Vec<Option<Span>>> {
        let wanted = wanted.min(self.groups());
        if wanted <= 1 {
            return Ok(vec![Some(span)]);
        }
        let (start, end) = span;
        if self.longest.is_none() && self.is_short(end - start) {
            work(end - start)?;
            let mut captures = self.engine.create_captures();
            let input = Input::new(text)
                .range(start..end)
                .anchored(regex_automata::Anchored::Yes);
            let cache = self.engine_cache(scratch);
            self.engine
                .search_captures_with(cache, &input, &mut captures);
            return Ok((0..wanted)
                .map(|group| captures.get_group(group).map(|span| (span.start, span.end)))
                .collect());
        }
        if self.positions(wanted) > POSITIONS {
            return Err(too_complex());
        }
        let mut slots = vec![None; 2 * wanted];
        let threads = &mut scratch.threads;
        // The longest match within the span is the span.
        let wanted = match self.longest {
            Some(_) => Wanted::Longest,
            None => Wanted::First,
        };
        let span = (span, wanted);
        threads::search(&self.program, text, span, &mut slots, threads, work)?;
        Ok(slots
            .chunks(2)
            .map(|slots| slots[0].zip(slots[1]))
            .collect())
    }

    /// The groups of the first match.
    pub(super) fn captures(
        &self,
        text: &str,
        work: &mut Work<'_>,
    ) -> Result<Option<Vec<Option<Span>>>> {
        self.with_scratch(|scratch| {
            let Some(span) = self.find_from(text, 0, scratch, work)? else {
                return Ok(None);
            };
            self.groups_of(text, span, usize::MAX, scratch, work)
                .map(Some)
        })
    }

    /// The match that is preferred at or after `from`: the leftmost, and of those the
    /// longest if the expression prefers that.
    fn find_from(
        &self,
        text: &str,
        from: usize,
        scratch: &mut Scratch,
        work: &mut Work<'_>,
    ) -> Result<Option<Span>> {
        match self.find_first(text, from, scratch, work)? {
            Some(span) => self.lengthen(text, span, scratch, work).map(Some),
            None => Ok(None),
        }
    }

    /// The longest match that begins where this one does.
    fn lengthen(
        &self,
        text: &str,
        span: Span,
        scratch: &mut Scratch,
        work: &mut Work<'_>,
    ) -> Result<Span> {
        let Some(longest) = &self.longest else {
            return Ok(span);
        };
        match longest.end(text, span.0, &mut scratch.longest, work)? {
            automaton::Found::Match(longer) if text.is_char_boundary(longer.1) => Ok(longer),
            automaton::Found::Match(_) | automaton::Found::Nothing => Ok(span),
            automaton::Found::Unknown => {
                let mut slots = [None; 2];
                let rest = ((span.0, text.len()), Wanted::Longest);
                let threads = &mut scratch.threads;
                threads::search(&self.program, text, rest, &mut slots, threads, work)?;
                Ok(whole(&slots).unwrap_or(span))
            }
        }
    }

    /// The leftmost match at or after `from` that a backtracking engine would find first.
    fn find_first(
        &self,
        text: &str,
        from: usize,
        scratch: &mut Scratch,
        work: &mut Work<'_>,
    ) -> Result<Option<Span>> {
        if from > text.len() {
            return Ok(None);
        }
        let left = text.len() - from;
        if left < FEW_BYTES && self.is_short(left) {
            work(left)?;
            let input = Input::new(text).range(from..);
            let found = self.engine.search_with(self.engine_cache(scratch), &input);
            return Ok(found.map(|found| (found.start(), found.end())));
        }
        self.find(text, from, false, scratch, work)
    }

    /// Calls `visit` with the first `groups` groups of each match, at most `most` matches,
    /// from the left. A character stands between an empty match and the next one.
    pub(super) fn each(
        &self,
        text: &str,
        most: usize,
        groups: usize,
        work: &mut Work<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.with_scratch(|scratch| {
            let mut from = 0;
            for _ in 0..most {
                let Some(span) = self.find_from(text, from, scratch, work)? else {
                    return Ok(());
                };
                work(super::ROW)?;
                let found = self.groups_of(text, span, groups, scratch, work)?;
                visit(&found, work)?;
                from = after(text, span);
            }
            Ok(())
        })
    }
}

/// Number of bytes of text so small that the library's engine finds the next match
/// sooner than the lazy DFA starts.
const FEW_BYTES: usize = 256;

/// Where the search for the next match begins.
fn after(text: &str, (start, end): Span) -> usize {
    if start < end {
        return end;
    }
    let next = text.get(end..).and_then(|rest| rest.chars().next());
    end + next.map_or(1, char::len_utf8)
}

/// Whether the longest match is wanted, and may be another than the first one: the
/// expression has alternatives, and is greedy by PostgreSQL's rules.
fn prefers_longest(tree: &Hir) -> bool {
    fn any(tree: &Hir, test: &dyn Fn(&HirKind) -> bool) -> bool {
        let below = |each: &Hir| any(each, test);
        test(tree.kind())
            || match tree.kind() {
                HirKind::Repetition(repetition) => below(&repetition.sub),
                HirKind::Capture(capture) => below(&capture.sub),
                HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(below),
                HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {
                    false
                }
            }
    }
    /// Whether the expression is greedy, if it is either: alternatives are, a repetition as
    /// it says, and a sequence as its first part that is either.
    fn greedy(tree: &Hir) -> Option<bool> {
        match tree.kind() {
            HirKind::Repetition(each) if Some(each.min) == each.max => greedy(&each.sub),
            HirKind::Repetition(each) => Some(each.greedy),
            HirKind::Capture(capture) => greedy(&capture.sub),
            HirKind::Concat(parts) => parts.iter().find_map(greedy),
            HirKind::Alternation(_) => Some(true),
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
        }
    }
    let has_alternatives = any(tree, &|kind| matches!(kind, HirKind::Alternation(_)));
    has_alternatives && greedy(tree) == Some(true)
}

/// The whole match.
fn whole(slots: &[Option<usize>]) -> Option<Span> {
    slots[0].zip(slots[1])
}

/// Options of a regular expression match: `~`, `~*`, `!~`, `!~*`.
#[derive(Debug, PartialEq, Eq)]
pub struct RegexPattern {
    /// Whether the match ignores case.
    pub ignore_case: bool,
}

impl RegexPattern {
    pub(super) const fn new(ignore_case: bool) -> Self {
        Self { ignore_case }
    }

    pub(super) fn evaluate(
        &self,
        subject: &Value,
        pattern: &Value,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Value> {
        let (Value::Text(subject), Value::Text(pattern)) = (subject, pattern) else {
            return Ok(Value::Null);
        };
        let regex = compiled(pattern, self.ignore_case, context)?;
        let matched = regex.is_match(subject, &mut |bytes| context.work(bytes))?;
        Ok(Value::Bool(matched))
    }
}

#[cfg(test)]
mod tests;
