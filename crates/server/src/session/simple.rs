//! The simple query protocol: runs every statement of a query string, and sends one
//! answer.

use coeval_pgwire::backend::hot;
use coeval_sql::output::Completion;
use coeval_sql::session::Portal;
use coeval_sql::statement::Statement;
use coeval_sql::{Error, SqlState};

use super::Ended;
use super::conversation::Conversation;
use super::input::Watch;
use super::notes::statement_ended;
use crate::audit;

impl Conversation {
    /// Runs a query string.
    pub(super) async fn query(&mut self, text: &str, watch: &mut Watch) -> Result<(), Ended> {
        // The unnamed statement and portal end with the next simple query.
        self.session.forget("");
        self.portals.unnamed = None;
        self.session.announce(text);
        match watch.over(&self.signal, self.session.recall(text)).await {
            Ok(Some(portal)) => {
                return match self.run_portal(portal, true, watch).await {
                    Ok(()) => self.ready(watch).await,
                    Err(error) => self.failed(&error, watch).await,
                };
            }
            Ok(None) => {}
            Err(error) => return self.failed(&error, watch).await,
        }
        let read = self.session.read_sequence(text);
        match watch.over(&self.signal, read).await {
            Ok(statements) if statements.is_empty() => {
                hot::empty_query_response(&mut self.output.buffer);
                self.ready(watch).await
            }
            Ok(statements) => {
                self.rest = statements;
                self.go_on(watch).await
            }
            Err(error) => {
                self.session.fail();
                self.failed(&error, watch).await
            }
        }
    }

    /// Runs the remaining statements of a query string.
    pub(super) async fn go_on(&mut self, watch: &mut Watch) -> Result<(), Ended> {
        loop {
            let next = self.session.next_of(&mut self.rest);
            let Some(statement) = watch.over(&self.signal, next).await else {
                break;
            };
            let last = self.rest.is_empty();
            let statement = statement.inspect_err(|_| self.session.fail());
            let ran = match statement {
                Ok(statement) => self.run_statement(statement, last, watch).await,
                Err(error) => Err(error),
            };
            match ran {
                Ok(()) if self.owed.is_copying() => return self.flush(watch).await,
                Ok(()) => {}
                Err(error) => return self.failed(&error, watch).await,
            }
            if self.output.is_full() {
                self.flush(watch).await?;
            }
        }
        self.ready(watch).await
    }

    async fn run_statement(
        &mut self,
        statement: Statement,
        last: bool,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        let here = self.check_home(&statement);
        here.inspect_err(|_| self.session.fail())?;
        if let Some(name) = statement.moved_cursor() {
            self.give_portal(name);
        }
        let Self {
            session, signal, ..
        } = self;
        let prepared = watch.over(signal, session.prepare(statement, &[])).await;
        let prepared = prepared.inspect_err(|_| session.fail())?;
        if !prepared.parameter_types().is_empty() {
            session.fail();
            let message = "there is no parameter $1";
            return Err(Error::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        let portal = session.bind(&prepared, &[], &[], &[]);
        let portal = portal.inspect_err(|_| session.fail())?;
        self.run_portal(portal, last, watch).await
    }

    async fn run_portal(
        &mut self,
        mut portal: Portal,
        last: bool,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        if self.suspended && portal.disturbs() {
            self.settle_portals(None, watch).await?;
        }
        let Self {
            session,
            output,
            signal,
            client,
            clock,
            sheet,
            ..
        } = self;
        let began = clock.statement_began();
        if let Some(columns) = portal.columns() {
            super::extended::describe_row(&mut output.buffer, columns, portal.formats())
                .inspect_err(|_| session.fail())?;
        }
        if last {
            session.expect_finish();
            output.lift();
        }
        output.begin_execution();
        let execution = session.execute(&mut portal, None, output);
        let result = watch.over(signal, execution).await;
        audit::ran(client, session.user(), &portal, &result);
        let statement = portal.statement();
        let notes = (clock, &**sheet, &*session);
        statement_ended(statement, began, result.as_ref(), None, notes);
        let completion = result?;
        if matches!(completion, Completion::CopyIn { .. }) {
            self.copying = Some((statement.clone(), began));
        }
        self.complete(completion, last, watch).await
    }

    /// Writes the answer of a statement that has ended, or that asks for its data. The
    /// last statement of a query string is complete only when its transaction is.
    pub(super) async fn complete(
        &mut self,
        completion: Completion,
        last: bool,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        if let Some(error) = self.output.take_unsendable() {
            self.session.fail();
            return Err(error);
        }
        match completion {
            Completion::Complete(tag) => {
                self.output.end_copy_out(true);
                if last {
                    watch.over(&self.signal, self.session.finish()).await?;
                }
                self.tell_node();
                self.tag(tag);
            }
            Completion::Empty => hot::empty_query_response(&mut self.output.buffer),
            Completion::Suspended => {
                self.suspended = true;
                hot::portal_suspended(&mut self.output.buffer);
            }
            Completion::CopyIn { columns } => self.begin_copy_in(columns)?,
        }
        Ok(())
    }
}
