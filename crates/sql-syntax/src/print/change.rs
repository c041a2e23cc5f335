//! Printing of INSERT, UPDATE, DELETE and MERGE.

use super::Printer;
use crate::tree::{
    Assignment, ConflictAction, ConflictTarget, Delete, Filter, Insert, Merge, MergeAction,
    OnConflict, Overriding, Target, Update,
};

impl Printer {
    pub(super) fn insert(&mut self, insert: &Insert) {
        self.with(insert.with.as_ref());
        self.put("INSERT INTO");
        self.path(&insert.table);
        self.named("AS", insert.alias.as_ref());
        self.bracketed_if_any(&insert.columns, Self::assign_target);
        self.overriding(insert.overriding);
        match &insert.source {
            Some(source) => self.query(source),
            None => self.put("DEFAULT VALUES"),
        }
        if let Some(conflict) = &insert.conflict {
            self.on_conflict(conflict);
        }
        self.returning(&insert.returning);
    }

    fn overriding(&mut self, overriding: Option<Overriding>) {
        self.put(match overriding {
            None => "",
            Some(Overriding::User) => "OVERRIDING USER VALUE",
            Some(Overriding::System) => "OVERRIDING SYSTEM VALUE",
        });
    }

    fn on_conflict(&mut self, conflict: &OnConflict) {
        self.put("ON CONFLICT");
        match &conflict.target {
            ConflictTarget::Any => {}
            ConflictTarget::Columns(items, filter) => {
                self.bracketed(items, Self::index_item);
                self.clause("WHERE", filter.as_ref());
            }
            ConflictTarget::Constraint(name) => self.named("ON CONSTRAINT", Some(name)),
        }
        match &conflict.action {
            ConflictAction::Nothing => self.put("DO NOTHING"),
            ConflictAction::Update(assignments, filter) => {
                self.put("DO UPDATE SET");
                self.assignments(assignments);
                self.clause("WHERE", filter.as_ref());
            }
        }
    }

    fn returning(&mut self, targets: &[Target]) {
        if !targets.is_empty() {
            self.put("RETURNING");
            self.targets(targets);
        }
    }

    fn assignments(&mut self, assignments: &[Assignment]) {
        self.list(assignments, |printer, assignment| match assignment {
            Assignment::One(target, value) => {
                printer.assign_target(target);
                printer.clause("=", Some(value));
            }
            Assignment::Several(targets, value) => {
                printer.bracketed(targets, Self::assign_target);
                printer.clause("=", Some(value));
            }
        });
    }

    fn filter(&mut self, filter: &Filter) {
        match filter {
            Filter::All => {}
            Filter::Where(condition) => self.clause("WHERE", Some(condition)),
            Filter::CurrentOf(cursor) => self.named("WHERE CURRENT OF", Some(cursor)),
        }
    }

    pub(super) fn update(&mut self, update: &Update) {
        self.with(update.with.as_ref());
        self.put("UPDATE");
        self.relation(&update.table);
        self.named("AS", update.alias.as_ref());
        self.put("SET");
        self.assignments(&update.assignments);
        self.from("FROM", &update.from);
        self.filter(&update.filter);
        self.returning(&update.returning);
    }

    pub(super) fn delete(&mut self, delete: &Delete) {
        self.with(delete.with.as_ref());
        self.put("DELETE FROM");
        self.relation(&delete.table);
        self.named("AS", delete.alias.as_ref());
        self.from("USING", &delete.using);
        self.filter(&delete.filter);
        self.returning(&delete.returning);
    }

    pub(super) fn merge(&mut self, merge: &Merge) {
        self.with(merge.with.as_ref());
        self.put("MERGE INTO");
        self.relation(&merge.table);
        self.named("AS", merge.alias.as_ref());
        self.put("USING");
        self.table_ref(&merge.source);
        self.clause("ON", Some(&merge.condition));
        for branch in &merge.branches {
            self.put(if branch.matched {
                "WHEN MATCHED"
            } else {
                "WHEN NOT MATCHED"
            });
            self.clause("AND", branch.condition.as_ref());
            self.put("THEN");
            match &branch.action {
                MergeAction::Nothing => self.put("DO NOTHING"),
                MergeAction::Delete => self.put("DELETE"),
                MergeAction::Update(assignments) => {
                    self.put("UPDATE SET");
                    self.assignments(assignments);
                }
                MergeAction::Insert {
                    columns,
                    overriding,
                    values,
                } => {
                    self.put("INSERT");
                    if values.is_empty() {
                        self.put("DEFAULT VALUES");
                    } else {
                        self.bracketed_if_any(columns, Self::assign_target);
                        self.overriding(*overriding);
                        self.put("VALUES");
                        self.bracketed_exprs(values);
                    }
                }
            }
        }
    }
}
