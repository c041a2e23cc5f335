//! The plan cache for simple queries, by literal parameterisation: a query that differs
//! from an earlier one only in its numbers is neither parsed nor planned again.
//!
//! ```text
//! UPDATE t SET b = b + -7 WHERE a = 4711;
//!                      │            └ int4 4711 ─┐
//!                      └ int4 7 ──┐              │
//! UPDATE t SET b = b + -$1 WHERE a = $2          the shape, and its numbers
//! ```
//!
//! Only integers become parameters, each with the type that it has as a literal, and only
//! where a parameter of that type means the same: after a comparison, `+`, `-`, BETWEEN
//! or AND, and in the rows of VALUES. After ORDER BY, LIMIT or in a type's name a number
//! stays part of the shape. A text that is not plain (several statements, comments,
//! parameters, escapes) has no shape, and the cache also remembers shapes that cannot be
//! prepared: both take the ordinary path, so the session reports every error for the text
//! that the client sent.
//!
//! Each session caches its own shapes, at most [`MAX_SHAPES`] and [`MAX_BYTES`], which are
//! charged to it as prepared statements are. It drops
//! them when a setting changes. A literal whose value depends on the time, such as `'now'`, makes no
//! shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::portal::Portal;
use super::prepared::{Prepared, without_tree};
use super::run::MAX_REPLANS;
use super::settings::Settings;
use super::transaction::Block;
use super::{Session, statement};
use crate::error::{Result, SqlState};
use crate::instance::within;
use crate::value::{DataType, Value};

/// Maximum number of shapes; a session that exceeds it drops all of them.
const MAX_SHAPES: usize = 256;
/// Maximum memory of the prepared statements of all shapes, in bytes; likewise. A text of 4 KiB
/// may have a plan of a megabyte.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum length of a text, in bytes; longer ones are not worth a second scan.
const LONGEST_TEXT: usize = 4096;
/// Maximum number of literals in a text; a hand-written statement has fewer.
const MAX_NUMBERS: usize = 128;

/// A session's plan cache.
#[derive(Debug, Default)]
pub(super) struct PlanCache {
    /// Prepared statements by shape; `None` for a shape that cannot be prepared.
    shapes: BTreeMap<String, Option<Arc<Prepared>>>,
    /// Memory of the prepared statements when they were cached, in bytes.
    bytes: u64,
    /// The settings under which the shapes are valid, compared by identity: the value of
    /// a literal such as `'2026-11-21'` depends on the time zone.
    settings: Option<Arc<Settings>>,
    /// Buffer for the shape that is being looked up.
    shape: Shape,
}

impl PlanCache {
    pub(super) fn clear(&mut self) {
        self.shapes.clear();
        self.bytes = 0;
    }

    /// Caches what the shape that was read last is prepared as.
    fn insert(&mut self, prepared: Option<Arc<Prepared>>) {
        let bytes = prepared.as_ref().map_or(0, |prepared| prepared.bytes());
        if self.shapes.len() >= MAX_SHAPES || self.bytes + bytes > MAX_BYTES {
            self.clear();
        }
        self.bytes += bytes;
        self.shapes.insert(self.shape.text.clone(), prepared);
    }

    /// Drops the shapes that were prepared under other settings.
    fn hold_for(&mut self, settings: &Arc<Settings>) {
        let known = self.settings.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(known, settings)) {
            self.clear();
            self.settings = Some(Arc::clone(settings));
        }
    }
}

/// A statement's text with parameters in place of its numbers.
#[derive(Debug, Default)]
struct Shape {
    /// The statement with parameters, then a NUL and one letter for the type of each
    /// parameter.
    text: String,
    numbers: Vec<Value>,
}

/// First words of the statements that are worth caching.
const FIRST_WORDS: [&str; 9] = [
    "select", "insert", "update", "delete", "begin", "commit", "end", "rollback", "abort",
];

impl Shape {
    /// Text of the statement without the letters for its types.
    fn statement(&self) -> &str {
        self.text.split('\0').next().unwrap_or_default()
    }

    /// Replaces the numbers in `text` by parameters. Returns false when the text has no
    /// shape.
    fn read(&mut self, text: &str) -> bool {
        self.text.clear();
        self.numbers.clear();
        if text.len() > LONGEST_TEXT {
            return false;
        }
        let text = text.trim_ascii().trim_end_matches(';').trim_ascii_end();
        let first = text
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(text.len());
        if !FIRST_WORDS
            .iter()
            .any(|word| word.eq_ignore_ascii_case(&text[..first]))
        {
            return false;
        }
        self.read_tokens(text)
    }

    fn read_tokens(&mut self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let mut at = 0;
        // Whether the next number may become a parameter, and whether a minus precedes
        // it.
        let mut open = false;
        let mut minus = false;
        let mut in_values = false;
        // Whether a sign would begin an item of a list, in which a number may be a
        // column's position: `ORDER BY -1`.
        let mut in_list = false;
        let mut depth = 0_u32;
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    at += 1;
                    self.text.push(char::from(byte));
                    continue;
                }
                b'0'..=b'9' => {
                    at = end_of(bytes, at, |byte| byte.is_ascii_digit());
                    if is_word(bytes.get(at).copied()) || bytes.get(at) == Some(&b'.') {
                        // 1e5, 0x10, 1_000, 1.5: part of the shape.
                        at = end_of(bytes, at, |byte| is_word(Some(byte)) || byte == b'.');
                        self.text.push_str(&text[start..at]);
                    } else if !(open && self.take_number(&text[start..at], minus)) {
                        self.text.push_str(&text[start..at]);
                    }
                    open = false;
                    in_list = false;
                    continue;
                }
                b'\'' | b'"' => {
                    at = end_of(bytes, at + 1, |here| here != byte) + 1;
                    open = false;
                    in_list = false;
                }
                b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => return false,
                b'-' if bytes.get(at + 1) == Some(&b'-') => return false,
                b'/' if bytes.get(at + 1) == Some(&b'*') => return false,
                b';' | b'$' | b'\\' | b'\0' | b':' => return false,
                b'=' | b'<' | b'>' | b'+' | b'-' => {
                    at += 1;
                    open = in_values || !in_list;
                    minus = byte == b'-';
                    in_list &= minus || byte == b'+';
                }
                b'(' | b',' | b')' => {
                    at += 1;
                    match byte {
                        b'(' => depth += 1,
                        b')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    open = in_values && depth == 1 && byte != b')';
                    minus = false;
                    in_list = byte == b',';
                }
                _ if is_word(Some(byte)) => {
                    at = end_of(bytes, at, |byte| is_word(Some(byte)));
                    let word = &text[start..at];
                    if bytes.get(at) == Some(&b'\'') {
                        // E'…', B'…' and similar literals follow other rules.
                        return false;
                    }
                    in_values = match word.len() {
                        6 if word.eq_ignore_ascii_case("values") => depth == 0,
                        // A number after the rows of VALUES is not part of them.
                        _ => in_values && depth > 0,
                    };
                    open = word.eq_ignore_ascii_case("between") || word.eq_ignore_ascii_case("and");
                    minus = false;
                    in_list = word.eq_ignore_ascii_case("by");
                }
                _ => {
                    at += 1;
                    open = false;
                    in_list = false;
                }
            }
            let Some(token) = text.get(start..at) else {
                return false;
            };
            self.text.push_str(token);
        }
        self.text.push('\0');
        for number in &self.numbers {
            self.text.push(match number {
                Value::Int4(_) => '4',
                _ => '8',
            });
        }
        true
    }

    /// Replaces a number by a parameter of the type that the literal has. The least
    /// integer of a type is valid only after a minus, so numbers that large stay in the
    /// shape.
    fn take_number(&mut self, digits: &str, minus: bool) -> bool {
        if self.numbers.len() == MAX_NUMBERS {
            return false;
        }
        let Ok(number) = digits.parse::<i64>() else {
            return false;
        };
        self.numbers.push(match i32::try_from(number) {
            Ok(number) => Value::Int4(number),
            Err(_) if minus => return false,
            Err(_) => Value::Int8(number),
        });
        self.text.push('$');
        self.text.push_str(itoa(self.numbers.len()).as_str());
        true
    }
}

fn itoa(number: usize) -> smol_str::SmolStr {
    smol_str::format_smolstr!("{number}")
}

fn is_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80)
}

/// The first position from `at` on for which `inside` is false.
fn end_of(bytes: &[u8], at: usize, inside: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|&byte| !inside(byte))
        .unwrap_or(rest.len())
}

impl Session {
    /// Creates a portal for a simple query whose shape is cached, or can be cached now;
    /// `None` when the text has to take the ordinary path.
    ///
    /// May begin a transaction, and so wait for admission. When it fails, the session has
    /// already failed the transaction.
    pub async fn recall(&mut self, text: &str) -> Result<Option<Portal>> {
        self.asks_anew();
        if self.block == Block::Failed {
            return Ok(None);
        }
        let mut plan_cache = std::mem::take(&mut self.plan_cache);
        plan_cache.hold_for(&self.settings);
        let known = plan_cache.shape.read(text);
        let portal = if known {
            self.start_statement_clock();
            self.ticket.resume();
            let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
            within(deadline, &cancel, self.recall_shape(&mut plan_cache)).await
        } else {
            Ok(None)
        };
        self.plan_cache = plan_cache;
        if portal.is_err() {
            self.fail();
        }
        portal
    }

    /// [`Session::recall`] for the text whose shape was read last.
    async fn recall_shape(&mut self, plan_cache: &mut PlanCache) -> Result<Option<Portal>> {
        let known = match plan_cache.shapes.get(plan_cache.shape.text.as_str()) {
            Some(known) => known.clone(),
            None => {
                let prepared = self.prepare_shape(&plan_cache.shape).await?;
                let memory = &self.memory;
                let charge = |prepared: &Arc<Prepared>| {
                    prepared.charge(|bytes| memory.charge(bytes, "A cached statement"))
                };
                if prepared.as_ref().is_none_or(|each| charge(each).is_ok()) {
                    plan_cache.insert(prepared.clone());
                }
                prepared
            }
        };
        let PlanCache { shapes, shape, .. } = plan_cache;
        let Some(prepared) = known else {
            return Ok(None);
        };
        if prepared.has_plan() {
            // The table may have been altered or dropped: then the ordinary path parses
            // the text again, to report its own errors and the new columns.
            let began = self.ensure_running().await?;
            self.renew_here(began)?;
            let mut locked = false;
            for _ in 0..MAX_REPLANS {
                let (catalog, look) = self.current_catalog()?;
                let Ok((_, locks)) = self.current_plan(&prepared, &catalog, true) else {
                    shapes.remove(shape.text.as_str());
                    return Ok(None);
                };
                self.check_route(prepared.statement.command(), prepared.route())?;
                if !prepared.looks() {
                    self.read_confirmation.not_looked(look);
                }
                locked = self.lock_planned(&locks).await?;
                if locked {
                    break;
                }
                self.running()?.transaction.begin_statement()?;
            }
            if !locked {
                return Ok(None);
            }
        }
        let numbers = shape.numbers.drain(..).collect();
        Ok(Some(Portal::unseen(prepared, numbers)))
    }

    /// Prepares a shape. Returns `None` when that fails, which does not fail the
    /// transaction: the session still tries the text itself. Returns an error when the
    /// statement was canceled, which tells nothing about the shape.
    async fn prepare_shape(&mut self, shape: &Shape) -> Result<Option<Arc<Prepared>>> {
        let oids: Vec<u32> = shape
            .numbers
            .iter()
            .map(|number| match number {
                Value::Int4(_) => DataType::Int4.oid(),
                _ => DataType::Int8.oid(),
            })
            .collect();
        let Ok(mut statements) = statement::parse(shape.statement(), self.budget()) else {
            return Ok(None);
        };
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Ok(None);
        };
        match self.prepare_statement(statement, &oids).await {
            Ok(prepared) => {
                let remember = prepared.parameter_types() == oids && !prepared.is_momentary();
                Ok(remember.then(|| without_tree(prepared)))
            }
            Err(error) if error.state() == SqlState::QUERY_CANCELED || error.ends_session() => {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Option<(String, Vec<Value>)> {
        let mut shape = Shape::default();
        shape
            .read(text)
            .then(|| (shape.statement().to_owned(), shape.numbers.clone()))
    }

    #[track_caller]
    fn assert_shape(text: &str, expected: &str, numbers: &[i64]) {
        let (found, values) = shape(text).expect("it has a shape");
        assert_eq!(found, expected);
        let values: Vec<i64> = values
            .iter()
            .map(|value| match value {
                Value::Int4(number) => i64::from(*number),
                Value::Int8(number) => *number,
                other => panic!("{other:?} is no integer"),
            })
            .collect();
        assert_eq!(values, numbers);
    }

    #[test]
    fn numbers_are_taken_out_where_a_parameter_means_the_same() {
        assert_shape(
            "UPDATE t SET b = b + -7 WHERE a = 4711;",
            "UPDATE t SET b = b + -$1 WHERE a = $2",
            &[7, 4711],
        );
        assert_shape(
            "INSERT INTO t1 (a, b) VALUES (1, -2, now(), 'x1'), (3,4) RETURNING a",
            "INSERT INTO t1 (a, b) VALUES ($1, -$2, now(), 'x1'), ($3,$4) RETURNING a",
            &[1, 2, 3, 4],
        );
        assert_shape(
            "select a from t where a between 1 and 5000000000",
            "select a from t where a between $1 and $2",
            &[1, 5_000_000_000],
        );
    }

    #[test]
    fn numbers_that_are_no_values_stay() {
        for text in [
            "SELECT a FROM t ORDER BY 1 LIMIT 10",
            "SELECT a FROM t ORDER BY -1, - 2",
            "SELECT 1, a FROM t",
            "SELECT CAST(a AS varchar(10)) FROM t2",
            "SELECT a FROM t WHERE a = 1.5 AND b = 1e3 AND c = 'it''s 5'",
            "SELECT \"a = 5\" FROM t",
            "INSERT INTO t SELECT f(1, 2)",
            "SELECT a FROM t WHERE a = -2147483648",
        ] {
            assert_shape(text, text, &[]);
        }
    }

    #[test]
    fn the_type_of_a_number_is_part_of_the_key() {
        let mut one = Shape::default();
        let mut other = Shape::default();
        assert!(one.read("SELECT a FROM t WHERE a = 1"));
        assert!(other.read("SELECT a FROM t WHERE a = 5000000000"));
        assert_eq!(one.statement(), other.statement());
        assert_ne!(one.text, other.text);
    }

    #[test]
    fn a_text_that_is_not_plain_has_no_shape() {
        for text in [
            "SELECT 1; SELECT 2",
            "SELECT a FROM t -- WHERE a = 1",
            "SELECT a /* 1 */ FROM t",
            "SELECT $1",
            "SELECT E'\\'' FROM t WHERE a = 1",
            "SELECT a::int FROM t",
            "CREATE TABLE t (a int)",
            "SELECT a FROM t WHERE a = .5",
            "",
            ";",
        ] {
            assert_eq!(shape(text), None, "{text}");
        }
    }
}
