//! What a session has to say and has not said yet.
//!
//! Answers collect in one buffer, and leave in one write when the client waits for
//! them: at Sync, at Flush, at the end of a simple query, or when there are too
//! many. The one rule: **no byte leaves before the newest commit that anything
//! produced so far depends on is durable, and, of what was only read in a cluster, it is
//! confirmed that this node still leads**. Errors and notices depend on data too, and rows
//! of a long result as much as its end, so there is no way around [`Output::poll_flush`].
//!
//! While a statement runs, the output is its [`Sink`]. A client that does not take
//! its rows stops the statement in [`Sink::poll_drain`], not the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use coeval_pgwire::backend::{RowWriter, cold, hot};
use coeval_sql::instance::activity::{Activity, AnswerWait};
use coeval_sql::instance::over_limit;
use coeval_sql::output::{Column, Format, Notice, OutputRow, Sink};
use coeval_sql::{Error, SqlState};
use coeval_txn::{Basis, Confirmation, Engine};
use coeval_types::Timestamp;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::report;
use super::signal::Signal;
use super::transport::WriteHalf;
use crate::metrics::Sheet;

/// Buffers larger than this, in bytes, give their memory back when they are empty.
const KEPT: usize = 256 << 10;

/// Why nothing more can be sent.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The client is gone.
    Client,
    /// The engine cannot make anything durable any more.
    Engine(coeval_txn::Error),
}

/// The sending side of a connection.
pub(crate) struct Output {
    /// Answers, of which the first `sent` bytes are gone, and the first `vouched` may go.
    pub(crate) buffer: Vec<u8>,
    sent: usize,
    vouched: usize,
    /// Whether something that was written may not have left the stream.
    flushing: bool,
    /// A statement waits when the buffer holds more than this, in bytes.
    high_water: usize,
    stream: WriteHalf,
    pub(super) engine: Arc<dyn Engine>,
    signal: Arc<Signal>,
    /// Up to here everything is known to be durable.
    durable: Timestamp,
    /// Everything that was read before this question was put is known not to be old.
    confirmed: Option<Confirmation>,
    /// Where the answers of the execution that runs begin, and the notices among
    /// them: what is left if it starts anew.
    execution: usize,
    notices: Vec<u8>,
    /// The most bytes of rows that an execution may send; 0 for no limit.
    most: u64,
    /// How many the one that runs has sent.
    rows_bytes: u64,
    /// A row that could not be sent: the statement has to fail.
    unsendable: Option<Error>,
    /// Whether COPY data were announced and not yet ended.
    copying: bool,
    lost: Option<Lost>,
    /// Whether the client has a part of a message of which the rest is gone.
    broken_off: bool,
    sheet: Arc<Sheet>,
    /// Others see on it what the answers wait for.
    activity: Option<Arc<Activity>>,
    /// Since when they wait for durability, or then for the confirmation.
    waiting: Option<coeval_env::Instant>,
}

impl Output {
    pub(crate) fn new(
        stream: WriteHalf,
        engine: Arc<dyn Engine>,
        signal: Arc<Signal>,
        high_water: usize,
        most: u64,
        sheet: Arc<Sheet>,
    ) -> Self {
        Self {
            buffer: Vec::new(),
            sent: 0,
            vouched: 0,
            flushing: false,
            high_water,
            stream,
            engine,
            signal,
            durable: Timestamp::ZERO,
            confirmed: None,
            execution: 0,
            notices: Vec::new(),
            most,
            rows_bytes: 0,
            unsendable: None,
            copying: false,
            lost: None,
            broken_off: false,
            sheet,
            activity: None,
            waiting: None,
        }
    }

    pub(crate) fn sheet(&self) -> &Arc<Sheet> {
        &self.sheet
    }

    /// From now on others see what the answers wait for.
    pub(crate) fn show_on(&mut self, activity: &Arc<Activity>) {
        self.activity = Some(Arc::clone(activity));
    }

    fn show(&self, wait: AnswerWait) {
        if let Some(activity) = &self.activity {
            activity.answer_waits(wait);
        }
    }

    /// Sends everything, once what it rests on holds.
    pub(crate) async fn flush(&mut self, basis: impl Into<Basis>) -> Result<(), ()> {
        let basis = basis.into();
        std::future::poll_fn(|context| self.poll_flush(basis, context)).await
    }

    /// [`Output::flush`]. After an error, which [`Output::take_lost`] explains,
    /// nothing is ever sent again.
    pub(crate) fn poll_flush(
        &mut self,
        basis: Basis,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ()>> {
        if self.lost.is_some() {
            return Poll::Ready(Err(()));
        }
        if self.sent == self.buffer.len() && !self.flushing {
            return Poll::Ready(Ok(()));
        }
        if basis.newest_seen > self.durable {
            ready!(self.poll_durable(basis.newest_seen, context))?;
        }
        if let Some(asked) = basis
            .confirmation
            .filter(|asked| Some(*asked) > self.confirmed)
        {
            ready!(self.poll_confirmed(asked, context))?;
        }
        self.vouched = self.buffer.len();
        while self.sent < self.buffer.len() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.buffer[self.sent..]);
            let Poll::Ready(written) = written else {
                self.show(AnswerWait::Client);
                return Poll::Pending;
            };
            match written {
                Ok(count @ 1..) => {
                    self.sent += count;
                    self.sheet.sent(count);
                }
                Ok(0) | Err(_) => return Poll::Ready(self.lose(Lost::Client)),
            }
            self.flushing = true;
        }
        if ready!(Pin::new(&mut self.stream).poll_flush(context)).is_err() {
            return Poll::Ready(self.lose(Lost::Client));
        }
        self.flushing = false;
        self.sent = 0;
        self.vouched = 0;
        self.show(AnswerWait::None);
        if self.buffer.capacity() > KEPT.max(2 * self.high_water) {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing can be said any more, and closes: a message that depends on no
    /// data, and so need not wait for any. Not where a message has left in part.
    pub(crate) async fn say_last(&mut self, error: &Error) {
        if self.broken_off {
            return;
        }
        let mut message = Vec::new();
        report::fatal(&mut message, error);
        let stream = &mut self.stream;
        let said = async {
            stream.write_all(&message).await?;
            stream.shutdown().await
        };
        // A client that takes nothing shall not keep a stopping server.
        let _ = coeval_env::timeout(Duration::from_secs(5), said).await;
    }

    /// Nothing more is sent; with TLS, the client is told so, and need not take the end
    /// for an attack.
    pub(crate) async fn close(&mut self) {
        if self.lost.is_none() {
            let stream = &mut self.stream;
            let closed =
                std::future::poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context));
            let _ = closed.await;
        }
    }

    fn poll_durable(
        &mut self,
        newest_seen: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ()>> {
        let Poll::Ready(durable) = self.engine.poll_durable(newest_seen, context) else {
            if self.waiting.is_none() {
                self.waiting = Some(coeval_env::now());
                self.show(AnswerWait::Durable);
            }
            return Poll::Pending;
        };
        if let Some(since) = self.waiting.take() {
            self.sheet.waited_for_durability(since.elapsed());
            self.show(AnswerWait::None);
        }
        Poll::Ready(match durable {
            Ok(()) => {
                self.durable = newest_seen;
                Ok(())
            }
            Err(error) => self.lose(Lost::Engine(error)),
        })
    }

    fn poll_confirmed(
        &mut self,
        asked: Confirmation,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ()>> {
        let Poll::Ready(confirmed) = self.engine.poll_confirmed(asked, context) else {
            if self.waiting.is_none() {
                self.waiting = Some(coeval_env::now());
                self.show(AnswerWait::Confirmation);
            }
            return Poll::Pending;
        };
        if let Some(since) = self.waiting.take() {
            self.sheet.waited_for_confirmation(since.elapsed());
            self.show(AnswerWait::None);
        }
        Poll::Ready(match confirmed {
            Ok(()) => {
                self.confirmed = Some(asked);
                Ok(())
            }
            Err(error) => self.lose(Lost::Engine(error)),
        })
    }

    fn lose(&mut self, lost: Lost) -> Result<(), ()> {
        self.broken_off = self.sent > 0 && self.sent < self.buffer.len();
        self.buffer.truncate(self.vouched);
        self.lost = Some(lost);
        Err(())
    }

    /// Bytes that have to leave before anything else, and depend on nothing here.
    pub(crate) fn begin_with(&mut self, rest: Vec<u8>) {
        self.vouched = rest.len();
        self.buffer = rest;
    }

    /// The stream, and what of the answers may still leave on it: what began to leave
    /// before the engine was lost, to its end.
    pub(crate) fn into_rest(mut self) -> (WriteHalf, Vec<u8>) {
        self.buffer.truncate(self.vouched);
        self.buffer.drain(..self.sent.min(self.vouched));
        (self.stream, self.buffer)
    }

    /// Whether all that depends on this is known to be durable.
    pub(crate) fn knows_durable(&self, timestamp: Timestamp) -> bool {
        timestamp <= self.durable
    }

    /// From here on, answers belong to one execution.
    pub(crate) fn begin_execution(&mut self) {
        self.execution = self.buffer.len();
        self.rows_bytes = 0;
        self.notices.clear();
    }

    /// Why the last flush failed.
    pub(crate) fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    /// The error of a row that could not be sent since the last call.
    pub(crate) fn take_unsendable(&mut self) -> Option<Error> {
        self.unsendable.take()
    }

    /// Whether so much is waiting that it should be sent before more is made.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() - self.sent >= self.high_water
    }

    /// Ends the data of a COPY to the client, if one runs.
    pub(crate) fn end_copy_out(&mut self, complete: bool) {
        if std::mem::take(&mut self.copying) && complete {
            hot::copy_done(&mut self.buffer);
        }
    }

    fn keep(&mut self, written: Result<(), coeval_pgwire::Error>) {
        if let Err(error) = written {
            self.unsendable = Some(report::from_wire(&error));
        }
    }

    /// Counts a row or line that begins at `start` of the buffer.
    fn count(&mut self, start: usize) {
        self.rows_bytes += (self.buffer.len() - start) as u64;
        if self.most > 0 && self.rows_bytes > self.most && self.unsendable.is_none() {
            self.unsendable = Some(over_limit(
                "a result of more bytes",
                self.most,
                "max_result_bytes",
                "Ask for fewer rows, or for some at a time",
            ));
        }
    }
}

impl Sink for Output {
    /// The columns were described before the portal ran, if the client wants that.
    fn columns(&mut self, _columns: &[Column], _formats: &[Format]) {}

    fn row(&mut self, row: OutputRow<'_>) {
        // The statement fails as soon as it looks; until then nothing piles up.
        if self.unsendable.is_some() {
            return;
        }
        let start = self.buffer.len();
        let columns = u16::try_from(row.len()).unwrap_or(u16::MAX);
        let mut writer = RowWriter::data_row(&mut self.buffer, columns);
        for column in 0..usize::from(columns) {
            writer.optional(|bytes| row.write(column, bytes));
        }
        let written = writer.finish();
        self.keep(written);
        self.count(start);
    }

    fn refused(&mut self) -> Option<Error> {
        self.take_unsendable()
    }

    fn restart(&mut self) {
        self.buffer.truncate(self.execution);
        self.buffer.extend_from_slice(&self.notices);
        self.rows_bytes = 0;
        self.unsendable = None;
        self.copying = false;
    }

    fn notice(&mut self, notice: Notice) {
        let start = self.buffer.len();
        report::notice(&mut self.buffer, &notice);
        self.notices.extend_from_slice(&self.buffer[start..]);
    }

    fn copy_out(&mut self, columns: usize) {
        let format = coeval_pgwire::frontend::Format::Text;
        let written = cold::copy_out_response(&mut self.buffer, format, columns);
        self.copying = written.is_ok();
        self.keep(written);
    }

    fn copy_data(&mut self, data: &[u8]) {
        if self.unsendable.is_some() {
            return;
        }
        let start = self.buffer.len();
        let mut writer = RowWriter::copy_data(&mut self.buffer);
        writer.bytes().extend_from_slice(data);
        let written = writer.finish();
        self.keep(written);
        self.count(start);
    }

    fn poll_drain(&mut self, basis: Basis, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.unsendable.take() {
            return Poll::Ready(Err(error));
        }
        if !self.is_full() {
            return Poll::Ready(Ok(()));
        }
        if self.signal.is_canceled() {
            return Poll::Ready(Err(Error::canceled()));
        }
        let flushed = ready!(self.poll_flush(basis, context));
        Poll::Ready(flushed.map_err(|()| {
            let gone = "the client takes no more results";
            Error::new(SqlState("08006"), gone)
        }))
    }
}
