//! The extended query protocol: a client prepares a statement once, and binds and
//! executes it many times.

use std::num::NonZeroU32;
use std::sync::Arc;

use coeval_pgwire::backend::{self, cold, hot};
use coeval_pgwire::frontend::{self, Bind, DescribeTarget, FormatCodes, Parameter, Parse};
use coeval_sql::instance::over_limit;
use coeval_sql::output::{Column, CommandTag, Completion, Format};
use coeval_sql::session::{Portal, Prepared};
use coeval_sql::statement::Statement;
use coeval_sql::{Error, SqlState};

use super::conversation::Conversation;
use super::input::Watch;
use super::notes::statement_ended;
use super::report;
use crate::audit;

/// Up to this many parameters or columns are bound without a heap allocation.
const FEW: usize = 16;

impl Conversation {
    pub(super) async fn parse(
        &mut self,
        parse: &Parse<'_>,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        let prepared = self.prepare(parse, watch).await;
        let named = prepared.and_then(|prepared| self.session.name(parse.statement, prepared));
        named.inspect_err(|_| {
            self.session.fail();
            // The text of the statement that failed, for the log.
            self.session.announce(parse.query);
        })?;
        self.tell_node();
        hot::parse_complete(&mut self.output.buffer);
        Ok(())
    }

    async fn prepare(
        &mut self,
        parse: &Parse<'_>,
        watch: &mut Watch,
    ) -> Result<Arc<Prepared>, Error> {
        if parse.statement.is_empty() {
            self.session.forget("");
        } else {
            self.session.check_name(parse.statement)?;
        }
        let read = self.session.read(parse.query);
        let mut statements = watch.over(&self.signal, read).await?.into_iter();
        let statement = statements.next().unwrap_or_else(Statement::empty);
        if statements.next().is_some() {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::syntax(message));
        }
        self.check_home(&statement)?;
        let types: Vec<u32> = parse.parameter_types().collect();
        let preparation = self.session.prepare(statement, &types);
        watch.over(&self.signal, preparation).await
    }

    /// Prepares the statement of this name here, if the session prepared it on another
    /// node.
    pub(super) async fn wake(&mut self, name: &str, watch: &mut Watch) -> Result<(), Error> {
        if self.session.is_asleep(name) {
            watch.over(&self.signal, self.session.wake(name)).await?;
        }
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Error> {
        self.try_bind(bind).inspect_err(|_| {
            self.session.fail();
            let prepared = self.session.named(bind.statement).map(Arc::clone);
            let text = prepared.as_ref().map_or("", |prepared| prepared.text());
            self.session.announce(text);
        })
    }

    fn try_bind(&mut self, bind: &Bind<'_>) -> Result<(), Error> {
        let prepared = Arc::clone(self.session.named(bind.statement)?);
        if let Some(name) = prepared.moved_cursor() {
            self.give_portal(name);
        }
        if !bind.portal.is_empty() {
            let is_cursor = self.session.has_cursor(bind.portal);
            if is_cursor || self.portals.named.contains_key(bind.portal) {
                let message = format!("cursor \"{}\" already exists", bind.portal);
                return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
            }
            if self.portals.named.len() >= self.limits.prepared_statements {
                return Err(self.too_many("portals"));
            }
        }
        let count = bind.parameters().len();
        let needed = prepared.parameter_types().len();
        if count != needed {
            let name = bind.statement;
            return Err(report::violation(format!(
                "bind message supplies {count} parameters, but prepared statement \"{name}\" requires {needed}"
            )));
        }
        let columns = prepared.columns().map_or(0, <[Column]>::len);
        if !bind.result_formats.fits(columns) {
            return Err(report::violation(format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.result_formats.len()
            )));
        }
        let values = bind.parameters().map(|parameter| match parameter {
            Parameter::Null => None,
            Parameter::Text(text) => Some(text.as_bytes()),
            Parameter::Binary(bytes) => Some(bytes),
        });
        let (mut few_values, many_values);
        let values: &[Option<&[u8]>] = if count <= FEW {
            few_values = [None; FEW];
            few_values
                .iter_mut()
                .zip(values)
                .for_each(|(place, value)| *place = value);
            &few_values[..count]
        } else {
            many_values = values.collect::<Vec<_>>();
            &many_values
        };
        let session = &mut self.session;
        let portal = with_formats(bind.parameter_formats(), |formats| {
            with_formats(bind.result_formats, |result_formats| {
                session.bind(&prepared, values, formats, result_formats)
            })
        })?;
        let mut portal = portal;
        if !bind.portal.is_empty() {
            self.session.charge_portal(&mut portal)?;
            self.session.note_portal(bind.portal, true);
        }
        self.portals.insert(bind.portal, portal);
        hot::bind_complete(&mut self.output.buffer);
        Ok(())
    }

    pub(super) fn describe(&mut self, target: DescribeTarget, name: &str) -> Result<(), Error> {
        self.try_describe(target, name)
            .inspect_err(|_| self.session.fail())
    }

    fn try_describe(&mut self, target: DescribeTarget, name: &str) -> Result<(), Error> {
        match target {
            DescribeTarget::Statement => {
                let prepared = Arc::clone(self.session.named(name)?);
                if prepared.columns().is_some() {
                    self.session.check_not_failed()?;
                }
                let out = &mut self.output.buffer;
                cold::parameter_description(out, prepared.parameter_types())
                    .map_err(|error| report::from_wire(&error))?;
                match prepared.columns() {
                    Some(columns) => describe_row(out, columns, &[]),
                    None => {
                        hot::no_data(out);
                        Ok(())
                    }
                }
            }
            DescribeTarget::Portal => {
                let out = &mut self.output.buffer;
                let Some(portal) = self.portals.get_mut(name) else {
                    self.session.check_not_failed()?;
                    let cursor = self.session.cursor_columns(name);
                    let (columns, formats) = cursor.ok_or_else(|| no_portal(name))?;
                    return describe_row(out, columns, &formats);
                };
                match portal.columns() {
                    Some(columns) => {
                        self.session.check_not_failed()?;
                        describe_row(out, columns, portal.formats())
                    }
                    None => {
                        hot::no_data(out);
                        Ok(())
                    }
                }
            }
        }
    }

    pub(super) async fn execute(
        &mut self,
        name: &str,
        max_rows: Option<u32>,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        if self.suspended {
            let portal = self.portals.get_mut(name);
            if portal.is_some_and(|portal| portal.disturbs()) {
                self.settle_portals(Some(name), watch).await?;
            }
        }
        let limit = max_rows.and_then(NonZeroU32::new);
        let mut of_cursor;
        let portal = match self.portals.get_mut(name) {
            Some(portal) => portal,
            None => {
                let session = &mut self.session;
                let cursor = session.cursor_portal(name, limit);
                let found = cursor.and_then(|cursor| match cursor {
                    Some(cursor) => Ok(cursor),
                    None => session.check_portals_kept().and(Err(no_portal(name))),
                });
                of_cursor = found.inspect_err(|_| session.fail())?;
                &mut of_cursor
            }
        };
        if self.before_sync {
            self.session.expect_finish();
        }
        self.session.announce(portal.statement().text());
        self.output.begin_execution();
        if self.reading.executes() {
            self.output.lift();
        }
        let began = self.clock.statement_began();
        let execution = self.session.execute(portal, limit, &mut self.output);
        let result = watch.over(&self.signal, execution).await;
        audit::ran(&self.client, self.session.user(), portal, &result);
        let statement = portal.statement();
        let notes = (&mut self.clock, &*self.sheet, &self.session);
        statement_ended(statement, began, result.as_ref(), max_rows, notes);
        let completion = result?;
        if matches!(completion, Completion::CopyIn { .. }) {
            self.copying = Some((statement.clone(), began));
        }
        self.complete(completion, false, watch).await
    }

    pub(super) fn close(&mut self, target: DescribeTarget, name: &str) {
        match target {
            DescribeTarget::Statement => {
                self.session.forget(name);
            }
            DescribeTarget::Portal => {
                self.portals.remove(name);
                self.session.note_portal(name, false);
                self.session.close_cursor(name);
            }
        }
        self.tell_node();
        hot::close_complete(&mut self.output.buffer);
    }

    /// Gives the session the portal of this name, if it is a query: FETCH or MOVE names it.
    pub(super) fn give_portal(&mut self, name: &str) {
        let named = &mut self.portals.named;
        if !named.get(name).is_some_and(Portal::is_query) {
            return;
        }
        if let Some(portal) = named.remove(name) {
            self.session.adopt_portal(name, portal);
        }
    }

    fn too_many(&self, what: &str) -> Error {
        let limit = self.limits.prepared_statements;
        over_limit(
            format_args!("a session with {} {what}", limit + 1),
            limit as u64,
            "max_prepared_statements",
            "Close those that are not needed any more",
        )
    }

    /// Writes CommandComplete without a heap allocation.
    pub(super) fn tag(&mut self, tag: CommandTag) {
        let mut text = TagText::default();
        if std::fmt::Write::write_fmt(&mut text, format_args!("{tag}")).is_ok() {
            hot::command_complete(&mut self.output.buffer, text.as_str());
        } else {
            hot::command_complete(&mut self.output.buffer, tag.command);
        }
    }
}

/// A stack buffer for a command tag.
struct TagText {
    bytes: [u8; 64],
    length: usize,
}

impl Default for TagText {
    fn default() -> Self {
        Self {
            bytes: [0; 64],
            length: 0,
        }
    }
}

impl TagText {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl std::fmt::Write for TagText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self
            .bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Calls `with` with the format codes converted to SQL's type.
fn with_formats<T>(codes: FormatCodes<'_>, with: impl FnOnce(&[Format]) -> T) -> T {
    let formats = codes.iter().map(|format| match format {
        frontend::Format::Text => Format::Text,
        frontend::Format::Binary => Format::Binary,
    });
    let count = codes.len();
    if count <= FEW {
        let mut few = [Format::Text; FEW];
        few.iter_mut()
            .zip(formats)
            .for_each(|(place, format)| *place = format);
        with(&few[..count])
    } else {
        with(&formats.collect::<Vec<_>>())
    }
}

/// Writes RowDescription: names and types of the columns. No formats means text.
pub(super) fn describe_row(
    out: &mut Vec<u8>,
    columns: &[Column],
    formats: &[Format],
) -> Result<(), Error> {
    let described = columns.iter().enumerate().map(|(position, column)| {
        let column_type = column.column_type;
        backend::Column {
            name: &column.name,
            table: column.table_oid,
            number: column.attribute,
            data_type: column_type.data_type.oid(),
            size: column_type.data_type.length(),
            modifier: column_type.modifier,
            format: match formats.get(position) {
                Some(Format::Binary) => frontend::Format::Binary,
                Some(Format::Text) | None => frontend::Format::Text,
            },
        }
    });
    backend::row_description(out, described).map_err(|error| report::from_wire(&error))
}

fn no_portal(name: &str) -> Error {
    let message = format!("portal \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, message)
}
