//! Pattern matching with LIKE.

use super::{EvaluationContext, metered};
use crate::{Error, Result, SqlState, Value};

/// Options of a LIKE match.
#[derive(Debug)]
pub struct LikePattern {
    /// Whether the match ignores case (ILIKE).
    pub ignore_case: bool,
    /// Escape character that makes `%`, `_` and itself literal; `None` if the pattern
    /// has no escape character.
    pub escape: Option<char>,
}

impl PartialEq for LikePattern {
    fn eq(&self, other: &Self) -> bool {
        self.ignore_case == other.ignore_case && self.escape == other.escape
    }
}

impl LikePattern {
    /// Matches the text.
    pub(super) fn evaluate(
        &self,
        subject: &Value,
        pattern: &Value,
        context: &mut EvaluationContext<'_>,
    ) -> Result<Value> {
        let (Value::Text(subject), Value::Text(pattern)) = (subject, pattern) else {
            return Ok(Value::Null);
        };
        let mut matches = || {
            if self.ignore_case {
                let subject = metered::to_lower_case(subject, context)?;
                let pattern = metered::to_lower_case(pattern, context)?;
                matches_like(&subject, &pattern, self.escape, context)
            } else {
                matches_like(subject, pattern, self.escape, context)
            }
        };
        let matched = if subject.len() > MATCHED_IN_A_STEP {
            coeval_env::block_in_place(matches)?
        } else {
            matches()?
        };
        Ok(Value::Bool(matched))
    }
}

/// Size in bytes of text and pattern above which a match may take long, so that the
/// thread hands its other tasks over first.
const MATCHED_IN_A_STEP: usize = 16 << 10;

/// Number of characters compared between two calls of the work meter.
const COMPARED_AT_ONCE: usize = 1 << 12;

/// Literal prefix of a pattern: its characters before the first wildcard.
fn literal_start(pattern: &str, escape: Option<char>) -> &str {
    let special = |character| matches!(character, '%' | '_') || Some(character) == escape;
    &pattern[..pattern.find(special).unwrap_or(pattern.len())]
}

/// Position of the literal that comes next, which is often at the start.
fn find_literal(
    text: &str,
    literal: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<Option<usize>> {
    if text.len() <= FOUND_AT_ONCE {
        return Ok(text.find(literal));
    }
    metered::find(text, literal, context)
}

/// Length of text in bytes in which a literal is found at once.
const FOUND_AT_ONCE: usize = 4096;

/// Whether `subject` matches. The matcher backtracks to the last `%` only, and resumes
/// where the literal after it next occurs, so that its time is linear in the sum of
/// both lengths; with `_` after a `%`, in their product.
fn matches_like(
    subject: &str,
    pattern: &str,
    escape: Option<char>,
    context: &mut EvaluationContext<'_>,
) -> Result<bool> {
    let (mut rest, mut wanted) = (subject, pattern);
    let mut compared = 0_usize;
    // Position at which the matcher resumes if the pattern after the last `%` does not
    // match.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        compared += 1;
        if compared == COMPARED_AT_ONCE {
            context.work(std::mem::take(&mut compared))?;
        }
        let mut characters = wanted.chars();
        let matched = match characters.next() {
            None => {
                if rest.is_empty() {
                    return Ok(true);
                }
                false
            }
            Some('%') if escape != Some('%') => {
                wanted = characters.as_str();
                let literal = literal_start(wanted, escape);
                if literal.len() == wanted.len() {
                    return Ok(rest.ends_with(literal));
                }
                let Some(at) = find_literal(rest, literal, context)? else {
                    return Ok(false);
                };
                rest = &rest[at..];
                retry = Some((rest, wanted));
                continue;
            }
            Some('_') if escape != Some('_') => {
                let mut subject = rest.chars();
                let any = subject.next().is_some();
                rest = subject.as_str();
                wanted = characters.as_str();
                any
            }
            Some(_) if rest.is_empty() => false,
            Some(mut literal) => {
                if Some(literal) == escape {
                    literal = characters.next().ok_or_else(|| {
                        Error::new(
                            SqlState::INVALID_ESCAPE_SEQUENCE,
                            "LIKE pattern must not end with escape character",
                        )
                    })?;
                }
                let mut subject = rest.chars();
                let same = subject.next() == Some(literal);
                if same {
                    rest = subject.as_str();
                    wanted = characters.as_str();
                }
                same
            }
        };
        if !matched {
            let Some((from, tail)) = retry else {
                return Ok(false);
            };
            let mut shorter = from.chars();
            if shorter.next().is_none() {
                return Ok(false);
            }
            rest = shorter.as_str();
            wanted = tail;
            let literal = literal_start(wanted, escape);
            let Some(at) = find_literal(rest, literal, context)? else {
                return Ok(false);
            };
            rest = &rest[at..];
            retry = Some((rest, wanted));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::golden::Bench;

    #[test]
    fn like() {
        let mut bench = Bench::new();
        let try_match = |subject: &str, pattern: &str, escape| {
            bench.with_context(|context| matches_like(subject, pattern, escape, context))
        };
        let matches = |subject, pattern| try_match(subject, pattern, Some('\\')).unwrap();
        assert!(matches("abc", "abc"));
        assert!(matches("abc", "a%"));
        assert!(matches("abc", "%c"));
        assert!(matches("abc", "_b_"));
        assert!(matches("aXbXc", "a%b%c"));
        assert!(matches("", "%"));
        assert!(matches("a%c", "a\\%c"));
        assert!(!matches("abc", "a\\%c"));
        assert!(!matches("abc", "ab"));
        assert!(!matches("abc", "abcd"));
        assert!(!matches("", "_"));
        assert!(matches("äöü", "_ö_"));
        assert!(matches("aab", "%ab"));
        assert!(try_match("a", "\\", Some('\\')).is_err());
        assert!(try_match("a\\", "a\\", None).unwrap());
        let many = "a".repeat(2_000);
        assert!(!matches(&many, &format!("{}b", "%a".repeat(500))));
        // About ten billion comparisons.
        let (subject, pattern) = ("a".repeat(200_000), format!("%_{}b", "a".repeat(100_000)));
        bench.session.cancel = Arc::new(true.into());
        let canceled =
            bench.with_context(|context| matches_like(&subject, &pattern, None, context));
        assert!(canceled.is_err());
    }
}
