//! CREATE TABLE AS and SELECT INTO: a table from the result of a query.
//!
//! The query is planned for its columns, the table is defined, and the query is planned again
//! and run as the source of an INSERT, all in one transaction. Between the two plans the
//! statement has locked the catalog, so the second one is that of the newest schema; if its
//! columns are others than those of the table, the statement fails as one whose plan must not
//! change.

use std::sync::Arc;

use super::Session;
use super::plan::Plan;
use super::run::{MAX_REPLANS, keeps_changing};
use crate::catalog::QualifiedName;
use crate::change::{ChangePlan, Changed};
use crate::error::{Error, Result, SqlState};
use crate::output::{CommandTag, Sink};
use crate::route::{Reason, Route};
use crate::statement::{RowSource, Statement, TableAs};

impl Session {
    /// Runs CREATE TABLE AS or SELECT INTO.
    pub(super) async fn create_table_as(
        &mut self,
        statement: &Statement,
        create: &TableAs,
        sink: &mut dyn Sink,
    ) -> Result<CommandTag> {
        let command = match create.into {
            true => "SELECT INTO",
            false => "CREATE TABLE AS",
        };
        self.require_writable(command)?;
        let began = self.ensure_running().await?;
        self.renew_here(began)?;
        let (source, parameters) = match &create.source {
            RowSource::Query(query) => (self.planned(query.clone(), &[])?.0, Vec::new()),
            RowSource::Execute(name, arguments) => {
                self.wake_within(name).await?;
                let named = Arc::clone(self.named(name)?);
                let parameters = self.arguments(name, &named, arguments, statement).await?;
                (named, parameters)
            }
        };
        if !source.types().is_empty() && parameters.is_empty() {
            return Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                "there is no parameter $1",
            ));
        }
        let not_a_query = || {
            let message = "prepared statement is not a SELECT";
            Error::new(SqlState::WRONG_OBJECT_TYPE, message)
        };
        if !source.has_plan() {
            return Err(not_a_query());
        }
        let columns = source.columns().ok_or_else(not_a_query)?.to_vec();
        let tag = self.define_with(statement, &columns, sink).await?;
        if tag.command != "SELECT" {
            return Ok(tag);
        }
        if source.route() == Route::Leader(Reason::Interrupts) {
            let interrupts = source.interrupts();
            self.find_sessions(&interrupts, &parameters).await;
        }
        for _ in 0..MAX_REPLANS {
            let (catalog, _) = self.current_catalog()?;
            let (plan, locks) = self.current_plan(&source, &catalog, false)?;
            let query = match &*plan {
                Plan::Query(query) => query,
                Plan::With(..) => {
                    let what = format!("{command} of a query that changes rows in WITH");
                    return Err(Error::unsupported(what));
                }
                _ => return Err(not_a_query()),
            };
            if !self.lock_planned(&locks).await? {
                self.running()?.transaction.begin_statement()?;
                continue;
            }
            let name = QualifiedName::new(&create.table.name)?;
            let table = Arc::clone(catalog.named_table(&name)?);
            let change = ChangePlan::fill(table, Arc::clone(query));
            match self.execute_change(&change, &catalog, &parameters).await? {
                Changed::Rows { count, .. } => return Ok(CommandTag::with_rows("SELECT", count)),
                Changed::Outdated => self.running()?.transaction.begin_statement()?,
            }
        }
        Err(keeps_changing())
    }
}
