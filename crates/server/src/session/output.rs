//! The output buffer of a session: holds its answers until the client may see them.
//!
//! Answers collect in one buffer, and leave in one write when the client waits for them:
//! at Sync, at Flush, at the end of a simple query, or when the buffer is full. The one
//! rule: **no byte leaves before the newest commit that any answer so far depends on is
//! durable, and, for answers that only read in a cluster, before a quorum has confirmed
//! that this node still leads**. Errors and notices depend on data too, and rows of a
//! long result as much as its end, so every answer goes through [`Output::poll_flush`].
//!
//! While a statement runs, it writes its result to the output, as its [`Sink`]. A client
//! that does not read its rows stops the statement in [`Sink::poll_drain`], not the
//! server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use coeval_pgwire::backend::{RowWriter, cold, hot};
use coeval_sql::instance::activity::{Activity, AnswerWait};
use coeval_sql::instance::over_limit;
use coeval_sql::output::{Column, Format, Notice, OutputRow, Sink};
use coeval_sql::value::Encoding;
use coeval_sql::{Error, SqlState};
use coeval_txn::{Confirmation, Engine, ResponseDependencies};
use coeval_types::Timestamp;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::signal::Signal;
use super::transport::WriteHalf;
use super::{report, transcode};
use crate::metrics::Sheet;

/// An empty buffer larger than this, in bytes, is freed.
const KEPT: usize = 256 << 10;

/// Why the session can send nothing more.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The client has closed the connection.
    Client,
    /// The engine cannot make commits durable any more.
    Engine(coeval_txn::Error),
}

/// A cycle whose answers leave on a stream that was lent for it.
#[derive(Clone, Copy, Debug, Default)]
struct Lent {
    /// Number of bytes at the beginning of the buffer that were there before.
    rest: usize,
    /// Whether an answer may have left.
    left: bool,
    /// Whether answers are held back, because another node may have to answer.
    holds: bool,
}

/// A stream to the client, and what was not sent on it yet.
pub(super) struct Stream {
    pub(super) half: WriteHalf,
    /// Bytes that leave first.
    pub(super) rest: Vec<u8>,
    /// Whether the stream may still buffer written bytes.
    pub(super) flushing: bool,
}

/// The sending side of a connection.
pub(crate) struct Output {
    /// Answers: the first `sent` bytes are sent, and the first `vouched` bytes may be
    /// sent.
    pub(crate) buffer: Vec<u8>,
    sent: usize,
    vouched: usize,
    /// The first bytes of the buffer that are in the client's encoding.
    transcoded: usize,
    /// The client's encoding.
    pub(super) encoding: Encoding,
    /// Whether the stream may still buffer written bytes.
    flushing: bool,
    /// A statement waits while the buffer holds more than this, in bytes.
    high_water: usize,
    stream: WriteHalf,
    pub(super) engine: Arc<dyn Engine>,
    signal: Arc<Signal>,
    /// The timestamp up to which all commits are known to be durable.
    durable: Timestamp,
    /// The newest confirmed read index: leadership is confirmed for every read before it.
    confirmed: Option<Confirmation>,
    /// Offset of the current execution's answers, and the notices among them: on a retry
    /// the buffer is cut there, and the notices are kept.
    execution: usize,
    notices: Vec<u8>,
    /// Maximum bytes of rows that an execution may send; 0 for no limit.
    most: u64,
    /// Bytes of rows that the current execution has sent.
    rows_bytes: u64,
    /// The error of a row that could not be encoded: the statement must fail.
    unsendable: Option<Error>,
    /// Whether a COPY to the client has begun and not ended.
    copying: bool,
    lost: Option<Lost>,
    /// Whether the client has received a message only in part, and its rest is lost.
    broken_off: bool,
    /// The cycle that is answered on a stream that was lent for it.
    lent: Lent,
    /// Answers of a cycle that has not ended, while the stream is not lent.
    unsent: Vec<u8>,
    sheet: Arc<Sheet>,
    /// Where the session shows in `pg_stat_activity` that an answer waits.
    activity: Option<Arc<Activity>>,
    /// When the current answer began to wait for durability, or for the confirmation
    /// after it.
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
            transcoded: 0,
            encoding: Encoding::default(),
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
            lent: Lent::default(),
            unsent: Vec::new(),
            sheet,
            activity: None,
            waiting: None,
        }
    }

    pub(crate) fn sheet(&self) -> &Arc<Sheet> {
        &self.sheet
    }

    /// Shows waits of answers in this session's activity from now on.
    pub(crate) fn show_on(&mut self, activity: &Arc<Activity>) {
        self.activity = Some(Arc::clone(activity));
    }

    fn show(&self, wait: AnswerWait) {
        if let Some(activity) = &self.activity {
            activity.answer_waits(wait);
        }
    }

    /// Sends all answers, once the commits and the leadership that they depend on are
    /// confirmed.
    pub(crate) async fn flush(
        &mut self,
        dependencies: impl Into<ResponseDependencies>,
    ) -> Result<(), ()> {
        let dependencies = dependencies.into();
        std::future::poll_fn(|context| self.poll_flush(dependencies, context)).await
    }

    /// Converts the answers since the last call to the client's encoding.
    fn transcode(&mut self) {
        if self.encoding.converts() {
            let start = self.transcoded.min(self.buffer.len());
            transcode::answered(&mut self.buffer, start, self.encoding);
        }
        self.transcoded = self.buffer.len();
    }

    /// Polls [`Output::flush`]. After an error, which [`Output::take_lost`] explains, the
    /// session sends nothing more.
    pub(crate) fn poll_flush(
        &mut self,
        dependencies: ResponseDependencies,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ()>> {
        if self.lost.is_some() {
            return Poll::Ready(Err(()));
        }
        if self.sent == self.buffer.len() && !self.flushing {
            return Poll::Ready(Ok(()));
        }
        if dependencies.newest_seen > self.durable {
            ready!(self.poll_durable(dependencies.newest_seen, context))?;
        }
        if let Some(asked) = dependencies
            .confirmation
            .filter(|asked| Some(*asked) > self.confirmed)
        {
            ready!(self.poll_confirmed(asked, context))?;
        }
        self.transcode();
        self.vouched = self.buffer.len();
        self.lent.left |= self.vouched > self.lent.rest;
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
        self.transcoded = 0;
        self.lent.rest = 0;
        self.show(AnswerWait::None);
        if self.buffer.capacity() > KEPT.max(2 * self.high_water) {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
        Poll::Ready(Ok(()))
    }

    /// Sends a final error and closes the connection. The error depends on no data, so it
    /// need not wait. It is not sent after a message that was sent in part.
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
        // A client that does not read must not delay a stopping server.
        let _ = coeval_env::timeout(Duration::from_secs(5), said).await;
    }

    /// Closes the connection; with TLS, by `close_notify`, so that the client can tell
    /// the end from a truncation attack.
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

    /// Puts bytes at the beginning that depend on no commit of this engine.
    pub(crate) fn begin_with(&mut self, rest: Vec<u8>) {
        self.vouched = rest.len();
        self.transcoded = rest.len();
        self.buffer = rest;
    }

    /// The stream, and the answers that may still be sent on it: those that began to
    /// leave before the engine was lost, to their end.
    pub(crate) fn into_rest(mut self) -> (WriteHalf, Vec<u8>) {
        self.buffer.truncate(self.vouched);
        self.buffer.drain(..self.sent.min(self.vouched));
        (self.stream, self.buffer)
    }

    /// Takes the client's stream for one cycle, or a part of it. `holds` says that its answers
    /// are held back at first.
    pub(super) fn lend(&mut self, stream: Stream, holds: bool) {
        self.stream = stream.half;
        self.flushing = stream.flushing;
        (self.sent, self.execution) = (0, 0);
        self.vouched = stream.rest.len();
        self.transcoded = stream.rest.len();
        self.buffer = stream.rest;
        self.buffer.append(&mut self.unsent);
        self.lost = None;
        (self.copying, self.unsendable) = (false, None);
        self.lent = Lent {
            rest: self.vouched,
            left: false,
            holds,
        };
    }

    /// Gives the stream back. Answers that began to leave are its rest; others are dropped, or
    /// kept for when the stream is lent for the rest of the cycle.
    pub(super) fn give_back(&mut self, keeps: bool) -> Stream {
        // Splitting at the beginning would allocate another buffer for each cycle.
        if keeps && self.buffer.len() > self.vouched {
            self.unsent = self.buffer.split_off(self.vouched);
        }
        self.withdraw();
        let mut rest = std::mem::take(&mut self.buffer);
        rest.drain(..self.sent.min(self.vouched));
        (self.sent, self.vouched, self.transcoded) = (0, 0, 0);
        Stream {
            half: std::mem::replace(&mut self.stream, WriteHalf::Lent),
            rest,
            flushing: self.flushing,
        }
    }

    /// Lets answers leave: this node answers the cycle.
    pub(super) fn lift(&mut self) {
        self.lent.holds = false;
    }

    /// Whether answers are held back.
    pub(super) const fn holds(&self) -> bool {
        self.lent.holds
    }

    /// Whether an answer may have left since the stream was lent.
    pub(super) const fn has_left(&self) -> bool {
        self.lent.left
    }

    /// Whether all commits up to this timestamp are known to be durable.
    pub(crate) fn knows_durable(&self, timestamp: Timestamp) -> bool {
        timestamp <= self.durable
    }

    /// Marks the beginning of an execution's answers.
    pub(crate) fn begin_execution(&mut self) {
        self.execution = self.buffer.len();
        self.rows_bytes = 0;
        self.notices.clear();
    }

    /// Whether the answers wait for the engine, and not for the client.
    pub(crate) const fn waits_for_engine(&self) -> bool {
        self.waiting.is_some()
    }

    /// Drops the answers that wait for the engine.
    pub(crate) fn withdraw(&mut self) {
        self.buffer.truncate(self.vouched);
        self.copying = false;
        if self.waiting.take().is_some() {
            self.show(AnswerWait::None);
        }
    }

    /// Takes the reason why the last flush failed.
    pub(crate) fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    /// Takes the error of a row that could not be sent since the last call.
    pub(crate) fn take_unsendable(&mut self) -> Option<Error> {
        self.unsendable.take()
    }

    /// Whether the buffer holds so much that it should be sent first.
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

    /// Counts a row or line that begins at offset `start` of the buffer.
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

/// The answers that are held back do not fit into the buffer: the leader answers.
fn held_too_much() -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "the answers before the last statement are too long to be held back",
    )
}

impl Sink for Output {
    /// Columns are described before the portal runs, if the client asks for that.
    fn columns(&mut self, _columns: &[Column], _formats: &[Format]) {}

    fn row(&mut self, row: OutputRow<'_>) {
        // The statement fails when it next checks; until then its rows are dropped.
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
        self.transcoded = self.transcoded.min(self.execution);
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

    fn poll_drain(
        &mut self,
        dependencies: ResponseDependencies,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if let Some(error) = self.unsendable.take() {
            return Poll::Ready(Err(error));
        }
        if !self.is_full() {
            return Poll::Ready(Ok(()));
        }
        if self.signal.is_canceled() {
            return Poll::Ready(Err(Error::canceled()));
        }
        if self.holds() {
            return Poll::Ready(Err(held_too_much()));
        }
        let flushed = ready!(self.poll_flush(dependencies, context));
        Poll::Ready(flushed.map_err(|()| {
            let gone = "the client takes no more results";
            Error::new(SqlState("08006"), gone)
        }))
    }
}
