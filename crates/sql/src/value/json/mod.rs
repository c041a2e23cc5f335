//! JSON: the types `json`, which keeps its text, and `jsonb`, which keeps a binary form.
//!
//! ```text
//!   text ──parse──▶ Json (tree) ──encode──▶ Jsonb (bytes) ──view──▶ JsonView (reads in place)
//!                      ▲                                                 │
//!                      └───────────────── Json::of ──────────────────────┘
//! ```
//!
//! Operators that look into a document read its bytes through a [`JsonView`]; functions that
//! change one make a tree, change it, and encode it again.
//!
//! Invariants, which are `jsonb`'s normal form:
//! - The keys of an object are unique, the last of equal ones wins; they are sorted by
//!   length in bytes, then by bytes.
//! - A number keeps its digits: `1.50` prints with both.
//! - A document is at most [`DEEPEST`] levels deep, which bounds recursion, and its encoding
//!   at most [`LONGEST`] bytes long.

mod binary;
mod order;
mod parse;
mod raw;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use smol_str::SmolStr;

pub(crate) use binary::JsonView;
pub(crate) use parse::{check_json, parse_json, unescaped};
pub(crate) use raw::{RawChild, RawKind, children, kind_of, value_of};
pub(crate) use write::{escape_into, write, write_pretty};

pub(super) use order::{compare, read_key, write_key};

use super::Numeric;
use crate::{Error, Result, SqlState};

/// Maximum number of arrays and objects around a value.
pub(crate) const DEEPEST: usize = 2_000;

/// Maximum length of an encoded document in bytes, as in PostgreSQL.
pub(crate) const LONGEST: usize = 0x0FFF_FFFF;

/// Bytes of stack that must be left before a recursion goes deeper; with fewer it goes on in
/// a new segment of the size below.
const RED_ZONE: usize = 128 * 1024;
const MORE_STACK: usize = 2 * 1024 * 1024;

/// Runs `work` with enough stack for one more level.
fn deeper<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, work)
}

/// Called with the number of bytes that a parser or printer has worked on; an error ends it.
pub(crate) type Work<'a> = &'a mut dyn FnMut(usize) -> Result<()>;

/// A JSON document as a tree.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Numeric),
    String(SmolStr),
    Array(Vec<Json>),
    /// Pairs of a key and a value, in `jsonb`'s order of keys.
    Object(Vec<(SmolStr, Json)>),
}

/// A `jsonb` document in its binary form.
#[derive(Clone, Debug)]
pub struct Jsonb(Arc<[u8]>);

impl Jsonb {
    /// Parses a JSON text.
    pub(crate) fn parse(text: &str, work: Work<'_>) -> Result<Self> {
        parse_json(text, work)?.encode()
    }

    /// A document from its encoding, or that of a part of another one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// The document's encoding.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the document in place.
    #[must_use]
    pub(crate) fn view(&self) -> JsonView<'_> {
        JsonView::of(&self.0)
    }

    /// The document as a tree.
    #[must_use]
    pub(crate) fn tree(&self) -> Json {
        Json::of(self.view())
    }

    /// The document as `jsonb` prints it.
    #[must_use]
    pub(crate) fn to_text(&self) -> String {
        let mut out = Vec::new();
        write::write(self.view(), &mut out);
        text_of(out)
    }
}

/// A text that this module has printed, which is UTF-8.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

impl Json {
    /// A string.
    pub(crate) fn text(text: impl Into<SmolStr>) -> Self {
        Self::String(text.into())
    }

    /// An object of these pairs: sorts the keys, and keeps the last of equal ones.
    pub(crate) fn object(mut pairs: Vec<(SmolStr, Json)>) -> Self {
        if pairs.is_sorted_by(|left, right| key_order(&left.0, &right.0).is_lt()) {
            return Self::Object(pairs);
        }
        pairs.sort_by(|left, right| key_order(&left.0, &right.0));
        let mut unique: Vec<(SmolStr, Json)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match unique.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => unique.push(pair),
            }
        }
        Self::Object(unique)
    }

    /// The tree of a document or a part of one.
    pub(crate) fn of(view: JsonView<'_>) -> Self {
        match view {
            JsonView::Null => Self::Null,
            JsonView::Bool(truth) => Self::Bool(truth),
            JsonView::Number(number) => Self::Number(number),
            JsonView::String(text) => Self::text(text),
            JsonView::Array(array) => Self::Array(deeper(|| array.iter().map(Self::of).collect())),
            JsonView::Object(object) => Self::Object(deeper(|| {
                object
                    .iter()
                    .map(|(key, value)| (SmolStr::new(key), Self::of(value)))
                    .collect()
            })),
        }
    }

    /// The document's binary form; error 54000 if it is too long, 54001 if it is too deep.
    pub(crate) fn encode(&self) -> Result<Jsonb> {
        let mut out = Vec::new();
        binary::encode(self, 0, &mut out)?;
        Ok(Jsonb(Arc::from(out)))
    }

    /// Whether the value is neither an array nor an object.
    pub(crate) const fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }
}

/// Order of the keys of an object.
pub(crate) fn key_order(left: &str, right: &str) -> std::cmp::Ordering {
    left.len()
        .cmp(&right.len())
        .then_with(|| left.as_bytes().cmp(right.as_bytes()))
}

/// The error for a document that is nested too deeply.
fn too_deep() -> Error {
    Error::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .with_detail(format!("A JSON document is at most {DEEPEST} levels deep."))
}

/// The error for a document that is too long.
fn too_long(what: &str) -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("total size of jsonb {what} exceeds the maximum of {LONGEST} bytes"),
    )
}
