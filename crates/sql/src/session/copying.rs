//! COPY within a session: its start, its data from the client, and its end.

use std::sync::Arc;

use coeval_txn::ResponseDependencies;

use super::Session;
use super::read_confirmation::Open;
use super::result_writer::drain;
use super::run::Started;
use crate::catalog::Catalog;
use crate::change::lock_for_write;
use crate::copy::{CopyIn, CopyOutPlan, CopyPlan, LineWriter};
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::instance::within;
use crate::output::{CommandTag, Completion, Sink};
use crate::select::Cursor;
use crate::value::Encoding;

/// Number of lines written between two checks for back-pressure.
const LINES_BETWEEN_DRAINS: u64 = 128;

impl Session {
    pub(super) async fn start_copy(
        &mut self,
        plan: &Arc<CopyPlan>,
        catalog: &Arc<Catalog>,
        sink: &mut dyn Sink,
    ) -> Result<Started> {
        let into = match &**plan {
            CopyPlan::Out(out) => {
                let tag = self.copy_out(out, catalog, sink).await?;
                return Ok(Started::Completed(Completion::Complete(tag)));
            }
            CopyPlan::In(into) => into,
        };
        let is_temporary = into.table.is_temporary();
        if !is_temporary {
            self.require_writable("COPY FROM")?;
        }
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        if !is_temporary {
            running.note_write(false);
        }
        let mut context =
            EvaluationContext::new(&self.info, catalog, &[], Some(&mut *running.transaction));
        if !lock_for_write(&into.table, &mut context).await? {
            return Ok(Started::Outdated);
        }
        let copy = CopyIn::new(plan, catalog)
            .ok_or_else(|| Error::internal("a COPY in the wrong direction"))?;
        let columns = copy.columns();
        self.copy = Some(copy);
        Ok(Started::Completed(Completion::CopyIn { columns }))
    }

    async fn copy_out(
        &mut self,
        plan: &CopyOutPlan,
        catalog: &Arc<Catalog>,
        sink: &mut dyn Sink,
    ) -> Result<CommandTag> {
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        let open = Open::of(self.block, running);
        let columns = plan.query.columns();
        let mut writer = LineWriter::new(&plan.format, columns, self.info.style);
        sink.copy_out(columns.len());
        let encoding = self.settings.parsed().client_encoding;
        let encoding = plan.format.encoding.unwrap_or(encoding);
        if plan.format.header {
            send_line(sink, writer.header(), encoding)?;
        }
        let mut context =
            EvaluationContext::new(&self.info, catalog, &[], Some(&mut *running.transaction));
        context.settings = Some(&viewer);
        context.engine = Some(&*self.database.engine);
        let mut cursor = Cursor::new(&plan.query);
        let mut count: u64 = 0;
        let mut row = Vec::new();
        while cursor.next(&mut context, &mut row).await? {
            send_line(sink, writer.row(&row), encoding)?;
            count += 1;
            if count.is_multiple_of(LINES_BETWEEN_DRAINS) {
                let seen = context
                    .reads()?
                    .newest_seen()
                    .max(self.info.numbered.told());
                let engine = &*self.database.engine;
                let dependencies = ResponseDependencies {
                    newest_seen: self.newest_seen.max(seen),
                    confirmation: self.read_confirmation.confirmation(engine, open),
                };
                drain(sink, dependencies, &self.ticket).await?;
            }
        }
        self.take_over(viewer);
        Ok(CommandTag::with_rows("COPY", count))
    }

    /// Takes a part, cut anywhere, of the data for the running COPY FROM STDIN. May wait
    /// for locks. When it fails, the session has already ended the COPY and failed the
    /// transaction.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        self.feed(data, false).await.map(|_| ())
    }

    /// Ends the data of the running COPY FROM STDIN. When it fails, the session has
    /// already failed the transaction.
    pub async fn copy_done(&mut self) -> Result<Completion> {
        let count = self.feed(&[], true).await?;
        self.copy = None;
        Ok(Completion::Complete(CommandTag::with_rows("COPY", count)))
    }

    async fn feed(&mut self, data: &[u8], last: bool) -> Result<u64> {
        // The session gives up its COPY here, so one that fails halfway no longer runs.
        let Some(mut copy) = self.copy.take() else {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "no COPY FROM STDIN runs",
            ));
        };
        self.ticket.resume();
        let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
        let fed = within(deadline, &cancel, self.feed_to(&mut copy, data, last)).await;
        self.pause();
        match fed {
            Ok(()) => {
                let count = copy.count;
                self.copy = Some(copy);
                Ok(count)
            }
            Err(error) => {
                let error = self.explained(error);
                self.fail();
                Err(error)
            }
        }
    }

    async fn feed_to(&mut self, copy: &mut CopyIn, data: &[u8], last: bool) -> Result<()> {
        let catalog = Arc::clone(&copy.catalog);
        let encoding = self.settings.parsed().client_encoding;
        let decoded = copy.encoding().unwrap_or(encoding).decode(data)?;
        let viewer = self.viewer();
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        let mut context =
            EvaluationContext::new(&self.info, &catalog, &[], Some(&mut *running.transaction));
        context.settings = Some(&viewer);
        context.engine = Some(&*self.database.engine);
        copy.take(&decoded, last, &mut context).await?;
        self.take_over(viewer);
        Ok(())
    }

    /// Aborts the running COPY FROM STDIN at the client's request. Returns the error for
    /// the client; the session has already failed the transaction.
    pub fn copy_fail(&mut self, message: &str) -> Error {
        self.fail();
        Error::new(
            SqlState::QUERY_CANCELED,
            format!("COPY from stdin failed: {message}"),
        )
    }
}

/// Sends a line of COPY TO in the client's encoding; error 22P05.
fn send_line(sink: &mut dyn Sink, line: &[u8], encoding: Encoding) -> Result<()> {
    if !encoding.converts() || line.is_ascii() {
        sink.copy_data(line);
        return Ok(());
    }
    encoding.check(&String::from_utf8_lossy(line))?;
    let mut converted = line.to_vec();
    encoding.encode(&mut converted, 0);
    sink.copy_data(&converted);
    Ok(())
}
