//! One cursor: the rows that it has taken from its query, and its position among them.
//!
//! ```text
//!   row        1    2    3    4    5    6 …
//!              └ dropped ┘└── kept ──┘└ not taken from the query yet
//!                    first            taken
//! ```
//!
//! A cursor that is declared with SCROLL keeps every row. One that is declared with NO SCROLL
//! keeps the row where it stands. One whose declaration does not say so keeps as many of the
//! last ones as fit into `work_mem`, so that a client that reads a large result forwards
//! needs no memory for all of it, and one that scrolls in a small result can.
//!
//! Positions are PostgreSQL's: before the first row, on a row, or behind the last one.

use std::collections::VecDeque;
use std::sync::Arc;

use coeval_types::Rid;

use crate::error::{Error, Result, SqlState};
use crate::instance::{Charge, SessionMemory};
use crate::output::Column;
use crate::select::row_bytes;
use crate::session::portal::{Portal, PortalProgress};
use crate::statement::Scroll;
use crate::value::Value;

/// How long a cursor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It ends with its transaction.
    No,
    /// It is declared WITH HOLD, in the transaction that runs.
    Asked,
    /// Its transaction has committed.
    Held,
}

/// A cursor of SQL.
#[derive(Debug)]
pub(in crate::session) struct SqlCursor {
    /// The query, as far as it was executed.
    pub(super) source: Portal,
    pub(super) scroll: Scroll,
    pub(super) hold: Hold,
    pub(super) binary: bool,
    /// Whether a FETCH or MOVE has failed.
    pub(super) has_failed: bool,
    /// The number of the cursor among the session's portals.
    pub(super) number: u64,
    /// Text of the statement that declared it, and when that was.
    pub(super) text: Arc<str>,
    pub(super) created: i64,
    /// Whether the query locks the rows that it returns.
    pub(super) locks_rows: bool,
    /// Behind the columns of the result: of which tables a row has the records, by OID.
    pub(super) records: Vec<u32>,
    rows: VecDeque<Vec<Value>>,
    /// The number of the first row that is kept, from 1.
    first: u64,
    /// Number of rows taken from the query.
    taken: u64,
    /// Whether the query has no more rows.
    is_drained: bool,
    /// Number of the row where the cursor stands, or of the last row behind which it
    /// stands; 0 before the first row.
    at: u64,
    is_before: bool,
    is_behind: bool,
    /// Memory of the kept rows, in bytes.
    bytes: u64,
    /// Memory of the rows that the query has collected, in bytes.
    collected: u64,
    charge: Option<Charge>,
}

impl SqlCursor {
    pub(super) fn new(source: Portal, (text, created): (Arc<str>, i64), number: u64) -> Self {
        Self {
            source,
            scroll: Scroll::Unsaid,
            hold: Hold::No,
            binary: false,
            has_failed: false,
            number,
            text,
            created,
            locks_rows: false,
            records: Vec::new(),
            rows: VecDeque::new(),
            first: 1,
            taken: 0,
            is_drained: false,
            at: 0,
            is_before: true,
            is_behind: false,
            bytes: 0,
            collected: 0,
            charge: None,
        }
    }

    /// The columns of the result.
    pub(super) fn columns(&self) -> &[Column] {
        self.source.columns().unwrap_or_default()
    }

    /// Whether the cursor can move backwards.
    pub(super) fn can_scroll(&self) -> bool {
        self.scroll == Scroll::Yes || self.scroll == Scroll::Unsaid && !self.locks_rows
    }

    /// Fails with SQLSTATE 55000 unless the cursor can move backwards.
    fn require_scroll(&self) -> Result<()> {
        match self.can_scroll() {
            true => Ok(()),
            false => Err(only_forward()),
        }
    }

    /// Number of the row where the cursor stands, or behind which it does.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether the cursor stands on a row.
    pub(super) fn is_on_row(&self) -> bool {
        !self.is_before && !self.is_behind
    }

    /// The record of the table with this OID in the row where the cursor stands; `None` if
    /// the row has none of it. Fails if the row is not kept.
    pub(super) fn record(&self, table: u32) -> Result<Option<Rid>> {
        let Some(position) = self.records.iter().position(|each| *each == table) else {
            return Ok(None);
        };
        Ok(
            match self
                .kept(self.at)
                .ok_or_else(only_forward)?
                .get(self.columns().len() + position)
            {
                Some(Value::Int8(record)) => Some(Rid(*record as u64)),
                _ => None,
            },
        )
    }

    /// Number of rows that have to be taken from the query before row `number` is there.
    pub(super) fn lacks(&self, number: u64) -> u64 {
        match self.is_drained {
            true => 0,
            false => number.saturating_sub(self.taken),
        }
    }

    /// Takes over rows of the query; fewer than were asked for are its last ones.
    pub(super) fn take(&mut self, rows: Vec<Vec<Value>>, asked: u64) {
        let count = rows.len() as u64;
        self.is_drained = count < asked;
        self.taken += count;
        for row in rows {
            let bytes = row_bytes(&row) as u64;
            self.bytes += bytes;
            self.collected = self.collected.saturating_sub(bytes);
            self.rows.push_back(row);
        }
    }

    /// Number of rows there are from row `number` on, at most `most`. Fails if they are to be
    /// `shown` and are not kept.
    pub(super) fn available(&self, number: u64, most: u64, shown: bool) -> Result<u64> {
        let available = (self.taken + 1).saturating_sub(number).min(most);
        if shown && available > 0 && number < self.first {
            return Err(only_forward());
        }
        Ok(available)
    }

    /// The columns of a row that is kept.
    pub(super) fn row(&self, number: u64) -> Result<&[Value]> {
        let row = self.kept(number);
        let row = row.ok_or_else(|| Error::internal("a row that its cursor does not keep"))?;
        Ok(row.get(..self.columns().len()).unwrap_or(row))
    }

    /// A row with its records; `None` if it is not kept.
    fn kept(&self, number: u64) -> Option<&Vec<Value>> {
        let place = number.checked_sub(self.first)?;
        self.rows.get(usize::try_from(place).ok()?)
    }

    /// Moves forwards over `count` rows. `more` were asked for, so the cursor stands behind
    /// the last row.
    pub(super) fn advance(&mut self, count: u64, more: bool) {
        self.at += count;
        self.is_before &= count == 0;
        self.is_behind = more;
    }

    /// The rows that moving backwards over `count` rows passes, from the highest to the
    /// lowest number, as their numbers: none, if the second is less than the first. `shown`
    /// says that they are returned.
    pub(super) fn behind(&self, count: Option<u64>, shown: bool) -> Result<(u64, u64)> {
        self.require_scroll()?;
        if self.is_before || count == Some(0) {
            return Ok((1, 0));
        }
        let highest = self.at + u64::from(self.is_behind) - 1;
        let passed = count.unwrap_or(u64::MAX).min(highest);
        let lowest = highest + 1 - passed;
        if shown && passed > 0 && lowest < self.first {
            return Err(only_forward());
        }
        Ok((lowest, highest))
    }

    /// Moves backwards over the rows from `lowest` to `highest`, of `count` that were asked
    /// for.
    pub(super) fn retreat(&mut self, (lowest, highest): (u64, u64), count: Option<u64>) {
        if self.is_before || count == Some(0) {
            return;
        }
        let passed = highest + 1 - lowest;
        if count.is_none_or(|count| passed < count) {
            (self.at, self.is_before) = (0, true);
            self.is_behind &= passed == 0;
            return;
        }
        self.at = lowest;
        self.is_behind = false;
    }

    /// Moves before the first row.
    pub(super) fn rewind(&mut self) -> Result<()> {
        if self.is_before && !self.is_behind {
            return Ok(());
        }
        self.require_scroll()?;
        (self.at, self.is_before, self.is_behind) = (0, true, false);
        Ok(())
    }

    /// Drops rows that the cursor need not keep, and charges the session for the others. One
    /// that need not keep them keeps at most `allowance` bytes.
    pub(super) fn account(&mut self, memory: &Arc<SessionMemory>, allowance: u64) -> Result<()> {
        match (self.scroll, self.can_scroll()) {
            (_, false) => self.drop_until(0),
            (Scroll::Unsaid, true) => self.drop_until(allowance),
            (Scroll::Yes | Scroll::No, true) => {}
        }
        if let Err(error) = self.charge(memory) {
            if self.scroll == Scroll::Yes {
                return Err(error);
            }
            self.drop_until(0);
            self.charge(memory)?;
        }
        Ok(())
    }

    fn drop_until(&mut self, bytes: u64) {
        while self.bytes > bytes && self.first < self.at {
            let Some(row) = self.rows.pop_front() else {
                return;
            };
            self.first += 1;
            self.bytes = self.bytes.saturating_sub(row_bytes(&row) as u64);
        }
    }

    /// Charges the session for the kept rows, and for those that the query has collected.
    fn charge(&mut self, memory: &Arc<SessionMemory>) -> Result<()> {
        let bytes = self.bytes + self.collected + size_of::<Self>() as u64;
        match &mut self.charge {
            Some(charge) => charge.grow(bytes, "A cursor"),
            none => {
                *none = Some(memory.charge(bytes, "A cursor")?);
                Ok(())
            }
        }
    }

    /// Charges the session for the rows that the query has collected.
    pub(super) fn charge_collected(&mut self, memory: &Arc<SessionMemory>) -> Result<()> {
        if let PortalProgress::Collected(rows) = &self.source.progress {
            self.collected = rows.iter().map(|row| row_bytes(row) as u64).sum();
        }
        self.charge(memory)
    }
}

/// SQLSTATE 55000: the rows behind the cursor are not there any more.
fn only_forward() -> Error {
    Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cursor can only scan forward",
    )
    .with_hint("Declare it with SCROLL option to enable backward scan.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::CommandTag;
    use crate::session::prepared::Prepared;
    use crate::statement::Statement;

    /// A cursor over rows that each have their number, of which it has taken `taken`.
    fn cursor(scroll: Scroll, taken: i64, is_drained: bool) -> SqlCursor {
        let prepared = Prepared::without_plan(Statement::empty(), Some(Vec::new()));
        let mut source = Portal::unseen(prepared, Vec::new());
        source.progress = PortalProgress::Done(CommandTag::new("SELECT"));
        let mut cursor = SqlCursor::new(source, ("".into(), 0), 1);
        cursor.scroll = scroll;
        let rows = (1..=taken).map(|number| vec![Value::Int8(number)]);
        let asked = taken as u64 + u64::from(is_drained);
        cursor.take(rows.collect(), asked);
        cursor
    }

    fn back(cursor: &mut SqlCursor, count: Option<u64>) -> Result<u64> {
        let passed = cursor.behind(count, true)?;
        cursor.retreat(passed, count);
        Ok((passed.1 + 1).saturating_sub(passed.0))
    }

    #[test]
    fn positions_are_postgresqls() {
        let mut cursor = cursor(Scroll::Yes, 3, true);
        assert!(!cursor.is_on_row());
        cursor.advance(2, false);
        assert!(cursor.is_on_row() && cursor.at() == 2);
        assert_eq!(back(&mut cursor, Some(1)).unwrap(), 1);
        assert!(cursor.is_on_row() && cursor.at() == 1);
        cursor.advance(2, true);
        assert!(!cursor.is_on_row() && cursor.is_behind() && cursor.at() == 3);
        // Back from behind the last row: onto it.
        assert_eq!(back(&mut cursor, Some(1)).unwrap(), 1);
        assert!(cursor.is_on_row() && cursor.at() == 3);
        assert_eq!(back(&mut cursor, None).unwrap(), 2);
        assert!(!cursor.is_on_row() && !cursor.is_behind() && cursor.at() == 0);
        assert_eq!(back(&mut cursor, Some(1)).unwrap(), 0);
    }

    #[test]
    fn an_empty_result_is_behind_and_before() {
        let mut cursor = cursor(Scroll::Yes, 0, true);
        cursor.advance(0, true);
        assert!(!cursor.is_on_row() && cursor.is_behind());
        assert_eq!(back(&mut cursor, None).unwrap(), 0);
        cursor.rewind().unwrap();
        assert!(!cursor.is_behind());
    }

    #[test]
    fn rows_are_kept_as_far_as_the_declaration_says() {
        let memory = SessionMemory::new(1 << 20, &Arc::default());
        for (scroll, kept) in [(Scroll::No, 1), (Scroll::Unsaid, 2), (Scroll::Yes, 5)] {
            let mut cursor = cursor(scroll, 5, false);
            let each = cursor.bytes / 5;
            cursor.advance(5, false);
            cursor.account(&memory, 2 * each).unwrap();
            assert_eq!(cursor.rows.len(), kept, "{scroll:?}");
            let state = back(&mut cursor, None).map_err(|error| error.state());
            let only_forward = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            assert_eq!(state, if kept == 5 { Ok(4) } else { Err(only_forward) });
        }
    }

    #[test]
    fn a_cursor_that_must_keep_its_rows_fails_where_they_do_not_fit() {
        let memory = SessionMemory::new(1, &Arc::default());
        let mut cursor = cursor(Scroll::Yes, 5, false);
        cursor.advance(5, false);
        let error = cursor.account(&memory, 0).unwrap_err();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    }
}
