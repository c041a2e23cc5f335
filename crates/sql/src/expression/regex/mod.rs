//! Regular expressions: compiled within bounds, matched so that a long match can be
//! canceled.
//!
//! The evaluator compiles a pattern when it meets it, and caches the last ones. The length
//! of a pattern, its nesting, its [character classes](classes) and its program are
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
//! ```text
//!                      text × program small?
//!                 yes ╱                     ╲ no
//!        library's engine            lazy DFA: end, then start
//!                                      │ word boundary, groups
//!                                    NFA simulation
//! ```

mod automaton;
mod classes;
mod threads;

use std::sync::{Arc, Mutex, PoisonError};

use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, meta};
use smol_str::SmolStr;

use self::automaton::Automaton;
use self::classes::Classes;
use super::EvaluationContext;
use crate::{Error, Result, SqlState, Value};

/// Maximum length of a pattern, in bytes.
const PATTERN_BYTES: usize = 32 << 10;

/// Maximum depth to which a pattern may nest groups and repetitions.
const NESTING: u32 = 200;

/// Maximum memory of a compiled pattern, in bytes.
const PROGRAM_BYTES: usize = 1 << 20;

/// Maximum number of positions that the NFA simulation keeps: groups × program.
const POSITIONS: usize = 1 << 21;

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
        let config = meta::Config::new().nfa_size_limit(Some(PROGRAM_BYTES));
        let engine = meta::Builder::new()
            .configure(config)
            .build_from_hir(&tree)
            .map_err(|_| too_complex())?;
        let automaton = Automaton::new(&tree, &program);
        Ok(Self {
            engine,
            program,
            automaton,
        })
    }

    /// Memory of the compiled pattern in bytes, without what long searches add.
    fn bytes(&self) -> usize {
        self.engine.memory_usage() + self.program.memory_usage()
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
        bytes.saturating_mul(states) <= SEARCHED_AT_ONCE && self.keeps(self.groups())
    }

    /// Whether a simulation may keep the positions of so many groups. The library's
    /// engine keeps those of all groups.
    fn keeps(&self, groups: usize) -> bool {
        let states = self.program.states().len();
        (2 * groups).saturating_mul(states) <= POSITIONS
    }

    /// Whether the text has a match.
    pub(super) fn is_match(&self, text: &str, work: &mut Work<'_>) -> Result<bool> {
        if self.is_short(text.len()) {
            work(text.len())?;
            return Ok(self.engine.is_match(text));
        }
        Ok(self.find(text, 0, true, work)?.is_some())
    }

    /// The leftmost match at or after `from`; with `earliest`, only whether there is
    /// one.
    fn find(
        &self,
        text: &str,
        from: usize,
        earliest: bool,
        work: &mut Work<'_>,
    ) -> Result<Option<Span>> {
        let mut from = from;
        while from <= text.len() {
            let found = match self.automaton.find(text, from, earliest, work)? {
                automaton::Found::Match(span) => Some(span),
                automaton::Found::Nothing => None,
                automaton::Found::Unknown => {
                    let mut slots = vec![None; 2];
                    threads::search(&self.program, text, (from, text.len()), &mut slots, work)?
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
        work: &mut Work<'_>,
    ) -> Result<Vec<Option<Span>>> {
        let wanted = wanted.min(self.groups());
        if wanted <= 1 {
            return Ok(vec![Some(span)]);
        }
        let (start, end) = span;
        if self.is_short(end - start) {
            work(end - start)?;
            let mut captures = self.engine.create_captures();
            let input = Input::new(text)
                .range(start..end)
                .anchored(regex_automata::Anchored::Yes);
            self.engine.search_captures(&input, &mut captures);
            return Ok((0..wanted)
                .map(|group| captures.get_group(group).map(|span| (span.start, span.end)))
                .collect());
        }
        if !self.keeps(wanted) {
            return Err(too_complex());
        }
        let mut slots = vec![None; 2 * wanted];
        threads::search(&self.program, text, span, &mut slots, work)?;
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
        let Some(span) = self.find_from(text, 0, work)? else {
            return Ok(None);
        };
        self.groups_of(text, span, usize::MAX, work).map(Some)
    }

    /// The leftmost match at or after `from`.
    fn find_from(&self, text: &str, from: usize, work: &mut Work<'_>) -> Result<Option<Span>> {
        if from > text.len() {
            return Ok(None);
        }
        let left = text.len() - from;
        if left < FEW_BYTES && self.is_short(left) {
            work(left)?;
            let found = self.engine.search(&Input::new(text).range(from..));
            return Ok(found.map(|found| (found.start(), found.end())));
        }
        self.find(text, from, false, work)
    }

    /// Calls `visit` with the first `groups` groups of each match, at most `most` matches,
    /// from the left. An empty match right after another match is none.
    pub(super) fn each(
        &self,
        text: &str,
        most: usize,
        groups: usize,
        work: &mut Work<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut from = 0;
        let mut last_end = None;
        for _ in 0..most {
            let mut found = self.find_from(text, from, work)?;
            if let Some((start, end)) = found
                && start == end
                && last_end == Some(end)
            {
                found = self.find_from(text, from + 1, work)?;
            }
            let Some(span) = found else {
                return Ok(());
            };
            work(super::ROW)?;
            let found = self.groups_of(text, span, groups, work)?;
            visit(&found, work)?;
            (from, last_end) = (span.1, Some(span.1));
        }
        Ok(())
    }
}

/// Number of bytes of text so small that the library's engine finds the next match
/// sooner than the lazy DFA starts.
const FEW_BYTES: usize = 256;

/// The whole match.
fn whole(slots: &[Option<usize>]) -> Option<Span> {
    slots[0].zip(slots[1])
}

/// Options of a regular expression match: `~`, `~*`, `!~`, `!~*`.
#[derive(Debug)]
pub struct RegexPattern {
    /// Whether the match ignores case.
    pub ignore_case: bool,
    /// Cache of the last compiled pattern, if it is small: a plan outlives its statement.
    compiled: Mutex<Option<(SmolStr, Arc<Regex>)>>,
}

impl PartialEq for RegexPattern {
    fn eq(&self, other: &Self) -> bool {
        self.ignore_case == other.ignore_case
    }
}

impl RegexPattern {
    pub(super) fn new(ignore_case: bool) -> Self {
        Self {
            ignore_case,
            compiled: Mutex::new(None),
        }
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
        let known = {
            let compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            match &*compiled {
                Some((known, regex)) if known == pattern => Some(Arc::clone(regex)),
                _ => None,
            }
        };
        let regex = match known {
            Some(regex) => regex,
            None => {
                let regex = compiled(pattern, self.ignore_case, context)?;
                if regex.bytes() <= KEPT_IN_A_PLAN {
                    let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
                    *compiled = Some((pattern.clone(), Arc::clone(&regex)));
                }
                regex
            }
        };
        let matched = regex.is_match(subject, &mut |bytes| context.work(bytes))?;
        Ok(Value::Bool(matched))
    }
}

/// Length of a pattern in bytes above which compiling takes a millisecond or more.
const COMPILED_AT_ONCE: usize = 1 << 10;

fn compile(pattern: &str, ignore_case: bool) -> Result<Arc<Regex>> {
    let compile = || Regex::new(pattern, ignore_case).map(Arc::new);
    let is_short = pattern.len() <= COMPILED_AT_ONCE;
    if is_short && !Classes::of(pattern, ignore_case, NESTING).take_long() {
        return compile();
    }
    coeval_env::block_in_place(compile)
}

/// Maximum memory of a compiled pattern that a plan keeps, in bytes.
const KEPT_IN_A_PLAN: usize = 32 << 10;

/// Work in bytes as which compiling a byte of a pattern counts.
const COMPILING: usize = 64;

/// Number of patterns that a statement's functions keep compiled.
const KEPT: usize = 4;

/// The regular expressions that a statement's functions have compiled last.
#[derive(Debug, Default)]
pub(super) struct CompiledPatterns(Vec<(SmolStr, bool, Arc<Regex>)>);

/// Compiles a pattern for a function, or takes it from the statement's cache.
pub(super) fn compiled(
    pattern: &str,
    ignore_case: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Arc<Regex>> {
    let kept = &context.compiled.0;
    let known = kept
        .iter()
        .find(|(known, ignores, _)| known == pattern && *ignores == ignore_case);
    if let Some((.., regex)) = known {
        return Ok(Arc::clone(regex));
    }
    context.work(pattern.len().saturating_mul(COMPILING))?;
    let regex = compile(pattern, ignore_case)?;
    let kept = &mut context.compiled.0;
    if kept.len() == KEPT {
        kept.remove(0);
    }
    kept.push((SmolStr::new(pattern), ignore_case, Arc::clone(&regex)));
    Ok(regex)
}

#[cfg(test)]
mod tests;
