//! Printing of FROM: relations under their present names, joins in brackets.

use coeval_sql_syntax::tree::{
    Alias, Expr, ExprKind, FunctionTable, Join, JoinCondition, JoinKind, Relation, TableFactor,
    TableRef,
};

use super::expr::Around;
use super::{ITEM, JOINED, Level, Printer, STANDARD, Shown};
use crate::Result;
use crate::expression::{Scope, fold_name};

impl Printer<'_, '_> {
    /// What is shown for the relations of a scope that FROM has made: each under a name that no
    /// other one has, here and in the queries around.
    pub(super) fn shown(&self, from: &[TableRef], scope: &Scope<'_>) -> Vec<Shown> {
        let mut all = self.shown_as_written(from, scope);
        let mut own: Vec<String> = Vec::new();
        for shown in all.iter_mut().filter(|shown| !shown.name.is_empty()) {
            let is_taken = |name: &String| self.taken.contains(name) || own.contains(name);
            let mut name = shown.name.clone();
            let mut number = 0;
            while is_taken(&name) {
                number += 1;
                name = format!("{}_{number}", shown.name);
            }
            own.push(name.clone());
            shown.name = name;
        }
        all
    }

    /// [`Printer::shown`] under the present names and the aliases.
    fn shown_as_written(&self, from: &[TableRef], scope: &Scope<'_>) -> Vec<Shown> {
        let mut factors = Vec::new();
        from.iter().for_each(|item| collect(item, &mut factors));
        let mut factors = factors.into_iter();
        let relations = scope.relations.iter();
        relations
            .map(|relation| {
                if relation.name.is_empty() {
                    return Shown::nothing();
                }
                let factor = factors.next();
                let own = factor.and_then(|factor| match factor {
                    TableFactor::Table {
                        relation, alias, ..
                    } => self.present(relation, alias.as_ref()),
                    _ => None,
                });
                let mut columns: Vec<String> = relation
                    .columns
                    .iter()
                    .map(|column| {
                        let origin = column
                            .origin
                            .and_then(|(_, attribute)| own.as_ref()?.column(attribute));
                        origin.unwrap_or_else(|| column.name.to_string())
                    })
                    .collect();
                let alias = factor.and_then(alias_of);
                let renamed = alias.map_or(&[][..], |alias| &alias.columns);
                for (column, renamed) in columns.iter_mut().zip(renamed) {
                    *column = fold_name(renamed);
                }
                let name = match (alias, &own) {
                    (None, Some(own)) => own.name.clone(),
                    _ => relation.name.to_string(),
                };
                Shown { name, columns }
            })
            .collect()
    }

    /// The relation that a name of the view's text stands for, as it is called by now.
    fn present(&self, relation: &Relation, _: Option<&Alias>) -> Option<Present> {
        let parts: Vec<String> = relation.name.0.iter().map(fold_name).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (None, name),
            [schema, name] | [_, schema, name] => (Some(schema.as_str()), name),
            _ => return None,
        };
        // A table of WITH hides a relation of its name.
        let with = &self.binder.with;
        if schema.is_none() && with.iter().any(|table| table.is_called(name)) {
            return None;
        }
        let definition = self.binder.views.definition.as_ref()?;
        let oid = definition.reference(schema, name)?.oid;
        if let Some(table) = self.catalog.table_by_oid(oid) {
            let columns = table.columns.iter();
            return Some(Present {
                name: table.name.clone(),
                columns: columns
                    .map(|column| (column.attribute, column.name.clone()))
                    .collect(),
            });
        }
        let object = self.catalog.object_by_oid(oid)?;
        let columns = object.view().map_or(&[][..], |view| &view.columns);
        Some(Present {
            name: object.name.clone(),
            columns: columns
                .iter()
                .zip(1..)
                .map(|(column, attribute)| (attribute, column.name.clone()))
                .collect(),
        })
    }

    pub(super) fn from(&mut self, from: &[TableRef], level: &Level<'_>) -> Result<()> {
        for (at, item) in from.iter().enumerate() {
            match at {
                0 => self.line(" FROM ", -STANDARD, STANDARD, 2),
                _ => {
                    self.put(", ");
                    self.line("", -STANDARD, STANDARD, ITEM);
                }
            }
            self.item(item, level)?;
        }
        Ok(())
    }

    /// A relation and what is joined to it, from the left.
    fn item(&mut self, item: &TableRef, level: &Level<'_>) -> Result<()> {
        if !self.pretty {
            item.joins.iter().for_each(|_| self.put("("));
        }
        self.factor(&item.first, level)?;
        for join in &item.joins {
            self.join(join, level)?;
            self.put(if self.pretty { "" } else { ")" });
        }
        Ok(())
    }

    fn join(&mut self, join: &Join, level: &Level<'_>) -> Result<()> {
        let has_condition = join.condition != JoinCondition::None;
        self.line(
            match join.kind {
                JoinKind::Cross | JoinKind::Inner if !has_condition => " CROSS JOIN ",
                JoinKind::Cross | JoinKind::Inner => " JOIN ",
                JoinKind::Left => " LEFT JOIN ",
                JoinKind::Right => " RIGHT JOIN ",
                JoinKind::Full => " FULL JOIN ",
            },
            -STANDARD,
            STANDARD,
            JOINED,
        );
        let nested = self.pretty && !join.right.joins.is_empty();
        self.put(if nested { "(" } else { "" });
        self.item(&join.right, level)?;
        self.put(if nested { ")" } else { "" });
        match &join.condition {
            JoinCondition::None => {}
            JoinCondition::Natural => {
                let names = self.natural(join, level);
                match names.is_empty() {
                    // Without common columns it is a cross join.
                    true => {}
                    false => {
                        self.put(" USING ");
                        self.names(names.into_iter());
                    }
                }
            }
            JoinCondition::Using(names, alias) => {
                self.put(" USING ");
                self.names(names.iter().map(fold_name));
                if let Some(alias) = alias {
                    self.put(" AS ");
                    self.identifier(&fold_name(alias));
                }
            }
            JoinCondition::On(condition) => {
                self.put(if self.pretty { " ON " } else { " ON (" });
                self.expr(condition, level, Around::TOP)?;
                self.put(if self.pretty { "" } else { ")" });
            }
        }
        Ok(())
    }

    /// The columns by which a natural join joins: those of the right side that it has merged.
    fn natural(&self, join: &Join, level: &Level<'_>) -> Vec<String> {
        let mut factors = Vec::new();
        collect(&join.right, &mut factors);
        let mut names = Vec::new();
        for factor in factors {
            let Some(name) = written_name(factor) else {
                continue;
            };
            let relations = level.scope.relations.iter();
            for relation in relations.filter(|relation| relation.name == name) {
                let columns = relation.columns.iter().zip(&relation.merged);
                let merged = columns.filter(|(_, merged)| **merged);
                names.extend(merged.map(|(column, _)| column.name.to_string()));
            }
        }
        names
    }

    fn factor(&mut self, factor: &TableFactor, level: &Level<'_>) -> Result<()> {
        match factor {
            TableFactor::Table {
                relation,
                alias,
                sample: _,
            } => {
                self.put(if relation.only { "ONLY " } else { "" });
                let written = relation.name.0.last().map(fold_name).unwrap_or_default();
                let present = self.present(relation, alias.as_ref());
                let schema = match relation.name.0.as_slice() {
                    [schema, _] | [_, schema, _] if present.is_none() => Some(fold_name(schema)),
                    _ => None,
                };
                if let Some(schema) = schema.filter(|schema| schema != "pg_catalog") {
                    self.identifier(&schema);
                    self.put(".");
                }
                let name = present.map_or(written, |present| present.name);
                self.identifier(&name);
                match self.shown_name(factor, level) {
                    Some(shown) if alias.is_none() && shown != name => {
                        self.put(" ");
                        self.identifier(&shown);
                    }
                    shown => self.alias(alias.as_ref(), shown),
                }
            }
            TableFactor::Query {
                lateral,
                query,
                alias,
            } => {
                self.put(if *lateral { "LATERAL " } else { "" });
                self.put("(");
                let outer = match lateral {
                    true => Some(level),
                    false => level.outer,
                };
                self.subquery(query, outer)?;
                self.put(")");
                let shown = self.shown_name(factor, level);
                self.alias(alias.as_ref(), shown);
            }
            TableFactor::Functions(functions) => self.functions(functions, level)?,
            TableFactor::Xml(_) => {}
            TableFactor::Joined(item, alias) => {
                let enclosed = alias.is_some() && self.pretty;
                self.put(if enclosed { "(" } else { "" });
                self.item(item, level)?;
                self.put(if enclosed { ")" } else { "" });
                self.alias(alias.as_ref(), None);
            }
        }
        Ok(())
    }

    /// The name that is shown for an item of FROM.
    fn shown_name(&self, factor: &TableFactor, level: &Level<'_>) -> Option<String> {
        let written = written_name(factor)?;
        let mut relations = level.scope.relations.iter().zip(&level.shown);
        let found = relations.find(|(relation, _)| relation.name == written);
        found.map(|(_, shown)| shown.name.clone())
    }

    /// An alias, under the name that is shown for it.
    fn alias(&mut self, alias: Option<&Alias>, shown: Option<String>) {
        if let Some(alias) = alias {
            self.put(" ");
            let name = shown.unwrap_or_else(|| fold_name(&alias.name));
            self.identifier(&name);
            self.names(alias.columns.iter().map(fold_name));
        }
    }

    fn functions(&mut self, table: &FunctionTable, level: &Level<'_>) -> Result<()> {
        self.put(if table.lateral { "LATERAL " } else { "" });
        self.put(if table.rows_from { "ROWS FROM(" } else { "" });
        for (at, (call, _)) in table.functions.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.expr(call, level, Around::TOP)?;
        }
        self.put(if table.rows_from { ")" } else { "" });
        self.put(if table.ordinality {
            " WITH ORDINALITY"
        } else {
            ""
        });
        // A function always shows its alias and its columns.
        let written = written_function(table).unwrap_or_default();
        let relations = level.scope.relations.iter().zip(&level.shown);
        let mut own = relations.filter(|(relation, _)| relation.name == written);
        if let Some((_, shown)) = own.next() {
            let (name, columns) = (shown.name.clone(), shown.columns.clone());
            self.put(" ");
            self.identifier(&name);
            self.names(columns.into_iter());
        }
        Ok(())
    }
}

/// A relation as it is called by now.
struct Present {
    name: String,
    columns: Vec<(i16, String)>,
}

impl Present {
    fn column(&self, attribute: i16) -> Option<String> {
        let mut columns = self.columns.iter();
        let found = columns.find(|(number, _)| *number == attribute);
        found.map(|(_, name)| name.clone())
    }
}

/// The relations of an item of FROM, in the order in which the binder adds them.
fn collect<'q>(item: &'q TableRef, factors: &mut Vec<&'q TableFactor>) {
    let mut add = |factor: &'q TableFactor| match factor {
        TableFactor::Joined(inner, _) => collect(inner, factors),
        factor => factors.push(factor),
    };
    add(&item.first);
    for join in &item.joins {
        collect(&join.right, factors);
    }
}

fn alias_of(factor: &TableFactor) -> Option<&Alias> {
    match factor {
        TableFactor::Table { alias, .. } | TableFactor::Query { alias, .. } => alias.as_ref(),
        TableFactor::Functions(table) => table.alias.as_ref(),
        TableFactor::Xml(_) | TableFactor::Joined(..) => None,
    }
}

/// The name by which the text refers to a relation of FROM.
fn written_name(factor: &TableFactor) -> Option<String> {
    if let Some(alias) = alias_of(factor) {
        return Some(fold_name(&alias.name));
    }
    match factor {
        TableFactor::Table { relation, .. } => relation.name.0.last().map(fold_name),
        TableFactor::Functions(table) => written_function(table),
        _ => None,
    }
}

fn written_function(table: &FunctionTable) -> Option<String> {
    if let Some(alias) = &table.alias {
        return Some(fold_name(&alias.name));
    }
    match table.functions.first() {
        Some((
            Expr {
                kind: ExprKind::Function(call),
                ..
            },
            _,
        )) => call.name.0.last().map(fold_name),
        _ => None,
    }
}
