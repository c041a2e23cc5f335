//! Pattern matching with LIKE.

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
    /// Matches the text; calls `look` regularly so that the caller can cancel the
    /// match.
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

/// Size in bytes of text and pattern above which a match may take long, so that the
/// thread hands its other tasks over first.
const MATCHED_IN_A_STEP: usize = 16 << 10;

/// Number of characters compared between two calls of `look`.
const LOOK_AFTER: u32 = 1 << 16;

/// Literal prefix of a pattern: its characters before the first wildcard.
fn literal_start(pattern: &str, escape: Option<char>) -> &str {
    let special = |character| matches!(character, '%' | '_') || Some(character) == escape;
    &pattern[..pattern.find(special).unwrap_or(pattern.len())]
}

/// Whether `subject` matches. The matcher backtracks to the last `%` only, and resumes
/// where the literal after it next occurs, so that its time is linear in the sum of
/// both lengths; with `_` after a `%`, in their product.
fn matches_like(
    subject: &str,
    pattern: &str,
    escape: Option<char>,
    look: &dyn Fn() -> Result<()>,
) -> Result<bool> {
    let (mut rest, mut wanted) = (subject, pattern);
    let mut compared = 0_u32;
    // Position at which the matcher resumes if the pattern after the last `%` does not
    // match.
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
        // About ten billion comparisons.
        let (subject, pattern) = ("a".repeat(200_000), format!("%_{}b", "a".repeat(100_000)));
        let stop = || Err(Error::canceled());
        assert!(matches_like(&subject, &pattern, None, &stop).is_err());
    }
}
