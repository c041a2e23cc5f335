//! The compiled patterns that a statement and its session keep.
//!
//! ```text
//!   statement   the last 4 patterns, of any size, and the buffers of their searches
//!   session     the last 32 small ones, for the next statement
//! ```
//!
//! A pattern is charged to the session for as long as a statement or the session keeps it. When the session may
//! keep no more, its patterns make room first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smol_str::SmolStr;

use super::classes::Classes;
use super::{NESTING, Regex};
use crate::Result;
use crate::expression::EvaluationContext;
use crate::expression::context::SessionInfo;

/// Length of a pattern in bytes above which compiling takes a millisecond or more.
const COMPILED_AT_ONCE: usize = 1 << 10;

/// Maximum memory of a compiled pattern that a session keeps, and of the buffers of its
/// searches, in bytes each.
pub(super) const KEPT_BYTES: usize = 32 << 10;

/// Work in bytes as which compiling a byte of a pattern counts.
const COMPILING: usize = 64;

/// Number of patterns that a statement keeps compiled.
const OF_STATEMENT: usize = 4;

/// Number of patterns that a session keeps compiled.
const OF_SESSION: usize = 32;

#[derive(Debug)]
struct Kept {
    pattern: SmolStr,
    ignore_case: bool,
    regex: Arc<Regex>,
}

/// The patterns, from the oldest to the newest.
#[derive(Debug, Default)]
struct Last(Vec<Kept>);

impl Last {
    fn get(&self, pattern: &str, ignore_case: bool) -> Option<Arc<Regex>> {
        let mut kept = self.0.iter();
        let known = kept.find(|kept| kept.ignore_case == ignore_case && kept.pattern == pattern);
        known.map(|known| Arc::clone(&known.regex))
    }

    fn keep(&mut self, pattern: &str, ignore_case: bool, regex: &Arc<Regex>, most: usize) {
        if self.0.len() == most {
            self.0.remove(0);
        }
        self.0.push(Kept {
            pattern: SmolStr::new(pattern),
            ignore_case,
            regex: Arc::clone(regex),
        });
    }
}

/// The regular expressions that a statement has compiled last.
#[derive(Debug, Default)]
pub(in crate::expression) struct CompiledPatterns(Last);

/// The statement ends: large buffers of its searches are not for the next one.
impl Drop for CompiledPatterns {
    fn drop(&mut self) {
        for kept in &self.0.0 {
            kept.regex.rest();
        }
    }
}

/// The regular expressions that a session's statements have compiled last.
#[derive(Debug, Default)]
pub(crate) struct KeptPatterns(Mutex<Last>);

impl KeptPatterns {
    fn lock(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops them all, to make room for something else.
    pub(crate) fn clear(&self) {
        self.lock().0.clear();
    }
}

/// Compiles a pattern, or takes it from those that the statement or the session keeps.
pub(in crate::expression) fn compiled(
    pattern: &str,
    ignore_case: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Arc<Regex>> {
    if let Some(regex) = context.compiled.0.get(pattern, ignore_case) {
        return Ok(regex);
    }
    let session = context.session;
    let known = session.patterns.lock().get(pattern, ignore_case);
    let regex = match known {
        Some(regex) => regex,
        None => {
            context.work(pattern.len().saturating_mul(COMPILING))?;
            let regex = Arc::new(compile(pattern, ignore_case, session)?);
            if regex.bytes() <= KEPT_BYTES {
                let mut kept = session.patterns.lock();
                kept.keep(pattern, ignore_case, &regex, OF_SESSION);
            }
            regex
        }
    };
    let kept = &mut context.compiled.0;
    if kept.0.len() == OF_STATEMENT {
        kept.0[0].regex.rest();
    }
    kept.keep(pattern, ignore_case, &regex, OF_STATEMENT);
    Ok(regex)
}

fn compile(pattern: &str, ignore_case: bool, session: &SessionInfo) -> Result<Regex> {
    let compile = || Regex::new(pattern, ignore_case);
    let is_short = pattern.len() <= COMPILED_AT_ONCE;
    let mut regex = if is_short && !Classes::of(pattern, ignore_case, NESTING).take_long() {
        compile()
    } else {
        coeval_env::block_in_place(compile)
    }?;
    if let Some(memory) = &session.memory
        && regex.charge_to(memory).is_err()
    {
        session.patterns.clear();
        regex.charge_to(memory)?;
    }
    Ok(regex)
}
