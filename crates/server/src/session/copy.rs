//! COPY FROM STDIN: the server receives data until the client ends them.

use coeval_pgwire::Frame;
use coeval_pgwire::backend::cold;
use coeval_pgwire::frontend::{Format, Message};
use coeval_sql::Error;
use coeval_sql::output::Completion;

use super::conversation::Conversation;
use super::input::Watch;
use super::notes::statement_ended;
use super::{Ended, report};

impl Conversation {
    /// Asks the client to send data. The session must flush its answers before the next
    /// read, or both sides would wait for each other.
    pub(super) fn begin_copy_in(&mut self, columns: usize) -> Result<(), Error> {
        let out = &mut self.output.buffer;
        if let Err(error) = cold::copy_in_response(out, Format::Text, columns) {
            self.session.fail();
            return Err(report::from_wire(&error));
        }
        self.owed.begin_copy();
        Ok(())
    }

    /// Handles one message while a COPY FROM STDIN runs.
    pub(super) async fn copy_in(
        &mut self,
        frame: Frame<'_>,
        watch: &mut Watch,
    ) -> Result<(), Ended> {
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(error) => {
                let error = report::from_wire(&error);
                let _ = self.session.copy_fail(&error.report().message);
                return self.copy_failed(&error, watch).await;
            }
        };
        let failed = match message {
            Message::CopyData(data) => {
                let taken = watch.over(&self.signal, self.session.copy_data(data)).await;
                match taken {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            Message::CopyDone => match self.end_copy_in(watch).await {
                Ok(()) if self.owed.is_query() => return self.go_on(watch).await,
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Message::CopyFail(reason) => self.session.copy_fail(reason),
            // A client that pipelines these messages does not break the protocol.
            Message::Flush => return self.flush(watch).await,
            Message::Sync => return Ok(()),
            Message::Terminate => return Err(Ended::ByClient),
            _ => {
                let error = report::violation(format!(
                    "unexpected message type 0x{:02X} during COPY from stdin",
                    frame.kind
                ));
                let _ = self.session.copy_fail(&error.report().message);
                error
            }
        };
        self.copy_failed(&failed, watch).await
    }

    async fn end_copy_in(&mut self, watch: &mut Watch) -> Result<(), Error> {
        self.owed.end_copy();
        let done = watch.over(&self.signal, self.session.copy_done()).await;
        self.copy_ended(done.as_ref());
        let done = done?;
        let last = self.owed.is_query() && self.rest.is_empty();
        self.complete(done, last, watch).await
    }

    async fn copy_failed(&mut self, error: &Error, watch: &mut Watch) -> Result<(), Ended> {
        self.owed.end_copy();
        self.copy_ended(Err(error));
        self.failed(error, watch).await
    }

    pub(super) fn copy_ended(&mut self, result: Result<&Completion, &Error>) {
        if let Some((statement, began)) = self.copying.take() {
            let notes = (&mut self.clock, &*self.sheet, &self.session);
            statement_ended(&statement, began, result, None, notes);
        }
    }
}
