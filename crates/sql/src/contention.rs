//! Descriptions of conflicts and locks: the table, the key and the other transaction.
//!
//! ```text
//!   ERROR:  could not serialize access due to concurrent update
//!   DETAIL: Reason: a concurrent transaction updated the row first: row (id)=(4) of
//!           table "account", by transaction 65537 of session 3.
//! ```
//!
//! The engine names storages, records and encoded keys. The session looks up what they
//! stand for only when it reports an error, in the catalog at hand and in the newest
//! version of the row. A part that cannot be found is left out of the description.

use std::task::{Context, Poll, Waker};

use coeval_txn::{Blocked, ConflictLocation, Engine, Error as TxnError, Party};
use coeval_types::key::successor_of_prefix;
use coeval_types::{IndexId, Rid, Timestamp, TransactionId};

use crate::catalog::{Catalog, Index, PUBLIC, Table, key_text, value_text};
use crate::error::Error;
use crate::value::read_key;

/// Description of the object that a conflict or a lock is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Name of the table.
    pub(crate) table: Option<String>,
    /// Name of the index, if the object is a key or a range of keys.
    pub(crate) index: Option<String>,
    /// The row, key or range of keys; `None` for the whole table.
    pub(crate) key: Option<String>,
}

/// Looks up descriptions in the catalog and in the rows.
pub(crate) struct Lookup<'a> {
    catalog: &'a Catalog,
    engine: &'a dyn Engine,
    /// Role that reads the description, which contains only keys the role may read.
    role: u32,
    /// Whether rows that are not durable are left out.
    durable_only: bool,
    /// The newest commit that the descriptions depend on.
    seen: Timestamp,
}

impl<'a> Lookup<'a> {
    /// Creates a lookup for descriptions that may leave the process at once.
    pub(crate) fn durable(catalog: &'a Catalog, engine: &'a dyn Engine, role: u32) -> Self {
        Self {
            catalog,
            engine,
            role,
            durable_only: true,
            seen: Timestamp::ZERO,
        }
    }

    /// Describes the object at `place`.
    pub(crate) fn words(&mut self, place: &ConflictLocation) -> Words {
        let storage = place.storage();
        let Some(table) = self.catalog.tables().find(|table| table.storage == storage) else {
            return Words::default();
        };
        let index = |id: IndexId| table.indexes.iter().find(|index| index.id == id);
        let may_read = self.catalog.may_read(self.role, table);
        let (index, key) = match place {
            ConflictLocation::Row { rid, .. } => (None, Some(self.row(table, *rid))),
            ConflictLocation::Key { index: id, key, .. } => {
                let index = index(*id);
                (index, index.and_then(|index| columns(table, index, key)))
            }
            ConflictLocation::Range {
                index: id,
                lower,
                upper,
                ..
            } => {
                let index = index(*id);
                let range = index.map(|index| range(table, index, lower, upper.as_deref()));
                (index, range)
            }
            ConflictLocation::Table { .. } => (None, None),
        };
        Words {
            table: Some(table.name.clone()),
            index: index.map(|index| index.name.clone()),
            key: key.filter(|_| may_read),
        }
    }

    /// A row's primary key, or another unique key, as text.
    fn row(&mut self, table: &Table, rid: Rid) -> String {
        let mut text = None;
        if let Some(index) = table.indexes.iter().find(|index| index.is_unique()) {
            let shown = self.engine.show_row(table.storage, rid, &mut |_, row| {
                text = key_text(table, index, row).ok();
            });
            match shown {
                Some(cts) if self.durable_only && !is_durable(self.engine, cts) => text = None,
                Some(cts) => self.seen = self.seen.max(cts),
                None => {}
            }
        }
        text.unwrap_or_else(|| format!("number {}", rid.0))
    }
}

fn is_durable(engine: &dyn Engine, cts: Timestamp) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(engine.poll_durable(cts, &mut context), Poll::Ready(Ok(())))
}

impl Words {
    /// The description as part of a sentence.
    fn phrase(&self, place: &ConflictLocation) -> String {
        let what = match (place, &self.key) {
            (ConflictLocation::Row { .. }, Some(key)) => format!("row {key} of "),
            (ConflictLocation::Row { .. }, None) => "a row of ".to_owned(),
            (ConflictLocation::Key { .. }, Some(key)) => format!("key {key} of "),
            (ConflictLocation::Key { .. }, None) => "a key of ".to_owned(),
            (ConflictLocation::Range { .. }, Some(key)) => format!("{key} of "),
            (ConflictLocation::Range { .. }, None) => "a range of ".to_owned(),
            (ConflictLocation::Table { .. }, _) => String::new(),
        };
        let index = match &self.index {
            Some(index) => format!("index \"{index}\" of "),
            None => String::new(),
        };
        match &self.table {
            Some(table) => format!("{what}{index}table \"{table}\""),
            None => format!("{what}a table"),
        }
    }
}

/// The column values that an encoded key contains completely.
fn columns(table: &Table, index: &Index, mut key: &[u8]) -> Option<String> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in &index.columns {
        let data_type = column.column_type.data_type;
        let Some((value, rest)) = read_key(key, data_type, column.order) else {
            break;
        };
        names.push(table.columns[column.column].name.as_str());
        values.push(value_text(&value, column.column_type));
        key = rest;
    }
    let (names, values) = (names.join(", "), values.join(", "));
    (!names.is_empty()).then(|| format!("({names})=({values})"))
}

fn range(table: &Table, index: &Index, lower: &[u8], upper: Option<&[u8]>) -> String {
    let first = columns(table, index, lower);
    if let Some(key) = &first
        && successor_of_prefix::<Vec<u8>>(lower).as_deref() == upper
    {
        return format!("keys {key}");
    }
    // The values end where the nulls begin.
    let upper = upper.filter(|upper| {
        let column = &index.columns[0];
        let first = read_key(upper, column.column_type.data_type, column.order);
        !first.is_some_and(|(value, _)| value.is_null())
    });
    let last = upper.and_then(|upper| columns(table, index, upper));
    match (first, last, upper) {
        (Some(first), Some(last), _) => format!("keys from {first} to below {last}"),
        (Some(first), None, None) => format!("keys from {first} on"),
        (Some(first), None, Some(_)) => format!("keys from about {first} on"),
        (None, Some(last), _) => format!("keys below {last}"),
        (None, None, _) => "keys".to_owned(),
    }
}

/// A transaction as part of a sentence.
fn party(party: Party) -> String {
    match party.session {
        Some(session) if session != 0 => {
            format!("transaction {} of session {session}", party.transaction)
        }
        _ => format!("transaction {}", party.transaction),
    }
}

/// Adds a description of the engine's error to an error. Also returns the newest commit
/// that the description depends on.
pub(crate) fn explain(
    error: Error,
    catalog: &Catalog,
    engine: &dyn Engine,
    role: u32,
) -> (Error, Timestamp) {
    let mut lookup = Lookup {
        catalog,
        engine,
        role,
        durable_only: false,
        seen: Timestamp::ZERO,
    };
    let error = explain_by(error, &mut lookup);
    (error, lookup.seen)
}

fn explain_by(error: Error, lookup: &mut Lookup<'_>) -> Error {
    let Some(cause) = error.engine_error().cloned() else {
        return error;
    };
    let engine = lookup.engine;
    let mut words = |place: &ConflictLocation| lookup.words(place);
    let named = |error: Error, words: &Words| match &words.table {
        Some(table) => error.with_table(PUBLIC, table),
        None => error,
    };
    let whose = |transaction: TransactionId| party(engine.party(transaction));
    match &cause {
        TxnError::Conflict(conflict) => {
            let at = words(&conflict.place);
            let by = match (conflict.other, conflict.committed) {
                (Some(other), _) => Some(format!(", by {}", whose(other))),
                (None, Some(at)) => Some(format!(", by the transaction that committed at {at}")),
                (None, None) => None,
            };
            let detail = format!(
                "Reason: {}: {}{}.",
                conflict.cause.describe(),
                at.phrase(&conflict.place),
                by.unwrap_or_default()
            );
            named(error, &at).with_detail(detail)
        }
        TxnError::Deadlock { place, circle } => {
            let blocked = engine.blocked();
            let lines: Vec<String> = circle
                .iter()
                .zip(circle.iter().cycle().skip(1))
                .enumerate()
                .map(|(at, (waiter, holder))| {
                    let waits = |one: &&Blocked| one.waiter.transaction == *waiter;
                    let place = match at {
                        0 => Some(place),
                        _ => blocked.iter().find(waits).map(|one| &one.place),
                    };
                    let what = place
                        .map_or_else(|| "a lock".to_owned(), |place| words(place).phrase(place));
                    let mut waiter = whose(*waiter);
                    waiter[..1].make_ascii_uppercase();
                    format!("{waiter} waits for {what}; blocked by {}.", whose(*holder))
                })
                .collect();
            named(error, &words(place)).with_detail(lines.join("\n"))
        }
        TxnError::LockTimeout(place) => {
            let at = words(place);
            let detail = format!("It waited for {}.", at.phrase(place));
            named(error, &at).with_detail(detail)
        }
        TxnError::LockNotAvailable(place) => {
            let at = words(place);
            let detail = format!("Another transaction has {}.", at.phrase(place));
            let error = match (place, &at.table) {
                (ConflictLocation::Row { .. }, Some(table)) => error.with_message(format!(
                    "could not obtain lock on row in relation \"{table}\""
                )),
                (ConflictLocation::Table { .. }, Some(table)) => {
                    error.with_message(format!("could not obtain lock on relation \"{table}\""))
                }
                _ => error,
            };
            named(error, &at).with_detail(detail)
        }
        TxnError::SchemaChanged(storage) => {
            let place = ConflictLocation::Table { storage: *storage };
            let at = words(&place);
            let detail = format!("It was {}.", at.phrase(&place));
            named(error, &at).with_detail(detail)
        }
        _ => error,
    }
}
