//! Writing results to the sink, with back-pressure.

use std::future::poll_fn;
use std::task::{Context, Poll};

use coeval_txn::ResponseDependencies;

use crate::error::{Error, Result};
use crate::instance::Ticket;
use crate::output::{Column, Format, Notice, OutputRow, Severity, Sink};
use crate::value::{Encoding, Style, Value};

/// Number of rows written between two checks for back-pressure.
const ROWS_BETWEEN_DRAINS: u32 = 128;

/// Writes a result's rows to the sink, and checks for back-pressure at intervals.
pub(super) struct ResultWriter<'sink> {
    pub(super) sink: &'sink mut dyn Sink,
    pub(super) columns: &'sink [Column],
    pub(super) formats: &'sink [Format],
    pub(super) style: Style,
    /// Maximum number of rows to write; `None` for all.
    pub(super) most: Option<u32>,
    pub(super) delivered: u32,
}

impl ResultWriter<'_> {
    pub(super) fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.delivered >= most)
    }

    /// Writes a row; error 22P05 if the client's encoding lacks a character of it.
    pub(super) fn row(&mut self, values: &[Value]) -> Result<()> {
        if self.style.encoding.converts() {
            check_encoding(values, self.style.encoding)?;
        }
        self.sink.row(OutputRow {
            columns: self.columns,
            formats: self.formats,
            values,
            style: &self.style,
        });
        self.delivered += 1;
        Ok(())
    }

    pub(super) fn wants_drain(&self) -> bool {
        self.delivered.is_multiple_of(ROWS_BETWEEN_DRAINS)
    }
}

fn check_encoding(values: &[Value], encoding: Encoding) -> Result<()> {
    for value in values {
        match value {
            Value::Text(text) | Value::Object(_, text) => encoding.check(text)?,
            Value::Array(elements) => check_encoding(elements, encoding)?,
            _ => {}
        }
    }
    Ok(())
}

/// Waits until the sink can take more rows.
pub(super) async fn drain(
    sink: &mut dyn Sink,
    dependencies: ResponseDependencies,
    ticket: &Ticket,
) -> Result<()> {
    let mut waits = false;
    let drained = poll_fn(|context| {
        let polled = sink.poll_drain(dependencies, context);
        if polled.is_pending() && !waits {
            waits = true;
            ticket.rest();
        }
        polled
    })
    .await;
    if waits {
        ticket.resume();
    }
    drained
}

/// A sink that records whether it was drained, because rows that have left cannot be
/// taken back, and that drops the notices below the client's minimum severity.
pub(super) struct Watched<'sink> {
    pub(super) sink: &'sink mut dyn Sink,
    pub(super) drained: bool,
    /// Minimum severity of the notices that are passed on; `None` passes on none.
    pub(super) least: Option<Severity>,
}

impl Sink for Watched<'_> {
    fn columns(&mut self, columns: &[Column], formats: &[Format]) {
        self.sink.columns(columns, formats);
    }

    fn row(&mut self, row: OutputRow<'_>) {
        self.sink.row(row);
    }

    fn refused(&mut self) -> Option<Error> {
        self.sink.refused()
    }

    fn restart(&mut self) {
        self.sink.restart();
    }

    fn notice(&mut self, notice: Notice) {
        if self.least.is_some_and(|least| notice.severity >= least) {
            self.sink.notice(notice);
        }
    }

    fn copy_out(&mut self, columns: usize) {
        self.sink.copy_out(columns);
    }

    fn copy_data(&mut self, data: &[u8]) {
        self.sink.copy_data(data);
    }

    fn poll_drain(
        &mut self,
        dependencies: ResponseDependencies,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.drained = true;
        self.sink.poll_drain(dependencies, context)
    }
}
