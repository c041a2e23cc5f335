//! EXPLAIN: describing a statement's plan, and running it for EXPLAIN ANALYZE.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::Direction;

use super::Session;
use super::prepared::Plan;
use super::transaction::Block;
use crate::catalog::{Catalog, Table};
use crate::change::{ChangeKind, ChangePlan, ChangeTarget, Changed, InsertSource};
use crate::copy::CopyPlan;
use crate::error::{Error, Result};
use crate::expression::EvaluationContext;
use crate::route::Route;
use crate::select::Cursor;
use crate::statement::{Command, ExplainCommand, Statement};
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
        let mut lines = describe(plan);
        lines.extend(self.describe_route(route));
        if !explain.analyze {
            return Ok(Some(lines));
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
                let mut cursor = Cursor::new(query);
                let mut rows: u64 = 0;
                let mut row = Vec::new();
                while cursor.next(&mut context, &mut row).await? {
                    rows += 1;
                }
                self.take_over(viewer);
                rows
            }
            Plan::Change(change) => match self.execute_change(change, catalog, parameters).await? {
                Changed::Rows { count, .. } => count,
                Changed::Outdated => return Ok(None),
            },
            Plan::Copy(_) | Plan::Explain(..) => {
                return Err(Error::unsupported("EXPLAIN ANALYZE of this statement"));
            }
        };
        let took = began.elapsed();
        lines.extend(self.describe_freshness(explain.timing));
        lines.push(format!("Rows: {rows}"));
        if explain.timing {
            lines.push(format!(
                "Execution Time: {:.3} ms",
                took.as_secs_f64() * 1000.0
            ));
        }
        Ok(Some(lines))
    }
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

fn describe(plan: &Plan) -> Vec<String> {
    match plan {
        Plan::Query(query) => query.explain(),
        Plan::Change(change) => describe_change(change),
        Plan::Copy(copy) => match &**copy {
            CopyPlan::In(into) => vec![format!("Copy into {}", into.table.name)],
            CopyPlan::Out(out) => below("Copy out".to_owned(), out.query.explain()),
        },
        Plan::Explain(plan, _) => describe(plan),
    }
}

fn below(head: String, lines: Vec<String>) -> Vec<String> {
    let mut all = vec![head];
    for (position, line) in lines.into_iter().enumerate() {
        all.push(if position == 0 {
            format!("  ->  {line}")
        } else {
            format!("      {line}")
        });
    }
    all
}

fn describe_change(change: &ChangePlan) -> Vec<String> {
    let table = &*change.table;
    let name = &table.name;
    match &change.kind {
        ChangeKind::Insert(insert) => match &insert.source {
            InsertSource::Values(rows) => {
                vec![
                    format!("Insert on {name}"),
                    format!("  ->  Values ({})", rows.len()),
                ]
            }
            InsertSource::Query { plan, .. } => below(format!("Insert on {name}"), plan.explain()),
        },
        ChangeKind::Update(update) => below(
            format!("Update on {name}"),
            describe_target(table, &update.target),
        ),
        ChangeKind::Delete(delete) => below(
            format!("Delete on {name}"),
            describe_target(table, &delete.target),
        ),
    }
}

fn describe_target(table: &Table, target: &ChangeTarget) -> Vec<String> {
    target.access.path.describe(
        table,
        &table.name,
        Direction::Forward,
        !target.access.filter.is_empty(),
    )
}
