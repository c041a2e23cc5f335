//! The deparser of views: prints a view's query as `pg_get_viewdef` does.
//!
//! PostgreSQL prints the query as its analysis left it: names are the present ones, every column
//! stands with its table, `*` is expanded, casts that were implied are written, and brackets stand
//! around every operator. Here the query is a text with names of the time when the view was made.
//! The deparser walks its tree with the binder at its side: the binder resolves the FROM list of
//! each level, and says what type an operand has.
//!
//! ```text
//!   select * from t natural join u where name like 'a%'
//!
//!    SELECT t.id,
//!       t.name,
//!       u.price
//!      FROM (t
//!        JOIN u USING (id))
//!     WHERE ((t.name)::text ~~ 'a%'::text);
//! ```
//!
//! Layout and brackets follow `ruleutils.c` of PostgreSQL 15: [`query`] has clauses and their
//! indents, [`group`] GROUP BY, [`window`] windows, [`expr`] expressions, [`call`] those with
//! arguments, [`constant`] literals.

mod call;
mod constant;
mod expr;
mod from;
mod group;
mod operator;
mod query;
mod window;

use std::sync::Arc;

use crate::Result;
use crate::catalog::{Catalog, Object, View};
use crate::expression::{
    Aggregates, Binder, EvaluationContext, Frame, Parameters, Scope, ScopeColumn, ScopeRelation,
    WindowList, Windows,
};
use crate::select;
use crate::value::ColumnType;

/// Prints a view's query; `pretty` leaves out brackets that are not needed.
pub(crate) fn view_text(
    object: &Object,
    view: &View,
    pretty: bool,
    context: &EvaluationContext<'_>,
) -> Result<String> {
    let nowhere = |_| None;
    let parameters = Parameters::default();
    let mut binder = Binder::new(context.catalog, context.session, &nowhere, parameters);
    let names: Vec<&str> = view
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let mut printed = select::inside_view(&mut binder, object, view, |binder, query| {
        let mut printer = Printer {
            out: String::new(),
            indent: 0,
            pretty,
            catalog: context.catalog,
            binder,
            taken: Vec::new(),
        };
        printer.query(query, Some(names.as_slice()), None)?;
        Ok(printer.out)
    })?;
    printed.push(';');
    Ok(printed)
}

/// What is printed, and with what.
struct Printer<'p, 'b> {
    out: String,
    /// Columns by which lines are indented.
    indent: i32,
    pretty: bool,
    catalog: &'p Arc<Catalog>,
    binder: &'p mut Binder<'b>,
    /// Names of the relations of all queries around the one that is printed.
    taken: Vec<String>,
}

/// One level of a query: its FROM list as the binder sees it, and as it is shown.
struct Level<'a> {
    scope: &'a Scope<'a>,
    /// What is shown for each of the scope's relations.
    shown: Vec<Shown>,
    /// The windows that the WINDOW clause names.
    windows: WindowList,
    outer: Option<&'a Level<'a>>,
}

/// A relation of FROM as it is shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    name: String,
    columns: Vec<String>,
}

/// A column as it is shown.
struct ShownColumn {
    /// Name of its relation; `None` for a column that FULL JOIN … USING has merged.
    relation: Option<String>,
    name: String,
}

impl Level<'_> {
    /// The column that a path names, here or further out.
    fn column(&self, path: &[String]) -> Option<ShownColumn> {
        let own = self.own(path);
        own.or_else(|| self.outer?.column(path))
    }

    /// The column of this level that a path names.
    fn own(&self, path: &[String]) -> Option<ShownColumn> {
        let (schema, relation, name) = match path {
            [name] => (None, None, name),
            [relation, name] => (None, Some(relation), name),
            [schema, relation, name] | [_, schema, relation, name] => {
                (Some(schema.as_str()), Some(relation), name)
            }
            _ => return None,
        };
        for (at, each) in self.scope.relations.iter().enumerate() {
            let position = match relation {
                Some(relation) => {
                    let is_meant = each.name == *relation
                        && schema.is_none_or(|schema| each.schema.as_deref() == Some(schema));
                    if !is_meant {
                        continue;
                    }
                    each.columns.iter().position(|column| column.name == *name)
                }
                None => {
                    let columns = each.columns.iter().zip(&each.merged);
                    let mut columns = columns.enumerate();
                    let found =
                        columns.find(|(_, (column, merged))| column.name == *name && !**merged);
                    found.map(|(position, _)| position)
                }
            };
            if let Some(position) = position {
                return Some(self.at(at, position));
            }
        }
        None
    }

    /// The column at a position of one of the scope's relations.
    fn at(&self, relation: usize, position: usize) -> ShownColumn {
        let each = &self.scope.relations[relation];
        let column = &each.columns[position];
        if each.name.is_empty() {
            return self.merged(column);
        }
        let shown = &self.shown[relation];
        let name = shown.columns.get(position);
        ShownColumn {
            relation: Some(shown.name.clone()),
            name: name.cloned().unwrap_or_else(|| column.name.to_string()),
        }
    }

    /// A column that USING has merged: the one of the two sides that it shows unchanged.
    fn merged(&self, column: &ScopeColumn) -> ShownColumn {
        let named = |relation: &&ScopeRelation| !relation.name.is_empty();
        for (at, each) in self.scope.relations.iter().enumerate() {
            let same = |other: &ScopeColumn| other.expression == column.expression;
            if let (true, Some(position)) = (named(&each), each.columns.iter().position(same)) {
                return self.at(at, position);
            }
        }
        ShownColumn {
            relation: None,
            name: column.name.to_string(),
        }
    }

    /// All columns that `*` shows.
    fn all(&self) -> Vec<(ShownColumn, String)> {
        let mut all = Vec::new();
        for (at, each) in self.scope.relations.iter().enumerate() {
            for (position, column) in each.columns.iter().enumerate() {
                if !each.merged[position] {
                    all.push((self.at(at, position), column.name.to_string()));
                }
            }
        }
        all
    }

    /// All columns of the relation that `t.*` names.
    fn all_of(&self, path: &[String]) -> Vec<(ShownColumn, String)> {
        let Some(name) = path.last() else {
            return Vec::new();
        };
        let mut relations = self.scope.relations.iter();
        let Some(at) = relations.position(|each| each.name == *name) else {
            return Vec::new();
        };
        let columns = self.scope.relations[at].columns.iter().enumerate();
        columns
            .map(|(position, column)| (self.at(at, position), column.name.to_string()))
            .collect()
    }
}

impl Printer<'_, '_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Begins a new line with a key word, `appendContextKeyword` of PostgreSQL.
    fn line(&mut self, text: &str, before: i32, after: i32, plus: i32) {
        /// Beyond this, lines are indented less and less.
        const LIMIT: i32 = 40;
        self.indent += before;
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        self.out.push('\n');
        let amount = match self.indent < LIMIT {
            true => self.indent.max(0),
            false => (LIMIT + (self.indent - LIMIT) / (STANDARD / 2)) % LIMIT,
        };
        for _ in 0..amount + plus {
            self.out.push(' ');
        }
        self.out.push_str(text);
        self.indent = (self.indent + after).max(0);
    }

    fn identifier(&mut self, name: &str) {
        let quoted = crate::catalog::quote_identifier(name);
        self.out.push_str(&quoted);
    }

    fn column(&mut self, column: &ShownColumn) {
        if let Some(relation) = &column.relation {
            self.identifier(relation);
            self.out.push('.');
        }
        self.identifier(&column.name);
    }

    /// Type of an expression, if the binder can tell.
    fn type_of(
        &mut self,
        expr: &coeval_sql_syntax::tree::Expr,
        level: &Level<'_>,
    ) -> Option<ColumnType> {
        self.bound(expr, level).map(|bound| bound.column_type)
    }

    /// An expression as the binder binds it in a select list.
    fn bound(
        &mut self,
        expr: &coeval_sql_syntax::tree::Expr,
        level: &Level<'_>,
    ) -> Option<crate::expression::Bound> {
        self.inside(level.scope.frame);
        let aggregates = Aggregates::Collected(Vec::new());
        let aggregates = std::mem::replace(&mut self.binder.aggregates, aggregates);
        let windows = Windows::Collected(level.windows.clone());
        let windows = std::mem::replace(&mut self.binder.windows, windows);
        let sets = self.binder.sets.replace(Vec::new());
        let bound = self.binder.bind(expr, level.scope);
        self.binder.aggregates = aggregates;
        self.binder.windows = windows;
        self.binder.sets = sets;
        bound.ok()
    }

    /// Tells the binder of the queries around the one whose parts it binds next.
    fn inside(&mut self, frame: &Frame<'_>) {
        let level = || (Aggregates::Collected(Vec::new()), Vec::new());
        self.binder.levels.clear();
        self.binder.levels.resize_with(frame.depth(), level);
    }
}

/// The indent of a query's clauses.
const STANDARD: i32 = 8;
/// The indent of joins.
const JOINED: i32 = 4;
/// The indent of the items of a list.
const ITEM: i32 = 4;
