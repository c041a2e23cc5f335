//! Prepared statements and portals.
//!
//! A statement is planned when it is prepared, and again only when the catalog it
//! is executed under is another one. What clients were told of it, its parameters'
//! types and its columns, never changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use coeval_txn::KeptSnapshot;

use super::output::{Column, CommandTag, Format};
use super::set::{show_columns, text_column};
use super::transaction::Block;
use super::{Session, in_failed_transaction};
use crate::catalog::Catalog;
use crate::change::{self, ChangePlan};
use crate::copy::CopyPlan;
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Parameters, resolve_type};
use crate::select::{self, Cursor, QueryPlan};
use crate::statement::{Command, Statement};
use crate::value::{DataType, Style, Value};

/// A statement whose names and types are resolved.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: Statement,
    /// Types of parameters, as they go to the client.
    parameter_oids: Vec<u32>,
    parameter_types: Vec<DataType>,
    columns: Option<Vec<Column>>,
    /// The plan made last, if the statement has one.
    plan: Mutex<Option<Planned>>,
}

/// A plan and the catalog it holds for.
#[derive(Clone, Debug)]
struct Planned {
    version: u64,
    plan: Arc<Plan>,
}

/// How a statement is executed.
#[derive(Debug)]
pub(super) enum Plan {
    /// SELECT and its like.
    Query(Arc<QueryPlan>),
    /// INSERT, UPDATE, DELETE.
    Change(Box<ChangePlan>),
    /// COPY.
    Copy(Arc<CopyPlan>),
    /// EXPLAIN of one of the above, or of a prepared one.
    Explain(Arc<Plan>),
}

impl Plan {
    fn columns(&self) -> Option<Vec<Column>> {
        match self {
            Self::Query(query) => Some(query.columns().to_vec()),
            Self::Change(change) => change
                .returning
                .as_ref()
                .map(|returning| returning.columns.clone()),
            Self::Copy(_) => None,
            Self::Explain(_) => Some(vec![text_column("QUERY PLAN")]),
        }
    }
}

impl Prepared {
    /// The types of its parameters, as numbers in `pg_type`.
    #[must_use]
    pub fn parameter_types(&self) -> &[u32] {
        &self.parameter_oids
    }

    /// The columns it returns; `None` when it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref()
    }

    /// Whether there is nothing to execute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.statement.command(), Command::Empty)
    }

    /// Whether it is planned, so that its plan depends on the catalog.
    pub(super) fn has_plan(&self) -> bool {
        self.plan
            .lock()
            .expect("no panic while it was held")
            .is_some()
    }

    /// The types of its parameters.
    pub(super) fn types(&self) -> &[DataType] {
        &self.parameter_types
    }

    fn without_plan(statement: Statement, columns: Option<Vec<Column>>) -> Arc<Self> {
        Arc::new(Self {
            statement,
            parameter_oids: Vec::new(),
            parameter_types: Vec::new(),
            columns,
            plan: Mutex::new(None),
        })
    }
}

/// A prepared statement with its parameters, and how far it has come.
#[derive(Debug)]
pub struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Vec<Value>,
    /// One for each column.
    pub(super) formats: Vec<Format>,
    pub(super) progress: Progress,
}

/// How far a portal has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// Not begun.
    New,
    /// A query that goes on where it stopped.
    Query {
        plan: Arc<QueryPlan>,
        cursor: Cursor,
        catalog: Arc<Catalog>,
        /// Which of the session's transactions it belongs to.
        epoch: u64,
        /// Its number among that transaction's portals.
        number: u64,
        /// Its snapshot, while it is suspended.
        kept: Option<KeptSnapshot>,
    },
    /// Rows that are all there and go out bit by bit.
    Rows {
        rows: VecDeque<Vec<Value>>,
        tag: CommandTag,
    },
    /// At its end.
    Done(CommandTag),
}

impl Portal {
    pub(super) fn new(
        prepared: Arc<Prepared>,
        parameters: &[Option<&[u8]>],
        formats: &[Format],
        result_formats: &[Format],
        style: &Style,
    ) -> Result<Self> {
        if parameters.len() != prepared.parameter_types.len() {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    parameters.len(),
                    prepared.parameter_types.len()
                ),
            ));
        }
        let mut values = Vec::with_capacity(parameters.len());
        for (position, (bytes, data_type)) in
            parameters.iter().zip(&prepared.parameter_types).enumerate()
        {
            let format = one_of(formats, position)?;
            values.push(match bytes {
                None => Value::Null,
                Some(bytes) => parameter(bytes, *data_type, format, style)?,
            });
        }
        let columns = prepared.columns.as_ref().map_or(0, Vec::len);
        let formats = (0..columns)
            .map(|position| one_of(result_formats, position))
            .collect::<Result<_>>()?;
        Ok(Self {
            prepared,
            parameters: values,
            formats,
            progress: Progress::New,
        })
    }

    /// The columns it returns; `None` when it returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        self.prepared.columns()
    }

    /// The format of each column.
    #[must_use]
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }
}

/// One format stands for all, none means text.
fn one_of(formats: &[Format], position: usize) -> Result<Format> {
    match formats {
        [] => Ok(Format::Text),
        [all] => Ok(*all),
        each => each.get(position).copied().ok_or_else(|| {
            Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "fewer formats than values or columns",
            )
        }),
    }
}

fn parameter(bytes: &[u8], data_type: DataType, format: Format, style: &Style) -> Result<Value> {
    match format {
        Format::Binary => Value::parse_binary(bytes, data_type.into()),
        Format::Text => {
            let text = crate::value::utf8(bytes)?;
            Value::parse(text, data_type.into(), style)
        }
    }
}

impl Session {
    /// [`Session::prepare`], without its effect on the transaction.
    pub(super) async fn prepare_statement(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        if self.block == Block::Failed
            && !statement.is_transaction_exit()
            && !matches!(statement.command(), Command::Empty)
        {
            return Err(in_failed_transaction());
        }
        let columns = match statement.command() {
            Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Copy(_)
            | Command::Explain(_) => {
                self.ensure_running().await?;
                let catalog = self.current_catalog()?;
                let version = catalog.version();
                let recent = &self.recent;
                let known = recent.prepared(&statement, parameter_oids, version, &self.settings);
                if let Some(prepared) = known {
                    return Ok(prepared);
                }
                let (plan, types) = self.plan(&statement, parameter_oids, &catalog)?;
                let prepared = Arc::new(Prepared {
                    parameter_oids: types.iter().map(|each| each.oid()).collect(),
                    parameter_types: types,
                    columns: plan.columns(),
                    plan: Mutex::new(Some(Planned {
                        version,
                        plan: Arc::new(plan),
                    })),
                    statement,
                });
                let statement = &prepared.statement;
                // What EXPLAIN EXECUTE shows depends on what else was prepared.
                if !matches!(statement.command(), Command::Explain(_)) {
                    let settings = &self.settings;
                    let recent = &mut self.recent;
                    recent.remember(statement, parameter_oids, version, settings, &prepared);
                }
                return Ok(prepared);
            }
            Command::Show(name) => Some(show_columns(name)),
            Command::Execute { name, .. } => self.named(name)?.columns.clone(),
            _ => None,
        };
        Ok(Prepared::without_plan(statement, columns))
    }

    /// The statement that PREPARE has prepared under this name.
    pub(super) fn named(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.named.get(name).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// PREPARE.
    pub(super) async fn prepare_named(
        &mut self,
        name: &str,
        types: &[sqlparser::ast::DataType],
        statement: &Statement,
    ) -> Result<()> {
        if self.named.contains_key(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        self.limits.check_prepared(self.named.len())?;
        let mut oids = Vec::with_capacity(types.len());
        for data_type in types {
            oids.push(resolve_type(data_type)?.data_type.oid());
        }
        let prepared = self.prepare_statement(statement.clone(), &oids).await?;
        self.named.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// The plan of a prepared statement for the catalog as it is now.
    pub(super) fn current_plan(
        &mut self,
        prepared: &Prepared,
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<Plan>> {
        let version = catalog.version();
        {
            let planned = prepared.plan.lock().expect("no panic while it was held");
            if let Some(planned) = &*planned
                && planned.version == version
            {
                return Ok(Arc::clone(&planned.plan));
            }
        }
        let (plan, types) = self.plan(&prepared.statement, &prepared.parameter_oids, catalog)?;
        if plan.columns() != prepared.columns || types != prepared.parameter_types {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        let plan = Arc::new(plan);
        *prepared.plan.lock().expect("no panic while it was held") = Some(Planned {
            version,
            plan: Arc::clone(&plan),
        });
        Ok(plan)
    }

    /// Plans a statement. Also returns its parameters' types.
    fn plan(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog: &Arc<Catalog>,
    ) -> Result<(Plan, Vec<DataType>)> {
        let locate = |location| statement.position(location);
        let parameters = Parameters::new(parameter_oids)?;
        let mut binder = Binder::new(catalog, &self.info, &locate, parameters);
        let plan = match statement.command() {
            Command::Query(query) => Plan::Query(Arc::new(select::plan_query(&mut binder, query)?)),
            Command::Insert(insert) => {
                Plan::Change(Box::new(change::bind_insert(insert, &mut binder)?))
            }
            Command::Update(update) => {
                Plan::Change(Box::new(change::bind_update(update, &mut binder)?))
            }
            Command::Delete(delete) => {
                Plan::Change(Box::new(change::bind_delete(delete, &mut binder)?))
            }
            Command::Copy(copy) => Plan::Copy(Arc::new(CopyPlan::bind(copy, &mut binder)?)),
            Command::Explain(explain) => {
                // The parameters of EXECUTE are its own arguments.
                let (plan, types) = match explain.statement.command() {
                    Command::Execute { name, .. } => {
                        let named = self.named(name)?;
                        let oids = &named.parameter_oids;
                        (self.plan(&named.statement, oids, catalog)?.0, Vec::new())
                    }
                    _ => self.plan(&explain.statement, parameter_oids, catalog)?,
                };
                return Ok((Plan::Explain(Arc::new(plan)), types));
            }
            _ => return Err(Error::internal("a statement that needs no plan")),
        };
        let types = binder.parameters.finish()?;
        Ok((plan, types))
    }
}
