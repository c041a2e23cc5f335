//! The planner for UPDATE … FROM and DELETE … USING.

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Filter, Name, TableRef};

use super::bind::{assignments, returning};
use super::subject::{Subject, Verb};
use super::{ChangeKind, ChangePlan, JoinedPlan, Rules};
use crate::catalog::fold;
use crate::error::{Error, Result};
use crate::expression::{Binder, Expression, Frame};
use crate::select::JoinedTarget;

/// What a joined change consists of.
struct Joined<'tree> {
    table: Subject,
    alias: Option<&'tree Name>,
    list: &'tree [TableRef],
    filter: &'tree Filter,
    /// The assignments of UPDATE; `None` for DELETE.
    assignments: Option<&'tree [tree::Assignment]>,
    returning: &'tree [tree::Target],
}

/// Plans an UPDATE with a FROM list.
pub(super) fn update(update: &tree::Update, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let joined = Joined {
        table: Subject::named(&update.table.name, Verb::Update, binder)?,
        alias: update.alias.as_ref(),
        list: &update.from,
        filter: &update.filter,
        assignments: Some(&update.assignments),
        returning: &update.returning,
    };
    joined.plan(binder)
}

/// Plans a DELETE with a USING list.
pub(super) fn delete(delete: &tree::Delete, binder: &mut Binder<'_>) -> Result<ChangePlan> {
    let joined = Joined {
        table: Subject::named(&delete.table.name, Verb::Delete, binder)?,
        alias: delete.alias.as_ref(),
        list: &delete.using,
        filter: &delete.filter,
        assignments: None,
        returning: &delete.returning,
    };
    joined.plan(binder)
}

impl Joined<'_> {
    fn plan(self, binder: &mut Binder<'_>) -> Result<ChangePlan> {
        let table = self.table;
        let frame = Frame::outermost();
        let alias = self.alias.map(fold);
        let named = |start: usize| table.called(alias.as_deref(), start);
        let target = JoinedTarget::bind(binder, table.table(), named, self.list, &frame)?;
        let mut conditions: Vec<Expression> = table.conditions_at(target.start).collect();
        match self.filter {
            Filter::All => {}
            Filter::CurrentOf(cursor) => {
                let position = binder.position(cursor.at);
                return Err(
                    Error::unsupported("WHERE CURRENT OF with a list of tables").at(position)
                );
            }
            Filter::Where(condition) => {
                let bound = binder.in_clause("WHERE", |binder| {
                    binder.bind_condition(condition, &target.scope, "WHERE")
                });
                conditions.extend(bound?.conjuncts());
            }
        }
        let condition = (!conditions.is_empty()).then(|| Expression::all_of(conditions));
        let assignments = match self.assignments {
            None => None,
            Some(list) => Some(assignments(list, &table, &target.scope, binder)?),
        };
        let returning = returning(self.returning, &target.scope, binder)?;
        let set = assignments.iter().flatten().map(|each| &each.value);
        let returned = returning.iter().flat_map(|each| &each.expressions);
        let rules = match &assignments {
            Some(_) => Rules::bind(&table, binder.catalog, binder.session)?,
            None => Rules::default(),
        };
        let start = target.start;
        let source = target.plan(binder, condition.as_ref(), set.chain(returned))?;
        Ok(ChangePlan {
            checks: table.checks(binder),
            table: table.into_table(),
            kind: ChangeKind::Joined(JoinedPlan {
                source: Arc::new(source),
                start,
                condition,
                assignments,
            }),
            rules,
            returning,
        })
    }
}
