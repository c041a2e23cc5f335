//! EXPLAIN: describing a statement's plan, and running it for EXPLAIN ANALYZE.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::Direction;

use super::Session;
use super::plan::Plan;
use super::transaction::Block;
use crate::catalog::{Catalog, Table, quote_identifier};
use crate::change::{ChangeKind, ChangePlan, ChangeTarget, Changed, InsertSource};
use crate::copy::CopyPlan;
use crate::error::{Error, Result};
use crate::expression::{EvaluationContext, Instrument, Names};
use crate::plan::Access;
use crate::route::Route;
use crate::select::{Cursor, Described, Relationship, quoted};
use crate::statement::{Command, ExplainCommand, ExplainOptions, Statement};
use crate::value::Value;

impl Session {
    /// The lines that EXPLAIN returns; `None` when the plan is outdated and nothing was
    /// executed. EXPLAIN ANALYZE runs the statement as well.
    pub(super) async fn explain(
        &mut self,
        explain: &ExplainCommand,
        (plan, route): (&Plan, Route),
        catalog: &Arc<Catalog>,
        parameters: &[Value],
        statement: &Statement,
    ) -> Result<Option<Vec<String>>> {
        let options = &explain.options;
        if !options.analyze {
            let described = describe(plan, None, options.verbose);
            let mut notes = Vec::new();
            notes.extend(self.describe_route(route));
            return Ok(Some(printed(&described, options, notes, None)));
        }
        let given;
        let parameters = match explain.statement.command() {
            Command::Execute { name, arguments } => {
                let named = Arc::clone(self.named(name)?);
                given = self.arguments(name, &named, arguments, statement).await?;
                &given
            }
            _ => parameters,
        };
        let began = coeval_env::now();
        let mut counted = None;
        let rows = match plan {
            Plan::Query(query) => {
                if query.locks_rows() {
                    self.require_writable("SELECT FOR UPDATE")?;
                    self.running()?.note_lock();
                }
                let viewer = self.viewer();
                let running = self
                    .running
                    .as_mut()
                    .ok_or_else(|| Error::internal("no transaction runs"))?;
                let mut context = EvaluationContext::new(
                    &self.info,
                    catalog,
                    parameters,
                    Some(&mut *running.transaction),
                );
                context.settings = Some(&viewer);
                context.engine = Some(&*self.database.engine);
                context.instrument = Some(Box::new(Instrument::new(options.timing)));
                let mut cursor = Cursor::new(query);
                let mut rows: u64 = 0;
                let mut row = Vec::new();
                while cursor.next(&mut context, &mut row).await? {
                    rows += 1;
                }
                counted = context.instrument.take();
                self.take_over(viewer);
                rows
            }
            Plan::Change(change) => match self.execute_change(change, catalog, parameters).await? {
                Changed::Rows { count, .. } => count,
                Changed::Outdated => return Ok(None),
            },
            Plan::With(changes, main) => {
                let changed = self
                    .execute_with(changes, main, catalog, parameters)
                    .await?;
                let Changed::Rows { count, .. } = changed else {
                    return Ok(None);
                };
                count
            }
            Plan::Copy(_) | Plan::Explain(..) => {
                return Err(Error::unsupported("EXPLAIN ANALYZE of this statement"));
            }
        };
        let took = began.elapsed();
        let described = describe(plan, counted.as_deref(), options.verbose);
        let mut notes = Vec::new();
        notes.extend(self.describe_route(route));
        notes.extend(self.describe_freshness(options.timing));
        notes.push(format!("Rows: {rows}"));
        let took = (options.timing && options.summary).then_some(took);
        Ok(Some(printed(&described, options, notes, took)))
    }
}

/// The rows that EXPLAIN returns: in text a line each, in JSON a single one.
fn printed(
    described: &Described,
    options: &ExplainOptions,
    notes: Vec<String>,
    took: Option<Duration>,
) -> Vec<String> {
    let took = took.map(|took| took.as_secs_f64() * 1000.0);
    if options.json {
        let plan = described.json(options, None, 4);
        let mut fields = vec![format!("    \"Plan\": {plan}")];
        for note in notes {
            if let Some((name, text)) = note.split_once(": ") {
                fields.push(format!("    {}: {}", quoted(name), quoted(text)));
            }
        }
        fields.extend(took.map(|took| format!("    \"Execution Time\": {took:.3}")));
        return vec![format!("[\n  {{\n{}\n  }}\n]", fields.join(",\n"))];
    }
    let mut lines = described.text(options);
    lines.extend(notes);
    lines.extend(took.map(|took| format!("Execution Time: {took:.3} ms")));
    lines
}

/// How a follower came to the state that a statement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The name of the way, as in the metric `coeval_reads_total`.
    pub stamp: &'static str,
    /// How long the leader's answer took, and how long the node's tables took to show the
    /// commit in it; `None` if the leader was not asked.
    pub waits: Option<(Duration, Duration)>,
}

impl Session {
    /// Records how fresh the snapshots of the next statements are.
    pub fn note_freshness(&mut self, freshness: Freshness) {
        self.freshness = Some(freshness);
    }

    /// On a follower: the commit up to which the statement has read, and what it waited for.
    fn describe_freshness(&self, timing: bool) -> Option<String> {
        let Freshness { stamp, waits } = self.freshness?;
        let node = self.info.around.host()?.cluster()?.node;
        let snapshot = self.running.as_ref()?.transaction.snapshot();
        let read = format!("Read: node {node}, up to {snapshot}, {stamp}");
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        Some(match waits.filter(|_| timing) {
            None => read,
            Some((asked, waited)) => format!(
                "{read} {:.1} ms, waited {:.1} ms",
                milliseconds(asked),
                milliseconds(waited)
            ),
        })
    }

    /// In a cluster: the node that runs the statement, and why that one.
    fn describe_route(&self, route: Route) -> Option<String> {
        let cluster = self.info.around.host()?.cluster()?;
        let node = cluster.node;
        let setting = self.settings.parsed().read_from.name();
        Some(match (route, self.database.follows()) {
            (Route::Leader(reason), true) => {
                format!("Runs on: the leader, because {}", reason.words())
            }
            (Route::Anywhere, true) => {
                format!("Runs on: node {node}, which follows (coeval.read_from = {setting})")
            }
            (Route::Leader(reason), false) => {
                format!(
                    "Runs on: node {node}, the leader, because {}",
                    reason.words()
                )
            }
            (Route::Anywhere, false) if self.delta.is_none() => {
                format!("Runs on: node {node}, the leader, to which its client is connected")
            }
            (Route::Anywhere, false) if self.block == Block::Explicit => {
                format!("Runs on: node {node}, the leader, because the transaction block is there")
            }
            (Route::Anywhere, false) => {
                format!("Runs on: node {node}, the leader (coeval.read_from = {setting})")
            }
        })
    }
}

fn describe(plan: &Plan, counted: Option<&Instrument>, verbose: bool) -> Described {
    match plan {
        Plan::Query(query) => query.describe(counted, verbose),
        Plan::Change(change) => describe_change(change, verbose),
        Plan::With(changes, main) => {
            let mut described = describe(main, counted, verbose);
            for change in changes {
                let name = Relationship::Named("CTE".to_owned());
                described.add(name, describe_change(change, verbose));
            }
            described
        }
        Plan::Copy(copy) => match &**copy {
            CopyPlan::In(into) => Described::new(&format!("Copy into {}", into.table.name), 0.0),
            CopyPlan::Out(out) => over("Copy out", out.query.describe(None, verbose)),
        },
        Plan::Explain(plan, _) => describe(plan, counted, verbose),
    }
}

fn over(label: &str, below: Described) -> Described {
    let mut described = Described::new(label, below.rows);
    described.startup = below.startup;
    described.total = below.total;
    described.add(Relationship::Outer, below);
    described
}

fn describe_change(change: &ChangePlan, verbose: bool) -> Described {
    let table = &*change.table;
    let name = &table.name;
    match &change.kind {
        ChangeKind::Insert(insert) => {
            let label = format!("Insert on {name}");
            match &insert.source {
                InsertSource::Values(rows) => {
                    let count = rows.len();
                    let values = Described::new(&format!("Values ({count})"), count as f64);
                    over(&label, values)
                }
                InsertSource::Query { plan, .. } => over(&label, plan.describe(None, verbose)),
            }
        }
        ChangeKind::Update(update) => over(
            &format!("Update on {name}"),
            describe_target(table, &update.target),
        ),
        ChangeKind::Delete(delete) => over(
            &format!("Delete on {name}"),
            describe_target(table, &delete.target),
        ),
        ChangeKind::Joined(joined) => {
            let verb = if joined.assignments.is_some() {
                "Update"
            } else {
                "Delete"
            };
            let source = joined.source.describe(None, verbose);
            over(&format!("{verb} on {name}"), source)
        }
    }
}

fn describe_target(table: &Table, target: &ChangeTarget) -> Described {
    let column = |place: usize| quote_identifier(&table.columns[place].name);
    let columns: Vec<String> = (0..table.columns.len()).map(column).collect();
    let mut names = Names::default();
    let Access { path, filter } = &target.access;
    let described = path.describe(
        table,
        &table.name,
        Direction::Forward,
        &column,
        (&mut names, &[]),
    );
    let mut scan = Described::new(&described.label, 1.0);
    scan.kind = described.kind;
    scan.index = described.index;
    scan.relation = Some((table.name.clone(), table.name.clone()));
    if let Some(condition) = described.condition {
        scan.detail("Index Cond", condition);
    }
    if !filter.is_empty() {
        let shown = names.list(filter, &columns, " AND ");
        let shown = match filter.len() {
            1 => shown,
            _ => format!("({shown})"),
        };
        scan.detail("Filter", shown);
    }
    scan
}
