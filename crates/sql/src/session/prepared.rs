//! Prepared statements: statements whose names and types are resolved, with their plan.
//!
//! A session plans a statement when it prepares it, and again only when it executes it
//! under a different catalog version. It checks privileges again whenever the catalog
//! version or the role differs from the last check. The parameter types and columns
//! reported to the client never change.
//!
//! A statement that a session keeps is its text and its plan: the syntax tree is dropped,
//! and the text is parsed again if the plan is overtaken. A long one keeps its tree.

use std::sync::{Arc, Mutex};

use super::Session;
use super::counted::Counted;
use super::handover::HandoverStatement;
use super::plan::{Plan, PlannedLock, planned_locks};
use super::run::{MAX_REPLANS, is_conflict, keeps_changing};
use super::set::show_columns;
use super::statement_cache::StatementCache;
use crate::catalog::{Catalog, Needs};
use crate::change;
use crate::copy::CopyPlan;
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Interrupts, Parameters, resolve_type};
use crate::instance::{Charge, measured};
use crate::output::Column;
use crate::route::Route;
use crate::select;
use crate::statement::{Command, PARSED_IN_A_STEP, Statement};
use crate::value::DataType;

/// A statement whose names and types are resolved.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: Statement,
    /// OIDs of the parameter types, as reported to the client.
    parameter_oids: Vec<u32>,
    parameter_types: Vec<DataType>,
    columns: Option<Vec<Column>>,
    /// Whether the statement has a literal whose value depends on when it is read.
    momentary: bool,
    /// The most recent plan, if the statement has one.
    plan: Mutex<Option<Planned>>,
    /// What the statement is charged to its session, while it is kept under a name.
    charge: Mutex<Option<Charge>>,
}

/// A plan and the catalog version it is valid for.
#[derive(Clone, Debug)]
struct Planned {
    version: u64,
    plan: Arc<Plan>,
    needs: Arc<Needs>,
    locks: Arc<[PlannedLock]>,
    route: Route,
    interrupts: Arc<Interrupts>,
    /// Memory that the plan takes, in bytes.
    bytes: u64,
    /// The role that passed the privilege check last, under this catalog version.
    allowed: Option<u32>,
    counted: Counted,
}

/// The result of binding and planning a statement.
struct Bound {
    plan: Plan,
    /// The types of the statement's parameters.
    types: Vec<DataType>,
    /// See [`Prepared::is_momentary`].
    momentary: bool,
    /// Privileges that a role needs to run the statement.
    needs: Needs,
    /// Locks that the statement takes before it runs.
    locks: Arc<[PlannedLock]>,
    /// The nodes that can run it, and the sessions that it interrupts.
    route: Route,
    interrupts: Arc<Interrupts>,
    /// Memory that all this takes, in bytes.
    bytes: u64,
    counted: Counted,
}

impl Prepared {
    /// The text of the statement.
    #[must_use]
    pub fn text(&self) -> &str {
        self.statement.text()
    }

    /// Name of the cursor that the statement moves; `None` unless it is a FETCH or MOVE.
    #[must_use]
    pub fn moved_cursor(&self) -> Option<&str> {
        self.statement.moved_cursor()
    }

    /// OIDs (in `pg_type`) of the parameter types.
    #[must_use]
    pub fn parameter_types(&self) -> &[u32] {
        &self.parameter_oids
    }

    /// The columns of the result; `None` when the statement returns no rows.
    #[must_use]
    pub fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref()
    }

    /// Whether the statement is empty, so that executing it does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.statement.command(), Command::Empty)
    }

    /// Whether the statement has a plan, and so depends on the catalog.
    pub(super) fn has_plan(&self) -> bool {
        self.plan
            .lock()
            .expect("no panic while it was held")
            .is_some()
    }

    /// The locks that the most recent plan takes.
    fn locks(&self) -> Arc<[PlannedLock]> {
        let planned = self.plan.lock().expect("no panic while it was held");
        let locks = planned.as_ref().map(|planned| Arc::clone(&planned.locks));
        locks.unwrap_or_default()
    }

    /// Whether the description or result may depend on the database's contents.
    pub(super) fn looks(&self) -> bool {
        let planned = self.plan.lock().expect("no panic while it was held");
        planned.as_ref().is_none_or(|planned| planned.plan.looks())
    }

    /// Where the most recent plan can run, and a statement without one.
    #[must_use]
    pub fn route(&self) -> Route {
        let planned = self.plan.lock().expect("no panic while it was held");
        let planned = planned.as_ref().map(|planned| planned.route);
        planned.unwrap_or_else(|| self.statement.route())
    }

    /// The sessions that the most recent plan interrupts.
    pub(super) fn interrupts(&self) -> Arc<Interrupts> {
        let planned = self.plan.lock().expect("no panic while it was held");
        let planned = planned.as_ref().map(|planned| &planned.interrupts);
        planned.map(Arc::clone).unwrap_or_default()
    }

    /// Whether a parameter is a date or a timestamp.
    pub(super) fn takes_moments(&self) -> bool {
        self.parameter_types.iter().any(|each| each.is_moment())
    }

    /// Whether the statement must not be reused for the same text when it arrives again.
    pub(super) fn is_momentary(&self) -> bool {
        self.momentary
    }

    /// Memory that the statement takes with its plan, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let planned = self.plan.lock().expect("no panic while it was held");
        let plan = planned.as_ref().map_or(0, |planned| planned.bytes + SHARED);
        size_of::<Self>() as u64 + NAMED + self.statement.bytes() + plan
    }

    /// Charges the statement to its session, if it is not charged yet.
    pub(super) fn charge(&self, to: impl FnOnce(u64) -> Result<Charge>) -> Result<()> {
        let mut charge = self.charge.lock().expect("no panic while it was held");
        if charge.is_none() {
            *charge = Some(to(self.bytes())?);
        }
        Ok(())
    }

    /// Drops the syntax tree of a statement that has a plan: it is parsed again if DDL
    /// overtakes the plan.
    fn drop_tree(&mut self) {
        // A long text is parsed on another thread, for which a new plan does not wait.
        let is_short = self.statement.text().len() <= PARSED_IN_A_STEP;
        if self.has_plan() && is_short {
            self.statement = self.statement.without_tree();
        }
    }

    /// Types of the parameters.
    pub(super) fn types(&self) -> &[DataType] {
        &self.parameter_types
    }

    /// A statement without a plan, with the parameters of its query.
    fn with_parameters_of(statement: Statement, query: &Self) -> Arc<Self> {
        Arc::new(Self {
            statement,
            parameter_oids: query.parameter_oids.clone(),
            parameter_types: query.parameter_types.clone(),
            columns: None,
            momentary: false,
            plan: Mutex::new(None),
            charge: Mutex::default(),
        })
    }

    pub(super) fn without_plan(statement: Statement, columns: Option<Vec<Column>>) -> Arc<Self> {
        Arc::new(Self {
            statement,
            parameter_oids: Vec::new(),
            parameter_types: Vec::new(),
            columns,
            momentary: false,
            plan: Mutex::new(None),
            charge: Mutex::default(),
        })
    }
}

/// The statement without its syntax tree, unless a cache keeps it as well.
pub(super) fn without_tree(mut prepared: Arc<Prepared>) -> Arc<Prepared> {
    if let Some(own) = Arc::get_mut(&mut prepared) {
        own.drop_tree();
    }
    prepared
}

/// Name of the prepared statement that this EXECUTE, or EXPLAIN EXECUTE, runs.
fn executed(statement: &Statement) -> Option<&str> {
    match statement.command() {
        Command::Execute { name, .. } => Some(name),
        Command::Explain(explain) => executed(&explain.statement),
        _ => None,
    }
}

/// Memory of the columns of a result, in bytes.
fn bytes_of_columns(columns: &[Column]) -> usize {
    let names = columns.iter().map(|column| column.name.len());
    size_of_val(columns) + names.sum::<usize>()
}

/// Whether both lists have the same column names and types, from whatever tables.
fn same_results(now: &[Column], told: &[Column]) -> bool {
    now.len() == told.len()
        && now
            .iter()
            .zip(told)
            .all(|(now, told)| now.name == told.name && now.column_type == told.column_type)
}

/// Maximum plan size, in bytes, for planning on the executor's thread: planning a larger
/// statement would delay other sessions too long.
const PLANNED_IN_A_STEP: u64 = 4 << 20;

/// Memory of what makes a statement findable, in bytes: its name, its entry among the session's
/// statements, and what its text is located by in errors.
const NAMED: u64 = 200;

/// Memory of the shared parts of a plan, in bytes, beyond what planning it has kept.
const SHARED: u64 = 300;

/// Memory of an unnamed statement, in bytes, from which it is kept as a text while its client
/// is silent. Any session has one, so it is not refused for its size.
const LARGE_UNNAMED: u64 = 1 << 20;

impl Session {
    /// [`Session::prepare`] without failing the transaction on an error.
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
                return self.prepare_planned(statement, parameter_oids).await;
            }
            Command::Declare(declare) => {
                let query = self
                    .prepare_planned(declare.query.clone(), parameter_oids)
                    .await?;
                return Ok(Prepared::with_parameters_of(statement, &query));
            }
            Command::Fetch(fetch) => self.fetched_columns(&fetch.cursor, fetch.only_move),
            Command::Show(name) => Some(show_columns(name)),
            Command::Execute { name, .. } => self.named(name)?.columns.clone(),
            _ => None,
        };
        Ok(Prepared::without_plan(statement, columns))
    }

    /// Plans a statement, and locks the tables that it names, as PostgreSQL does while it
    /// analyzes a statement: so the columns that the client is told are those of tables
    /// that stay as they are until the transaction ends. Starts anew after a conflict, as
    /// long as the client has seen nothing of its transaction.
    async fn prepare_planned(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        let began = self.ensure_running().await?;
        self.renew_here(began)?;
        let mut statement = statement;
        for _ in 0..MAX_REPLANS {
            let alone = self.is_alone();
            let (prepared, locks) = self.planned(statement, parameter_oids)?;
            self.check_route(prepared.statement.command(), prepared.route())?;
            match self.lock_planned(&locks).await {
                Ok(true) => return Ok(prepared),
                Ok(false) => self.running()?.transaction.begin_statement()?,
                Err(error) if alone && is_conflict(&error) => {
                    self.abort_running();
                    coeval_env::yield_now().await;
                    self.ensure_running().await?;
                }
                Err(error) => return Err(error),
            }
            statement = prepared.statement.clone();
        }
        Err(keeps_changing())
    }

    /// Plans a statement in the current snapshot, unless its text is known with a plan.
    pub(super) fn planned(
        &mut self,
        statement: Statement,
        parameter_oids: &[u32],
    ) -> Result<(Arc<Prepared>, Arc<[PlannedLock]>)> {
        let (catalog, look) = self.current_catalog()?;
        let version = catalog.version();
        let statement_cache = &self.statement_cache;
        let known = statement_cache.prepared(&statement, parameter_oids, version, &self.settings);
        if let Some(prepared) = known {
            if !prepared.looks() {
                self.read_confirmation.not_looked(look);
            }
            let locks = prepared.locks();
            return Ok((prepared, locks));
        }
        let bound = self.plan(&statement, parameter_oids, &catalog)?;
        let Bound {
            plan,
            types,
            momentary,
            needs,
            locks,
            route,
            interrupts,
            bytes,
            counted,
        } = bound;
        let columns = plan.columns();
        let described = columns.as_deref().map_or(0, bytes_of_columns)
            + types.len() * (size_of::<u32>() + size_of::<DataType>());
        let prepared = Arc::new(Prepared {
            parameter_oids: types.iter().map(|each| each.oid()).collect(),
            parameter_types: types,
            columns,
            momentary,
            charge: Mutex::default(),
            plan: Mutex::new(Some(Planned {
                version,
                plan: Arc::new(plan),
                needs: Arc::new(needs),
                locks: Arc::clone(&locks),
                route,
                interrupts,
                bytes: bytes + described as u64,
                allowed: None,
                counted,
            })),
            statement,
        });
        if !prepared.looks() {
            self.read_confirmation.not_looked(look);
        }
        let statement = &prepared.statement;
        // The output of EXPLAIN EXECUTE depends on another prepared statement.
        let explains = matches!(statement.command(), Command::Explain(_));
        if !explains && !momentary {
            let settings = &self.settings;
            let statement_cache = &mut self.statement_cache;
            let memory = &self.memory;
            let key = (statement, parameter_oids);
            statement_cache.remember(key, version, settings, &prepared, memory);
        }
        Ok((prepared, locks))
    }

    /// The statement of this name, or the unnamed one if the name is empty. PREPARE and
    /// Parse share one namespace: drivers prepare by message, and clean up with
    /// DEALLOCATE and DISCARD. The caller must first wake a statement that [is
    /// asleep](Session::is_asleep).
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

    /// Fails when no statement can take this name: with SQLSTATE 42P05 if a statement has
    /// it, with 54000 if the session has too many. The empty name is always free: a new
    /// unnamed statement replaces the old one.
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

    /// Stores a statement under its name, if that is free; see [`Session::check_name`].
    pub fn name(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        self.check_name(name)?;
        // What runs next is another statement.
        self.clock_runs = false;
        let prepared = without_tree(prepared);
        self.charge_statement(name, &prepared)?;
        if let Some(delta) = &mut self.delta {
            delta.statement(name);
        }
        if name.is_empty() {
            self.remove_asleep(name);
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.to_owned(), prepared);
        }
        Ok(())
    }

    /// Charges a statement to the session, before it gets its name.
    pub(super) fn charge_statement(&mut self, name: &str, prepared: &Arc<Prepared>) -> Result<()> {
        let memory = Arc::clone(&self.memory);
        if name.is_empty() {
            return match prepared.bytes() > LARGE_UNNAMED {
                // It will be kept as its text.
                true => memory
                    .charge(prepared.text().len() as u64, "A statement")
                    .map(drop),
                false => prepared.charge(|bytes| Ok(memory.charge_anyway(bytes))),
            };
        }
        let charge = || prepared.charge(|bytes| memory.charge(bytes, "A prepared statement"));
        charge().or_else(|_| {
            // Statements that were deallocated may be kept here still.
            self.statement_cache = StatementCache::default();
            self.plan_cache.clear();
            self.info.patterns.clear();
            charge()
        })
    }

    /// Keeps a large unnamed statement as a text only, until it is used again: its session
    /// rests, perhaps for long.
    pub(super) fn doze(&mut self) {
        let large = |prepared: &Arc<Prepared>| prepared.bytes() > LARGE_UNNAMED;
        let large = self.unnamed.as_ref().filter(|unnamed| large(unnamed));
        if let Some(text) = large.and_then(|unnamed| HandoverStatement::of(unnamed)) {
            self.unnamed = None;
            let charge = self.memory.charge_anyway(text.bytes(""));
            self.asleep.insert(String::new(), text);
            match &mut self.asleep_charge {
                Some(all) => all.join(charge),
                None => self.asleep_charge = Some(charge),
            }
        }
    }

    /// Drops a sleeping statement, and its charge. Returns whether it existed.
    pub(super) fn remove_asleep(&mut self, name: &str) -> bool {
        let Some(asleep) = self.asleep.remove(name) else {
            return false;
        };
        if let Some(charge) = &mut self.asleep_charge {
            charge.give_back(asleep.bytes(name));
        }
        true
    }

    /// Drops the statement of this name. Returns whether it existed.
    pub fn forget(&mut self, name: &str) -> bool {
        let awake = if name.is_empty() {
            self.unnamed.take().is_some()
        } else {
            self.named.remove(name).is_some()
        };
        let was = awake || self.remove_asleep(name);
        if was && let Some(delta) = &mut self.delta {
            delta.statement(name);
        }
        was
    }

    /// Drops all statements that have names.
    pub(super) fn forget_all(&mut self) {
        self.named.clear();
        let asleep = std::mem::take(&mut self.asleep);
        self.asleep_charge = None;
        if let Some((name, unnamed)) = asleep
            .into_iter()
            .next()
            .filter(|(name, _)| name.is_empty())
        {
            self.asleep_charge = Some(self.memory.charge_anyway(unnamed.bytes(&name)));
            self.asleep.insert(name, unnamed);
        }
        if let Some(delta) = &mut self.delta {
            delta.all_statements();
        }
    }

    /// PREPARE: prepares a statement and stores it under its name.
    pub(super) async fn prepare_named(
        &mut self,
        name: &str,
        types: &[coeval_sql_syntax::tree::TypeName],
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

    /// The plan of a prepared statement under the current catalog, and the locks that it
    /// takes, after checking the privileges of the session's role. Fails with SQLSTATE
    /// 0A000 when the columns have changed, or their tables have and `origins_matter`.
    pub(super) fn current_plan(
        &mut self,
        prepared: &Prepared,
        catalog: &Arc<Catalog>,
        origins_matter: bool,
    ) -> Result<(Arc<Plan>, Arc<[PlannedLock]>)> {
        let version = catalog.version();
        let role = self.info.role;
        {
            let mut planned = prepared.plan.lock().expect("no panic while it was held");
            if let Some(planned) = &mut *planned
                && planned.version == version
                && planned.counted.holds(&self.database)
            {
                if planned.allowed != Some(role) {
                    planned.needs.check(catalog, role)?;
                    planned.allowed = Some(role);
                }
                return Ok((Arc::clone(&planned.plan), Arc::clone(&planned.locks)));
            }
        }
        let bound = self.plan(&prepared.statement, &prepared.parameter_oids, catalog)?;
        let Bound {
            plan,
            types,
            needs,
            locks,
            route,
            interrupts,
            bytes,
            counted,
            ..
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
            locks: Arc::clone(&locks),
            route,
            interrupts,
            bytes,
            allowed: Some(role),
            counted,
        });
        let mut charge = prepared.charge.lock().expect("no panic while it was held");
        if let Some(charge) = &mut *charge {
            charge.resize(prepared.bytes());
        }
        drop(charge);
        Ok((plan, locks))
    }

    /// Binds and plans a statement.
    fn plan(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog: &Arc<Catalog>,
    ) -> Result<Bound> {
        let statement = &statement.with_tree(self.budget())?;
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
        let (bound, bytes) = measured(statement.plan_bytes(), || {
            self.bound(statement, parameter_oids, catalog)
        });
        bound.map(|bound| Bound { bytes, ..bound })
    }

    fn bound(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog: &Arc<Catalog>,
    ) -> Result<Bound> {
        let budget = self.budget();
        let _reserved = budget.reserve(statement.plan_bytes(), "Planning the statement")?;
        let locate = |at| statement.position(at);
        let parameters = Parameters::new(parameter_oids)?;
        let mut binder = Binder::new(catalog, &self.info, &locate, parameters);
        binder.foresee(statement.plan_bytes());
        binder.engine = Some(&*self.database.engine);
        binder.bind_change = (!statement.is_within_declare()).then_some(change::bind_in_with);
        let plan = match statement.command() {
            Command::Query(query) if statement.is_within_declare() => {
                Plan::Query(Arc::new(select::plan_cursor(&mut binder, query)?))
            }
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
            Command::Copy(copy) => {
                binder.bind_change = None;
                Plan::Copy(Arc::new(CopyPlan::bind(copy, &mut binder)?))
            }
            Command::Explain(explain) => {
                // The arguments of EXECUTE are its parameters.
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
                bound.plan = Plan::Explain(Arc::new(bound.plan), bound.route);
                if !explain.options.analyze {
                    // Nothing of the statement is executed.
                    bound.route = Route::Anywhere;
                }
                return Ok(bound);
            }
            _ => return Err(Error::internal("a statement that needs no plan")),
        };
        let changes = change::with::bound(&mut binder)?;
        let plan = match changes.is_empty() {
            true => plan,
            false => Plan::With(changes, Box::new(plan)),
        };
        let locks = planned_locks(&plan, &binder.needs, catalog);
        let route = plan.route(binder.route);
        Ok(Bound {
            plan,
            locks,
            route,
            interrupts: Arc::new(binder.interrupts),
            types: binder.parameters.finish()?,
            momentary: binder.parameters.is_momentary(),
            needs: binder.needs,
            bytes: 0,
            counted: Counted::new(binder.counted, &self.database),
        })
    }
}
