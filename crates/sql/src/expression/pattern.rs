//! LIKE and regular expressions.
//!
//! A constant pattern is compiled when it is bound; others when they are met, the
//! last one being kept.

use std::sync::{Arc, Mutex};

use regex::Regex;
use smol_str::SmolStr;

use crate::{Error, Result, SqlState, Value};

/// How LIKE matches.
#[derive(Debug)]
pub struct LikePattern {
    /// Whether case matters not.
    pub ignore_case: bool,
    /// The character that takes the meaning from `%`, `_` and itself; `None` for
    /// no such character.
    pub escape: Option<char>,
}

impl PartialEq for LikePattern {
    fn eq(&self, other: &Self) -> bool {
        self.ignore_case == other.ignore_case && self.escape == other.escape
    }
}

impl LikePattern {
    /// `look` is asked now and then whether to go on.
    pub(super) fn evaluate(
        &self,
        subject: &Value,
        pattern: &Value,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<Value> {
        let (Value::Text(subject), Value::Text(pattern)) = (subject, pattern) else {
            return Ok(Value::Null);
        };
        let matches = || {
            if self.ignore_case {
                let (subject, pattern) = (subject.to_lowercase(), pattern.to_lowercase());
                matches_like(&subject, &pattern, self.escape, look)
            } else {
                matches_like(subject, pattern, self.escape, look)
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

/// Matching longer texts, in bytes, may take so long that others shall not wait for it.
const MATCHED_IN_A_STEP: usize = 16 << 10;

/// How many characters are compared between two looks.
const LOOK_AFTER: u32 = 1 << 16;

/// The characters at the beginning of a pattern that stand for themselves.
fn literal_start(pattern: &str, escape: Option<char>) -> &str {
    let special = |character| matches!(character, '%' | '_') || Some(character) == escape;
    &pattern[..pattern.find(special).unwrap_or(pattern.len())]
}

/// Whether `subject` matches. Goes back to the last `%` only, and from there on to
/// where the characters that follow it are, so that the work grows with the sum of
/// both lengths, unless there are `_` behind a `%`: then with their product.
fn matches_like(
    subject: &str,
    pattern: &str,
    escape: Option<char>,
    look: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    let (mut rest, mut wanted) = (subject, pattern);
    let mut compared = 0_u32;
    // Where to go on when what follows the last `%` does not match.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        compared = compared.wrapping_add(1);
        if compared.is_multiple_of(LOOK_AFTER) {
            look()?;
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
                let Some(at) = rest.find(literal) else {
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
            let Some(at) = rest.find(literal_start(wanted, escape)) else {
                return Ok(false);
            };
            rest = &rest[at..];
            retry = Some((rest, wanted));
        }
    }
}

/// How `~`, `~*`, `!~` and `!~*` match.
#[derive(Debug)]
pub struct RegexPattern {
    /// Whether case matters not.
    pub ignore_case: bool,
    /// The pattern met last.
    pub(super) compiled: Mutex<Option<(SmolStr, Arc<Regex>)>>,
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

    pub(super) fn evaluate(&self, subject: &Value, pattern: &Value) -> Result<Value> {
        let (Value::Text(subject), Value::Text(pattern)) = (subject, pattern) else {
            return Ok(Value::Null);
        };
        let mut compiled = self
            .compiled
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let regex = match &*compiled {
            Some((known, regex)) if known == pattern => Arc::clone(regex),
            _ => {
                let regex = Arc::new(compile_regex(pattern, self.ignore_case)?);
                *compiled = Some((pattern.clone(), Arc::clone(&regex)));
                regex
            }
        };
        drop(compiled);
        Ok(Value::Bool(regex.is_match(subject)))
    }
}

/// Most bytes a compiled pattern may take.
const REGEX_BYTES: usize = 1 << 20;

/// Compiles a regular expression. The syntax is PostgreSQL's but for back
/// references and looking ahead, which would make the time it takes unbounded.
pub(super) fn compile_regex(pattern: &str, ignore_case: bool) -> Result<Regex> {
    regex::RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES)
        .build()
        .map_err(|error| {
            Error::new(
                SqlState::INVALID_REGULAR_EXPRESSION,
                "invalid regular expression",
            )
            .with_detail(error.to_string())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like() {
        let go_on = || Ok(());
        let matches =
            |subject, pattern| matches_like(subject, pattern, Some('\\'), &go_on).unwrap();
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
        assert!(matches_like("a", "\\", Some('\\'), &go_on).is_err());
        assert!(matches_like("a\\", "a\\", None, &go_on).unwrap());
        let many = "a".repeat(2_000);
        assert!(!matches(&many, &format!("{}b", "%a".repeat(500))));
        // Some ten thousand million comparisons.
        let (subject, pattern) = ("a".repeat(200_000), format!("%_{}b", "a".repeat(100_000)));
        let stop = || Err(Error::canceled());
        assert!(matches_like(&subject, &pattern, None, &stop).is_err());
    }
}
