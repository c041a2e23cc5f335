//! Prepared statements.
//!
//! A statement is planned when it is prepared, and again only when the catalog it
//! is executed under is another one, and who executes it is judged again whenever
//! that, or the role, is another one than before. What clients were told of it, its
//! parameters' types and its columns, never changes.

use std::sync::{Arc, Mutex};

use super::Session;
use super::set::{show_columns, text_column};
use crate::catalog::{Catalog, Needs};
use crate::change::{self, ChangePlan};
use crate::copy::CopyPlan;
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Parameters, resolve_type};
use crate::output::Column;
use crate::select::{self, QueryPlan};
use crate::statement::{Command, Statement};
use crate::value::DataType;

/// A statement whose names and types are resolved.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: Statement,
    /// Types of parameters, as they go to the client.
    parameter_oids: Vec<u32>,
    parameter_types: Vec<DataType>,
    columns: Option<Vec<Column>>,
    /// Whether it has a literal that means something else each time it is read.
    momentary: bool,
    /// The plan made last, if the statement has one.
    plan: Mutex<Option<Planned>>,
}

/// A plan and the catalog it holds for.
#[derive(Clone, Debug)]
struct Planned {
    version: u64,
    plan: Arc<Plan>,
    needs: Arc<Needs>,
    /// Who is known to be allowed it, under this version.
    allowed: Option<u32>,
}

/// A plan as it comes out of planning.
struct Bound {
    plan: Plan,
    /// The types of the statement's parameters.
    types: Vec<DataType>,
    /// See [`Prepared::is_momentary`].
    momentary: bool,
    /// What whoever runs it has to be allowed.
    needs: Needs,
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
    /// Whether what comes of it may depend on anything in the database, its catalog
    /// included.
    pub(super) fn looks(&self) -> bool {
        match self {
            Self::Query(query) => query.looks(),
            Self::Change(_) | Self::Copy(_) | Self::Explain(_) => true,
        }
    }

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

    /// Whether what it says may depend on anything in the database.
    pub(super) fn looks(&self) -> bool {
        let planned = self.plan.lock().expect("no panic while it was held");
        planned.as_ref().is_none_or(|planned| planned.plan.looks())
    }

    /// Whether a parameter is a date or a timestamp.
    pub(super) fn takes_moments(&self) -> bool {
        self.parameter_types.iter().any(|each| each.is_moment())
    }

    /// Whether it must not be taken for the same text that comes again.
    pub(super) fn is_momentary(&self) -> bool {
        self.momentary
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
            momentary: false,
            plan: Mutex::new(None),
        })
    }
}

/// The prepared statement that this one runs or explains, by name.
fn executed(statement: &Statement) -> Option<&str> {
    match statement.command() {
        Command::Execute { name, .. } => Some(name),
        Command::Explain(explain) => executed(&explain.statement),
        _ => None,
    }
}

/// Whether rows of both look the same, wherever they come from.
fn same_results(now: &[Column], told: &[Column]) -> bool {
    now.len() == told.len()
        && now
            .iter()
            .zip(told)
            .all(|(now, told)| now.name == told.name && now.column_type == told.column_type)
}

/// Statements whose plans are larger, in bytes, take so long to plan that other sessions
/// shall not wait for it.
const PLANNED_IN_A_STEP: u64 = 4 << 20;

impl Session {
    /// [`Session::prepare`], without its effect on the transaction.
    pub(super) async fn prepare_statement(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        if !statement.is_transaction_exit() && !matches!(statement.command(), Command::Empty) {
            self.check_not_failed()?;
        }
        if let Some(name) = executed(&statement) {
            self.wake_within(name).await?;
        }
        let columns = match statement.command() {
            Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Copy(_)
            | Command::Explain(_) => {
                self.ensure_running().await?;
                let (catalog, look) = self.current_catalog()?;
                let version = catalog.version();
                let recent = &self.recent;
                let known = recent.prepared(&statement, parameter_oids, version, &self.settings);
                if let Some(prepared) = known {
                    if !prepared.looks() {
                        self.recency.not_looked(look);
                    }
                    return Ok(prepared);
                }
                let bound = self.plan(&statement, parameter_oids, &catalog)?;
                let Bound {
                    plan,
                    types,
                    momentary,
                    needs,
                } = bound;
                let prepared = Arc::new(Prepared {
                    parameter_oids: types.iter().map(|each| each.oid()).collect(),
                    parameter_types: types,
                    columns: plan.columns(),
                    momentary,
                    plan: Mutex::new(Some(Planned {
                        version,
                        plan: Arc::new(plan),
                        needs: Arc::new(needs),
                        allowed: None,
                    })),
                    statement,
                });
                if !prepared.looks() {
                    self.recency.not_looked(look);
                }
                let statement = &prepared.statement;
                // What EXPLAIN EXECUTE shows depends on what else was prepared.
                let explains = matches!(statement.command(), Command::Explain(_));
                if !explains && !momentary {
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

    /// The statement of this name, or the unnamed one if that is empty. PREPARE and Parse
    /// share their names: drivers prepare by message, and clean up with DEALLOCATE and
    /// DISCARD. One that [is asleep](Session::is_asleep) is to be woken first.
    pub fn named(&self, name: &str) -> Result<&Arc<Prepared>> {
        if name.is_empty() {
            return self.unnamed.as_ref().ok_or_else(|| {
                let message = "unnamed prepared statement does not exist";
                Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
            });
        }
        self.named.get(name).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// Fails when no statement can get this name: 42P05 if one has it, 54000 if there
    /// are too many. The empty name is always free: the unnamed statement is replaced.
    pub fn check_name(&self, name: &str) -> Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        if self.named.contains_key(name) || self.is_asleep(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        self.limits
            .check_prepared(self.named.len() + self.asleep.len())
    }

    /// Gives a statement its name, if it is free; see [`Session::check_name`].
    pub fn name(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        self.check_name(name)?;
        if let Some(noted) = &mut self.noted {
            noted.statement(name);
        }
        if name.is_empty() {
            self.asleep.remove(name);
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.to_owned(), prepared);
        }
        Ok(())
    }

    /// Forgets the statement of this name. Returns whether there was one.
    pub fn forget(&mut self, name: &str) -> bool {
        let awake = if name.is_empty() {
            self.unnamed.take().is_some()
        } else {
            self.named.remove(name).is_some()
        };
        let was = awake || self.asleep.remove(name).is_some();
        if was && let Some(noted) = &mut self.noted {
            noted.statement(name);
        }
        was
    }

    /// Forgets all statements that have names.
    pub(super) fn forget_all(&mut self) {
        self.named.clear();
        self.asleep.retain(|name, _| name.is_empty());
        if let Some(noted) = &mut self.noted {
            noted.all_statements();
        }
    }

    /// PREPARE.
    pub(super) async fn prepare_named(
        &mut self,
        name: &str,
        types: &[sqlparser::ast::DataType],
        statement: &Statement,
    ) -> Result<()> {
        self.check_name(name)?;
        let mut oids = Vec::with_capacity(types.len());
        for data_type in types {
            oids.push(resolve_type(data_type)?.data_type.oid());
        }
        let prepared = self.prepare_statement(statement.clone(), &oids).await?;
        self.name(name, prepared)
    }

    /// The plan of a prepared statement for the catalog as it is now, which the
    /// session's role is allowed. 0A000 when its columns would be others now, or, if
    /// even that matters, come from other tables.
    pub(super) fn current_plan(
        &mut self,
        prepared: &Prepared,
        catalog: &Arc<Catalog>,
        origins_matter: bool,
    ) -> Result<Arc<Plan>> {
        let version = catalog.version();
        let role = self.info.role;
        {
            let mut planned = prepared.plan.lock().expect("no panic while it was held");
            if let Some(planned) = &mut *planned
                && planned.version == version
            {
                if planned.allowed != Some(role) {
                    planned.needs.check(catalog, role)?;
                    planned.allowed = Some(role);
                }
                return Ok(Arc::clone(&planned.plan));
            }
        }
        let bound = self.plan(&prepared.statement, &prepared.parameter_oids, catalog)?;
        let Bound {
            plan, types, needs, ..
        } = bound;
        needs.check(catalog, role)?;
        let columns = plan.columns();
        let same = match (&columns, &prepared.columns) {
            _ if columns == prepared.columns => true,
            (Some(now), Some(told)) if !origins_matter => same_results(now, told),
            _ => false,
        };
        if !same || types != prepared.parameter_types {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        let plan = Arc::new(plan);
        *prepared.plan.lock().expect("no panic while it was held") = Some(Planned {
            version,
            plan: Arc::clone(&plan),
            needs: Arc::new(needs),
            allowed: Some(role),
        });
        Ok(plan)
    }

    /// Plans a statement.
    fn plan(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog: &Arc<Catalog>,
    ) -> Result<Bound> {
        if statement.plan_bytes() > PLANNED_IN_A_STEP {
            return coeval_env::block_in_place(|| {
                self.plan_here(statement, parameter_oids, catalog)
            });
        }
        self.plan_here(statement, parameter_oids, catalog)
    }

    fn plan_here(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog: &Arc<Catalog>,
    ) -> Result<Bound> {
        let room = self.room();
        let _reserved = room.reserve(statement.plan_bytes(), "Planning the statement")?;
        let locate = |location| statement.position(location);
        let parameters = Parameters::new(parameter_oids)?;
        let mut binder = Binder::new(catalog, &self.info, &locate, parameters);
        binder.foresee(statement.plan_bytes());
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
                let mut bound = match explain.statement.command() {
                    Command::Execute { name, .. } => {
                        let named = self.named(name)?;
                        let oids = &named.parameter_oids;
                        let mut bound = self.plan(&named.statement, oids, catalog)?;
                        bound.types.clear();
                        bound
                    }
                    _ => self.plan(&explain.statement, parameter_oids, catalog)?,
                };
                bound.plan = Plan::Explain(Arc::new(bound.plan));
                return Ok(bound);
            }
            _ => return Err(Error::internal("a statement that needs no plan")),
        };
        Ok(Bound {
            plan,
            types: binder.parameters.finish()?,
            momentary: binder.parameters.is_momentary(),
            needs: binder.needs,
        })
    }
}
