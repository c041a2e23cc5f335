//! FETCH and MOVE: PostgreSQL's rules of where a cursor goes, in steps forwards and backwards.

use std::task::{Context, Poll};

use coeval_sql_syntax::tree::FetchDirection;
use coeval_txn::ResponseDependencies;

use super::cursor::SqlCursor;
use super::{Session, unknown};
use crate::error::{Error, Result, SqlState};
use crate::output::{Column, Format, Notice, OutputRow, Sink};
use crate::session::portal::PortalProgress;
use crate::session::result_writer::{ResultWriter, drain};
use crate::statement::FetchCommand;
use crate::value::Value;

/// Number of rows that a cursor takes from its query at once.
const STEP: u64 = 128;

/// Where the rows of FETCH go.
struct Out<'sink> {
    sink: &'sink mut dyn Sink,
    columns: &'sink [Column],
    formats: &'sink [Format],
}

impl Session {
    /// FETCH and MOVE: moves a cursor, and returns the rows that it passes or stands on, with
    /// these columns. Returns how many there were.
    pub(in crate::session) async fn fetch(
        &mut self,
        fetch: &FetchCommand,
        (columns, formats): (&[Column], &[Format]),
        sink: &mut dyn Sink,
    ) -> Result<u64> {
        let name = &fetch.cursor;
        let Some(mut cursor) = self.cursors.open.remove(name) else {
            return Err(unknown(name));
        };
        if cursor.has_failed {
            self.cursors.open.insert(name.clone(), cursor);
            return Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("portal \"{name}\" cannot be run"),
            ));
        }
        let mut out = Out {
            sink,
            columns,
            formats,
        };
        let same = columns == cursor.columns();
        let moved = match (fetch.only_move, same) {
            (true, _) => self.travel(&mut cursor, fetch, None).await,
            (false, true) => self.travel(&mut cursor, fetch, Some(&mut out)).await,
            (false, false) => Err(Error::unsupported(
                "a FETCH whose cursor has other columns than when it was bound",
            )),
        };
        cursor.has_failed = moved.is_err();
        self.cursors.open.insert(name.clone(), cursor);
        moved
    }

    /// Moves a cursor as the statement says. Returns the number of rows that it passed last.
    async fn travel(
        &mut self,
        cursor: &mut SqlCursor,
        fetch: &FetchCommand,
        out: Option<&mut Out<'_>>,
    ) -> Result<u64> {
        let size = |count: i64| Some(count.unsigned_abs());
        let (forward, count) = match (fetch.direction, fetch.count) {
            (FetchDirection::Forward, None) => (true, None),
            (FetchDirection::Backward, None) => (false, None),
            (FetchDirection::Forward, Some(count)) => (count >= 0, size(count)),
            (FetchDirection::Backward, Some(count)) => (count < 0, size(count)),
            (FetchDirection::Absolute, count) => {
                return self.absolute(cursor, count.unwrap_or(0), out).await;
            }
            (FetchDirection::Relative, count) => {
                let count = count.unwrap_or(0);
                if count == 0 {
                    (true, Some(0))
                } else {
                    let before = Some(count.unsigned_abs() - 1);
                    self.step(cursor, count > 0, before, None).await?;
                    return self.step(cursor, count > 0, Some(1), out).await;
                }
            }
        };
        if count == Some(0) {
            // The row where the cursor stands, once more.
            return match (cursor.is_on_row(), out.is_some()) {
                (false, _) => Ok(0),
                (true, false) => Ok(1),
                (true, true) => {
                    self.step(cursor, false, Some(1), None).await?;
                    self.step(cursor, true, Some(1), out).await
                }
            };
        }
        if !forward && count.is_none() && out.is_none() {
            let passed = cursor.at();
            let stands = passed > 0 && !cursor.is_behind();
            cursor.rewind()?;
            return Ok(passed - u64::from(stands));
        }
        self.step(cursor, forward, count, out).await
    }

    /// FETCH ABSOLUTE: the row of this number, from the end if it is negative.
    async fn absolute(
        &mut self,
        cursor: &mut SqlCursor,
        count: i64,
        out: Option<&mut Out<'_>>,
    ) -> Result<u64> {
        let size = count.unsigned_abs();
        if count == 0 {
            cursor.rewind()?;
            return Ok(0);
        }
        if count < 0 {
            self.step(cursor, true, None, None).await?;
            self.step(cursor, false, Some(size - 1), None).await?;
            return self.step(cursor, false, Some(1), out).await;
        }
        // From the beginning, if that is nearer than the present place.
        if size - 1 <= cursor.at() / 2 {
            cursor.rewind()?;
            self.step(cursor, true, Some(size - 1), None).await?;
        } else {
            let place = cursor.at() + u64::from(cursor.is_behind());
            if size <= place {
                let back = Some(place - size + 1);
                self.step(cursor, false, back, None).await?;
            } else {
                let ahead = Some(size - place - 1);
                self.step(cursor, true, ahead, None).await?;
            }
        }
        self.step(cursor, true, Some(1), out).await
    }

    /// Moves a cursor over rows in one direction; all of them without a count. Returns how
    /// many there were.
    async fn step(
        &mut self,
        cursor: &mut SqlCursor,
        forward: bool,
        count: Option<u64>,
        out: Option<&mut Out<'_>>,
    ) -> Result<u64> {
        match forward {
            true => self.advance(cursor, count, out).await,
            false => self.retreat(cursor, count, out).await,
        }
    }

    async fn advance(
        &mut self,
        cursor: &mut SqlCursor,
        count: Option<u64>,
        mut out: Option<&mut Out<'_>>,
    ) -> Result<u64> {
        if cursor.is_behind() {
            return Ok(0);
        }
        let mut passed = 0;
        loop {
            let most = count.map_or(STEP, |count| (count - passed).min(STEP));
            if most == 0 {
                return Ok(passed);
            }
            let next = cursor.at() + 1;
            let last = cursor.at().saturating_add(most);
            self.supply(cursor, last).await?;
            let available = cursor.available(next, most, out.is_some())?;
            if let Some(out) = out.as_deref_mut() {
                self.show_rows(cursor, next..next + available, out)?;
            }
            cursor.advance(available, available < most);
            passed += available;
            let allowance = self.info.work_memory as u64;
            cursor.account(&self.memory, allowance)?;
            if available < most {
                return Ok(passed);
            }
            if let Some(out) = out.as_deref_mut() {
                let dependencies = self.dependencies();
                drain(out.sink, dependencies, &self.ticket).await?;
            }
        }
    }

    async fn retreat(
        &mut self,
        cursor: &mut SqlCursor,
        count: Option<u64>,
        out: Option<&mut Out<'_>>,
    ) -> Result<u64> {
        let passed = cursor.behind(count, out.is_some())?;
        let (lowest, highest) = passed;
        if let Some(out) = out {
            self.show_rows(cursor, (lowest..=highest).rev(), out)?;
        }
        cursor.retreat(passed, count);
        Ok((highest + 1).saturating_sub(lowest))
    }

    /// Takes rows from the query until the cursor has the row of this number, or all.
    async fn supply(&mut self, cursor: &mut SqlCursor, number: u64) -> Result<()> {
        let lacks = cursor.lacks(number);
        if lacks == 0 {
            return Ok(());
        }
        let most = u32::try_from(lacks).unwrap_or(u32::MAX);
        let mut rows = Collected::default();
        match cursor.source.progress {
            PortalProgress::Query { .. } => {
                self.run_query(&mut cursor.source, Some(most), &mut rows)
                    .await?;
            }
            PortalProgress::Collected(_) | PortalProgress::Rows { .. } => {
                self.run_rows(&mut cursor.source, Some(most), &mut rows)
                    .await?;
            }
            PortalProgress::New => {
                self.try_planned(&mut cursor.source, Some(most), &mut rows)
                    .await?;
            }
            PortalProgress::Done(_) => {}
        }
        cursor.take(rows.0, u64::from(most));
        Ok(())
    }

    /// Returns rows that the cursor keeps.
    fn show_rows(
        &self,
        cursor: &SqlCursor,
        numbers: impl Iterator<Item = u64>,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let mut writer = ResultWriter {
            sink: &mut *out.sink,
            columns: out.columns,
            formats: out.formats,
            style: self.settings.style_for_client(self.info.style),
            most: None,
            delivered: 0,
        };
        for number in numbers {
            writer.row(cursor.row(number)?)?;
        }
        Ok(())
    }
}

/// A sink that keeps rows as values.
#[derive(Debug, Default)]
pub(super) struct Collected(Vec<Vec<Value>>);

impl Sink for Collected {
    fn columns(&mut self, _columns: &[Column], _formats: &[Format]) {}

    fn row(&mut self, row: OutputRow<'_>) {
        self.0.push(row.values().to_vec());
    }

    fn restart(&mut self) {
        self.0.clear();
    }

    fn notice(&mut self, _notice: Notice) {}

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, _data: &[u8]) {}

    /// Nothing leaves the process from here.
    fn poll_drain(
        &mut self,
        _dependencies: ResponseDependencies,
        _context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}
