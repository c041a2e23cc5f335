//! Portals: prepared statements with their parameters and an execution position.
//!
//! A query stops at its row limit and continues when the portal is executed again, with
//! the rows it would have returned at once. It does not see commits of other
//! transactions, because it keeps its snapshot; before a statement of its own transaction
//! changes anything, [`Session::settle`] collects the query's remaining rows.
//!
//! ```text
//!   bind p ─ execute p, 100 rows ─ update … ─ execute p, 100 rows
//!                                  └ settle p: the rest as it was before
//! ```
//!
//! Invariants:
//! - A portal ends with its transaction, and with a rollback to a savepoint that is older
//!   than the portal. Portals are numbered as they are bound, so the ended ones form
//!   ranges of numbers ([`Portals`]).
//! - The session does not collect a query that locks rows: that would lock rows the
//!   client has not fetched yet.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use coeval_txn::KeptSnapshot;

use super::Session;
use super::prepared::Prepared;
use crate::catalog::Catalog;
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::instance::{Charge, SessionsElsewhere};
use crate::output::{Column, CommandTag, Format};
use crate::select::{Cursor, QueryPlan, row_bytes};
use crate::statement::{Statement, StatementKind};
use crate::value::{DataType, Style, Value};

/// A prepared statement with its parameters and an execution position.
#[derive(Debug)]
pub struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Vec<Value>,
    /// Result format of each column.
    pub(super) formats: Vec<Format>,
    pub(super) progress: PortalProgress,
    /// The portal's number in its session; see [`Portals`].
    number: u64,
    /// Memory that the portal takes, in bytes, without its prepared statement.
    pub(super) bytes: u64,
    /// What the portal is charged to its session, while it is kept under a name.
    pub(super) charge: Option<Charge>,
    /// Whether the portal is a FETCH for a message that names a cursor as a portal.
    pub(super) stands_for_cursor: bool,
    /// What other nodes have told of the sessions that the portal interrupts.
    pub(super) elsewhere: Option<Arc<SessionsElsewhere>>,
}

/// How far a portal has been executed.
#[derive(Debug)]
pub(super) enum PortalProgress {
    /// The portal has not been executed yet.
    New,
    /// A query that continues where it stopped.
    Query {
        plan: Arc<QueryPlan>,
        cursor: Cursor,
        catalog: Arc<Catalog>,
        /// The session's transaction that the query belongs to, as `Session::epoch`
        /// counted it.
        epoch: u64,
        /// The query's snapshot, while the query is suspended.
        kept: Option<KeptSnapshot>,
    },
    /// The remaining rows of a query, collected before another statement could change its
    /// result.
    Collected(VecDeque<Vec<Value>>),
    /// A complete result that is sent to the client in parts.
    Rows {
        rows: VecDeque<Vec<Value>>,
        tag: CommandTag,
    },
    /// The portal was executed to its end; this is its command tag.
    Done(CommandTag),
}

impl Portal {
    /// The prepared statement that the portal runs.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.prepared.statement
    }

    pub(super) fn new(
        prepared: Arc<Prepared>,
        parameters: &[Option<&[u8]>],
        formats: &[Format],
        result_formats: &[Format],
        style: &Style,
        number: u64,
    ) -> Result<Self> {
        if parameters.len() != prepared.types().len() {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    parameters.len(),
                    prepared.types().len()
                ),
            ));
        }
        let mut values = Vec::with_capacity(parameters.len());
        for (position, (bytes, data_type)) in parameters.iter().zip(prepared.types()).enumerate() {
            let format = one_of(formats, position)?;
            values.push(match bytes {
                None => Value::Null,
                Some(bytes) => parameter(bytes, *data_type, format, style)?,
            });
        }
        let columns = prepared.columns().map_or(0, <[_]>::len);
        let formats = (0..columns)
            .map(|position| one_of(result_formats, position))
            .collect::<Result<_>>()?;
        Ok(Self {
            prepared,
            parameters: values,
            formats,
            progress: PortalProgress::New,
            number,
            bytes: 0,
            charge: None,
            stands_for_cursor: false,
            elsewhere: None,
        })
    }

    /// A portal for a simple query, internal to the session: its parameters are values,
    /// and its results have the text format.
    pub(super) fn unseen(prepared: Arc<Prepared>, parameters: Vec<Value>) -> Self {
        let columns = prepared.columns().map_or(0, <[_]>::len);
        Self {
            prepared,
            parameters,
            formats: vec![Format::Text; columns],
            progress: PortalProgress::New,
            number: 0,
            bytes: 0,
            charge: None,
            stands_for_cursor: false,
            elsewhere: None,
        }
    }

    /// The columns of the result; `None` when the statement returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        self.prepared.columns()
    }

    /// Whether the portal is a query.
    #[must_use]
    pub fn is_query(&self) -> bool {
        self.prepared.statement.kind() == StatementKind::Select
    }

    /// The portal's number in its session.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the portal is a query that stopped at its row limit, and continues when it
    /// is executed again.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        matches!(&self.progress, PortalProgress::Query { plan, .. } if !plan.locks_rows())
    }

    /// Whether executing the portal once more would return nothing of the database: it was
    /// executed to its end, or its statement is empty.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.progress, PortalProgress::Done(_)) || self.prepared.is_empty()
    }

    /// Whether executing the portal may change the results of the session's suspended
    /// portals.
    #[must_use]
    pub fn disturbs(&self) -> bool {
        let new = matches!(self.progress, PortalProgress::New);
        new && self.prepared.statement.command().may_write()
    }

    /// Result format of each column.
    #[must_use]
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }
}

/// The format at `position`: a single format applies to all, an empty list means text.
fn one_of(formats: &[Format], position: usize) -> Result<Format> {
    match formats {
        [] => Ok(Format::Text),
        [all] => Ok(*all),
        each => each.get(position).copied().ok_or_else(|| {
            Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "fewer formats than values or columns",
            )
        }),
    }
}

fn parameter(bytes: &[u8], data_type: DataType, format: Format, style: &Style) -> Result<Value> {
    match format {
        Format::Binary => Value::parse_binary(bytes, data_type.into()),
        Format::Text => {
            let text = crate::value::utf8(bytes)?;
            Value::parse(text, data_type.into(), style)
        }
    }
}

/// A session's record of which of its portals have ended.
#[derive(Debug)]
pub(super) struct Portals {
    /// Number of the next portal.
    next: u64,
    /// Portals with lower numbers ended with their transactions.
    first: u64,
    /// Portals that ended with a savepoint of the running transaction.
    undone: Vec<Range<u64>>,
    /// Whether a portal has ended that the connection may still store.
    ended: bool,
}

impl Default for Portals {
    fn default() -> Self {
        Self {
            // Number 0 is for portals that the connection does not store.
            next: 1,
            first: 1,
            undone: Vec::new(),
            ended: false,
        }
    }
}

impl Portals {
    /// Assigns a number to a portal that is being bound.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The number that the next portal will get.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Ends all portals, with their transaction.
    pub(super) fn end_all(&mut self) {
        self.ended |= self.first < self.next;
        self.first = self.next;
        self.undone.clear();
    }

    /// Ends the portals with numbers from `from` on, which were bound after a savepoint
    /// that was rolled back to.
    pub(super) fn undo(&mut self, from: u64) {
        if from < self.next {
            self.undone.push(from..self.next);
            self.ended = true;
        }
    }
}

impl Session {
    /// Whether a portal can still be executed.
    #[must_use]
    pub fn is_alive(&self, portal: &Portal) -> bool {
        let (portals, number) = (&self.portals, portal.number);
        number >= portals.first && !portals.undone.iter().any(|ended| ended.contains(&number))
    }

    /// Whether portals have ended since the last call, so that the connection should
    /// check its portals with [`Session::is_alive`].
    pub fn take_portals_ended(&mut self) -> bool {
        std::mem::take(&mut self.portals.ended)
    }

    /// Collects the remaining rows of a suspended portal, before a statement that
    /// [disturbs](Portal::disturbs) it is executed. When it fails, such as with 53200
    /// because the rows exceed `work_mem`, the session has already failed the
    /// transaction.
    pub async fn settle(&mut self, portal: &mut Portal) -> Result<()> {
        let settled = self.collect(portal).await;
        self.note_seen();
        if settled.is_err() {
            self.fail();
        }
        settled
    }

    pub(super) async fn collect(&mut self, portal: &mut Portal) -> Result<()> {
        if !portal.is_suspended() {
            return Ok(());
        }
        let viewer = self.viewer();
        let (
            PortalProgress::Query {
                cursor,
                catalog,
                epoch,
                kept,
                ..
            },
            Some(running),
        ) = (&mut portal.progress, self.running.as_mut())
        else {
            return Ok(());
        };
        if *epoch != self.epoch {
            return Ok(());
        }
        if let Some(kept) = kept.take() {
            running.transaction.resume_snapshot(kept)?;
            self.is_renewed = false;
        }
        let mut context = EvaluationContext::new(
            &self.info,
            catalog,
            &portal.parameters,
            Some(&mut *running.transaction),
        );
        context.settings = Some(&viewer);
        let mut rows = VecDeque::new();
        let mut row = Vec::new();
        let mut bytes = portal.bytes;
        while cursor.next(&mut context, &mut row).await? {
            context.memory.take(row_bytes(&row))?;
            bytes += row_bytes(&row) as u64;
            rows.push_back(std::mem::take(&mut row));
        }
        if let Some(charge) = &mut portal.charge {
            charge.resize(bytes);
        }
        portal.progress = PortalProgress::Collected(rows);
        self.take_over(viewer);
        Ok(())
    }
}
