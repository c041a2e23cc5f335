//! Cursors of SQL: DECLARE, FETCH, MOVE, CLOSE and WHERE CURRENT OF.
//!
//! ```text
//!   declare c …  begins the query, with the snapshot that it keeps
//!   fetch 100 c  takes rows from the query as far as it has to, and moves among them
//!   update …     first has each cursor of the transaction collect its other rows
//!   commit       ends the cursors; those WITH HOLD collect their rows before
//! ```
//!
//! A cursor is a portal ([`super::portal`]) with a name, rows that it has taken from its
//! query ([`cursor`]), and a position among them. Statements about portals by messages of the
//! protocol reach it, too: [`Session::cursor_portal`].
//!
//! On a node that follows, cursors are declared in READ ONLY blocks only; every other block
//! moves to the leader before, and so does what concerns cursors WITH HOLD.
//!
//! Invariants:
//! - A cursor shows what it would have shown at once when it was declared: it keeps its
//!   snapshot, and the transaction's own changes wait for its rows.
//! - A cursor WITH HOLD whose transaction has committed needs no transaction any more.
//! - The name of a cursor is not that of a portal of the protocol: each looks at the other
//!   before it is made.

mod cursor;
mod fetch;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use coeval_types::Rid;

use super::Session;
use super::portal::{Portal, PortalProgress};
use super::prepared::Prepared;
use super::transaction::Block;
use crate::change::ChangePlan;
use crate::error::{Error, Result, SqlState};
use crate::expression::ListedCursor;
use crate::instance::over_limit;
use crate::output::{Column, Format};
use crate::statement::{self, Command, DeclareCommand, Scroll, invalid_cursor};
use crate::value::Value;
use cursor::{Hold, SqlCursor};
use fetch::Collected;

/// A session's cursors, by name.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    open: BTreeMap<String, Box<SqlCursor>>,
    /// Whether a cursor WITH HOLD was declared in the transaction that runs.
    holds: bool,
    /// Names of the portals that the connection stores.
    portals: BTreeSet<String>,
}

impl Cursors {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a cursor has outlived its transaction, or will.
    pub(super) fn are_held(&self) -> bool {
        self.open.values().any(|cursor| cursor.hold != Hold::No)
    }

    fn get(&self, name: &str) -> Result<&SqlCursor> {
        self.open
            .get(name)
            .map(|cursor| &**cursor)
            .ok_or_else(|| unknown(name))
    }

    fn listed(&self) -> Arc<[ListedCursor]> {
        self.open
            .iter()
            .map(|(name, cursor)| ListedCursor {
                name: name.clone(),
                statement: Arc::clone(&cursor.text),
                is_holdable: cursor.hold != Hold::No,
                is_binary: cursor.binary,
                is_scrollable: cursor.can_scroll(),
                created: cursor.created,
            })
            .collect()
    }
}

/// SQLSTATE 34000: there is no cursor of this name.
fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

/// SQLSTATE 24000: WHERE CURRENT OF does not say which row.
fn no_row(message: String) -> Error {
    Error::new(SqlState("24000"), message)
}

impl Session {
    /// DECLARE: begins a query, of which FETCH returns the rows.
    pub(super) async fn declare(
        &mut self,
        declare: &DeclareCommand,
        parameters: (&[u32], Vec<Value>),
    ) -> Result<()> {
        let name = &declare.name;
        // Of the statements of one Query, others than the last are in a transaction together.
        let is_alone = self.block != Block::Explicit && self.finishing;
        if is_alone && !declare.hold {
            return Err(Error::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        self.check_cursor_name(name)?;
        let (types, values) = parameters;
        let prepared = self.prepare_statement(declare.query.clone(), types).await?;
        let mut source = Portal::unseen(prepared, values);
        // Begins the query, and takes no row: the snapshot is that of the declaration.
        self.try_planned(&mut source, Some(0), &mut Collected::default())
            .await?;
        let number = self.portals.number();
        let text = (declare.query.text().into(), self.info.statement_start);
        let mut cursor = SqlCursor::new(source, text, number);
        if let PortalProgress::Query { plan, .. } = &cursor.source.progress {
            cursor.locks_rows = plan.locks_rows();
            cursor.records = plan.records().to_vec();
        }
        if cursor.locks_rows {
            refuse_lock(declare)?;
        }
        (cursor.scroll, cursor.binary) = (declare.scroll, declare.binary);
        if declare.hold {
            cursor.hold = Hold::Asked;
            self.cursors.holds = true;
        }
        cursor.account(&self.memory, 0)?;
        self.cursors.open.insert(name.clone(), Box::new(cursor));
        self.list_cursors();
        Ok(())
    }

    /// Fails when no cursor and no portal can take this name: with SQLSTATE 42P03 if one has
    /// it, with 54000 if the session has too many cursors.
    fn check_cursor_name(&self, name: &str) -> Result<()> {
        if name.is_empty() {
            let message = "invalid cursor name: must not be empty";
            return Err(Error::new(SqlState::INVALID_CURSOR_NAME, message));
        }
        if self.has_cursor(name) || self.cursors.portals.contains(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        let limit = self.limits.prepared_statements;
        if self.cursors.open.len() < limit {
            return Ok(());
        }
        Err(over_limit(
            format!("a session with {} cursors", limit + 1),
            limit as u64,
            "max_prepared_statements",
            "CLOSE those that are not needed any more",
        ))
    }

    /// CLOSE: ends the cursor of this name, or all.
    pub(super) fn close_cursors(&mut self, name: Option<&str>) -> Result<&'static str> {
        let Some(name) = name else {
            self.cursors.open.clear();
            self.list_cursors();
            return Ok("CLOSE CURSOR ALL");
        };
        if !self.close_cursor(name) {
            return Err(unknown(name));
        }
        Ok("CLOSE CURSOR")
    }

    /// Ends the cursor of this name. Returns whether there was one.
    pub fn close_cursor(&mut self, name: &str) -> bool {
        let closed = self.cursors.open.remove(name).is_some();
        if closed {
            self.list_cursors();
        }
        closed
    }

    /// Whether the session has a cursor of this name.
    #[must_use]
    pub fn has_cursor(&self, name: &str) -> bool {
        self.cursors.open.contains_key(name)
    }

    /// The columns and formats of the rows of the cursor of this name, if there is one.
    #[must_use]
    pub fn cursor_columns(&self, name: &str) -> Option<(&[Column], Vec<Format>)> {
        let cursor = self.cursors.get(name).ok()?;
        let formats = match cursor.binary {
            true => vec![Format::Binary; cursor.columns().len()],
            false => cursor.source.formats().to_vec(),
        };
        Some((cursor.columns(), formats))
    }

    /// A portal that executes the cursor of this name as if it were a portal itself: it
    /// returns the next rows, as many as `most` says.
    pub fn cursor_portal(&self, name: &str, most: Option<NonZeroU32>) -> Result<Option<Portal>> {
        let Some((columns, formats)) = self.cursor_columns(name) else {
            return Ok(None);
        };
        let count = most.map_or_else(|| "ALL".to_owned(), |most| most.to_string());
        let name = crate::catalog::quote_identifier(name);
        let text = format!("FETCH FORWARD {count} FROM {name}");
        let fetch = statement::parse(&text, self.budget())?.pop();
        let fetch = fetch.ok_or_else(|| Error::internal("a FETCH that is none"))?;
        let prepared = Prepared::without_plan(fetch, Some(columns.to_vec()));
        let mut portal = Portal::unseen(prepared, Vec::new());
        portal.formats = formats;
        portal.stands_for_cursor = true;
        Ok(Some(portal))
    }

    /// Makes a cursor of a portal that the connection has kept under this name, because FETCH or
    /// MOVE names it. The connection finds it by [`Session::cursor_portal`] from now on.
    pub fn adopt_portal(&mut self, name: &str, portal: Portal) {
        let text = portal.statement().text().into();
        let number = portal.number();
        let mut cursor = SqlCursor::new(portal, (text, self.info.statement_start), number);
        cursor.scroll = Scroll::No;
        self.cursors.portals.remove(name);
        self.cursors.open.insert(name.to_owned(), Box::new(cursor));
        self.list_cursors();
    }

    /// The connection keeps a portal under this name, or no longer does: no cursor may have
    /// the same.
    pub fn note_portal(&mut self, name: &str, is_kept: bool) {
        match is_kept {
            true => self.cursors.portals.insert(name.to_owned()),
            false => self.cursors.portals.remove(name),
        };
    }

    /// The connection keeps portals under these names and no others.
    pub fn note_portals<'name>(&mut self, names: impl Iterator<Item = &'name String>) {
        self.cursors.portals = names.cloned().collect();
    }

    /// A FETCH with the columns of its cursor as it is: it may be another one than when the
    /// FETCH was prepared. Returns any other statement as it is.
    pub(super) fn with_cursor_columns(&self, prepared: &Arc<Prepared>) -> Arc<Prepared> {
        let Command::Fetch(fetch) = prepared.statement.command() else {
            return Arc::clone(prepared);
        };
        let columns = self.fetched_columns(&fetch.cursor, fetch.only_move);
        if columns.as_deref() == prepared.columns() {
            return Arc::clone(prepared);
        }
        Prepared::without_plan(prepared.statement.clone(), columns)
    }

    /// The columns of the result of FETCH or MOVE.
    pub(super) fn fetched_columns(&self, name: &str, only_move: bool) -> Option<Vec<Column>> {
        let cursor = self.cursors.get(name).ok().filter(|_| !only_move)?;
        Some(cursor.columns().to_vec())
    }

    /// The formats of a statement's result for which the client has asked for none.
    pub(super) fn default_format(&self, prepared: &Prepared) -> Format {
        let Command::Fetch(fetch) = prepared.statement.command() else {
            return Format::Text;
        };
        let cursor = self.cursors.get(&fetch.cursor);
        format_of(cursor.is_ok_and(|cursor| cursor.binary))
    }

    /// Before a statement that may change what cursors read: has each collect the rest of its
    /// rows.
    pub(super) async fn settle_cursors(&mut self) -> Result<()> {
        let reads = |cursor: &SqlCursor| cursor.source.is_suspended();
        self.collect_cursors(reads).await
    }

    /// Before a commit: has the cursors that outlive it collect their rows.
    pub(super) async fn hold_cursors(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.cursors.holds) {
            return Ok(());
        }
        self.collect_cursors(|cursor| cursor.hold == Hold::Asked)
            .await
    }

    async fn collect_cursors(&mut self, which: impl Fn(&SqlCursor) -> bool) -> Result<()> {
        let names = self.cursors.open.iter();
        let names = names.filter(|(_, cursor)| which(cursor));
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(mut cursor) = self.cursors.open.remove(&name) else {
                continue;
            };
            let collected = self.collect(&mut cursor.source).await;
            let charged = collected.and_then(|()| cursor.charge_collected(&self.memory));
            self.cursors.open.insert(name, cursor);
            charged?;
        }
        Ok(())
    }

    /// Ends the cursors that end with the transaction.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        self.cursors.holds = false;
        self.cursors.portals.clear();
        if self.cursors.is_empty() {
            return;
        }
        self.cursors.open.retain(|_, cursor| {
            if committed && cursor.hold == Hold::Asked {
                cursor.hold = Hold::Held;
            }
            cursor.hold == Hold::Held
        });
        self.list_cursors();
    }

    /// Ends the cursors that were declared after a savepoint that was rolled back to: those
    /// with numbers from `from` on.
    pub(super) fn undo_cursors(&mut self, from: u64) {
        self.cursors
            .open
            .retain(|_, cursor| cursor.hold == Hold::Held || cursor.number < from);
        self.list_cursors();
    }

    /// Ends all cursors.
    pub(super) fn close_all_cursors(&mut self) {
        self.cursors.open.clear();
        self.list_cursors();
    }

    /// Has the session's statements see its cursors as they are.
    fn list_cursors(&mut self) {
        if !(self.cursors.is_empty() && self.info.cursors.is_empty()) {
            self.info.cursors = self.cursors.listed();
        }
    }

    /// The record that WHERE CURRENT OF names, if the change has such a clause; none if the
    /// row where the cursor stands has no record of the table.
    pub(super) fn current_row(&self, change: &ChangePlan) -> Result<Option<Rid>> {
        let Some(name) = change.current_of() else {
            return Ok(None);
        };
        let cursor = self.cursors.get(name)?;
        let table = &change.table;
        if cursor.hold == Hold::Held {
            return Err(no_row(format!(
                "cursor \"{name}\" is held from a previous transaction"
            )));
        }
        let places = cursor.records.iter().filter(|oid| **oid == table.oid);
        match (places.count(), cursor.locks_rows) {
            (1, _) => {}
            (0, true) => {
                return Err(no_row(format!(
                    "cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{}\"",
                    table.name
                )));
            }
            (_, true) => {
                return Err(no_row(format!(
                    "cursor \"{name}\" has multiple FOR UPDATE/SHARE references to table \"{}\"",
                    table.name
                )));
            }
            (_, false) => {
                return Err(no_row(format!(
                    "cursor \"{name}\" is not a simply updatable scan of table \"{}\"",
                    table.name
                )));
            }
        }
        if !cursor.is_on_row() {
            return Err(no_row(format!(
                "cursor \"{name}\" is not positioned on a row"
            )));
        }
        cursor.record(table.oid)
    }
}

fn format_of(binary: bool) -> Format {
    match binary {
        true => Format::Binary,
        false => Format::Text,
    }
}

/// Fails if a cursor with these options may not lock rows.
fn refuse_lock(declare: &DeclareCommand) -> Result<()> {
    let not_supported = |what: &str, detail: &str| {
        let message = format!("DECLARE {what} ... FOR UPDATE is not supported");
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail))
    };
    if declare.hold {
        return not_supported("CURSOR WITH HOLD", "Holdable cursors must be READ ONLY.");
    }
    if declare.scroll == Scroll::Yes {
        return not_supported("SCROLL CURSOR", "Scrollable cursors must be READ ONLY.");
    }
    if declare.insensitive {
        let message = "DECLARE INSENSITIVE CURSOR ... FOR UPDATE is not valid";
        return Err(invalid_cursor(message).with_detail("Insensitive cursors must be READ ONLY."));
    }
    Ok(())
}
