//! Printing of queries: clauses, each on a line of its own.

use coeval_sql_syntax::tree::{
    Body, Direction, Distinctness, Expr, ExprKind, Literal, LockStrength, LockWait, Query, Select,
    SetOperation, SetStep, SortItem, StatementKind, Target, With,
};

use super::expr::Around;
use super::{ITEM, Level, Printer, STANDARD, Shown, ShownColumn};
use crate::expression::{
    Aggregates, Bound, Frame, Scope, WindowList, Windows, fold_name, key_order, with_stack,
};
use crate::select;
use crate::value::DataType;
use crate::{Error, Result};

/// A column of a select list.
pub(super) enum Output<'q> {
    /// One that `*` stands for, with the name that it has in the query's text.
    Column(ShownColumn, String),
    Expr(&'q Expr, Option<String>),
}

impl Printer<'_, '_> {
    /// Prints a query; `names` are those that its columns get, for which else they show the ones
    /// that they have in the text.
    pub(super) fn query(
        &mut self,
        query: &Query,
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        with_stack(|| match &query.with {
            None => self.behind_with(query, names, outer),
            Some(with) => self.with(with, query, names, outer),
        })
    }

    /// Prints a subquery, with an indent of its own.
    pub(super) fn subquery(&mut self, query: &Query, outer: Option<&Level<'_>>) -> Result<()> {
        let indent = self.indent;
        let printed = self.query(query, None, outer);
        self.indent = indent;
        printed
    }

    fn with(
        &mut self,
        with: &With,
        query: &Query,
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        self.indent += STANDARD;
        self.put(if with.recursive {
            " WITH RECURSIVE "
        } else {
            " WITH "
        });
        let frame = frame(outer);
        self.inside(&frame);
        let known = self.binder.with.len();
        select::define_tables(self.binder, with, &frame)?;
        let taken = self.taken.len();
        if let Body::Select(select) = &query.body {
            let scope = select::from_scope(self.binder, &select.from, &frame)?;
            let shown = self.shown(&select.from, &scope);
            self.take_names(&shown);
        }
        for (at, table) in with.tables.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.identifier(&fold_name(&table.name));
            self.names(table.columns.iter().map(fold_name));
            self.put(match table.materialized {
                None => " AS (",
                Some(true) => " AS MATERIALIZED (",
                Some(false) => " AS NOT MATERIALIZED (",
            });
            let StatementKind::Query(inner) = &*table.statement else {
                return Err(Error::internal("a view that changes rows"));
            };
            self.line("", 0, 0, 0);
            // Without RECURSIVE, a table sees those before it.
            let hidden = match with.recursive {
                true => Vec::new(),
                false => self.binder.with.split_off(known + at),
            };
            let printed = self.subquery(inner, outer);
            self.binder.with.extend(hidden);
            printed?;
            self.line("", 0, 0, 0);
            self.put(")");
        }
        self.taken.truncate(taken);
        self.indent -= STANDARD;
        self.line("", 0, 0, 0);
        let printed = self.behind_with(query, names, outer);
        self.binder.with.truncate(known);
        printed
    }

    /// Names in brackets, or nothing.
    pub(super) fn names(&mut self, names: impl Iterator<Item = String>) {
        let mut any = false;
        for name in names {
            self.put(if any { ", " } else { "(" });
            self.identifier(&name);
            any = true;
        }
        self.put(if any { ")" } else { "" });
    }

    fn behind_with(
        &mut self,
        query: &Query,
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        let whole;
        match &query.body {
            Body::Select(select) => self.select(select, query, names, outer),
            Body::Table(relation) => {
                let all = vec![Target::Star(relation.name.at())];
                whole = Select::from_relation(relation.clone(), all);
                self.select(&whole, query, names, outer)
            }
            Body::Values(rows) => {
                self.values_query(rows, names, outer)?;
                self.of_columns(query, outer)
            }
            Body::Set(first, steps) => {
                self.steps(first, steps, names, outer)?;
                self.of_columns(query, outer)
            }
        }
    }

    /// ORDER BY and what follows it, of a query whose ORDER BY can name result columns only.
    fn of_columns(&mut self, query: &Query, outer: Option<&Level<'_>>) -> Result<()> {
        let frame = frame(outer);
        let scope = Scope::empty(&frame);
        let level = Level {
            scope: &scope,
            shown: Vec::new(),
            windows: WindowList::default(),
            outer,
        };
        let own = match query.order.is_empty() {
            true => Vec::new(),
            false => {
                let plain = Query {
                    with: None,
                    order: Vec::new(),
                    limit: None,
                    offset: None,
                    locking: Vec::new(),
                    ..query.clone()
                };
                self.inside(&frame);
                let plan = select::plan_in_frame(self.binder, &plain, &frame)?;
                plan.columns()
                    .iter()
                    .map(|column| column.name.clone())
                    .collect()
            }
        };
        for (at, item) in query.order.iter().enumerate() {
            match at {
                0 => self.line(" ORDER BY ", -STANDARD, STANDARD, 1),
                _ => self.put(", "),
            }
            let number = match &item.expr.kind {
                ExprKind::Literal(Literal::Integer(number)) => Some(*number),
                ExprKind::Column { path, star: false } if path.0.len() == 1 => {
                    let name = fold_name(&path.0[0]);
                    let mut columns = own.iter();
                    let position = columns.position(|column| *column == name);
                    position.map(|position| position as i32 + 1)
                }
                _ => None,
            };
            match number {
                Some(number) => self.put(&number.to_string()),
                None => self.expr(&item.expr, &level, Around::TOP)?,
            }
            self.direction(item)?;
        }
        self.limits(query, &level)
    }

    /// Set operations from the left.
    fn steps(
        &mut self,
        first: &Query,
        steps: &[SetStep],
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        let Some((last, before)) = steps.split_last() else {
            return self.operand(first, names, outer);
        };
        let nested = before.last();
        let same =
            nested.is_none_or(|left| left.operation == last.operation && left.all == last.all);
        if same {
            with_stack(|| self.steps(first, before, names, outer))?;
            self.line("", 0, 0, 0);
        } else {
            self.put("(");
            self.line("", STANDARD, 0, 0);
            with_stack(|| self.steps(first, before, names, outer))?;
            self.line(") ", -STANDARD, 0, 0);
        }
        self.put(match last.operation {
            SetOperation::Union => "UNION ",
            SetOperation::Intersect => "INTERSECT ",
            SetOperation::Except => "EXCEPT ",
        });
        self.put(if last.all { "ALL " } else { "" });
        let is_nested = matches!(&last.query.body, Body::Set(_, steps) if !steps.is_empty());
        if !is_nested {
            self.line("", 0, 0, 0);
            return self.operand(&last.query, names, outer);
        }
        self.put("(");
        self.line("", STANDARD, 0, 0);
        self.operand(&last.query, names, outer)?;
        self.indent -= STANDARD;
        self.line(")", 0, 0, 0);
        Ok(())
    }

    fn operand(
        &mut self,
        query: &Query,
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        let enclosed = query.with.is_some()
            || !query.order.is_empty()
            || query.limit.is_some()
            || query.offset.is_some()
            || !query.locking.is_empty();
        self.put(if enclosed { "(" } else { "" });
        let indent = self.indent;
        let printed = self.query(query, names, outer);
        self.indent = indent;
        self.put(if enclosed { ")" } else { "" });
        printed
    }

    /// A whole query that is VALUES.
    fn values_query(
        &mut self,
        rows: &[Vec<Expr>],
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        self.indent += STANDARD;
        self.put(" ");
        let width = rows.first().map_or(0, Vec::len);
        let own = (1..=width).map(|number| format!("column{number}"));
        let own: Vec<String> = own.collect();
        let renamed = names.filter(|names| names.iter().zip(&own).any(|(one, other)| one != other));
        let Some(names) = renamed else {
            return self.values(rows, outer);
        };
        self.put("SELECT ");
        for (at, (name, own)) in names.iter().zip(&own).enumerate() {
            if at > 0 {
                self.put(", ");
                self.line("", -STANDARD, STANDARD, ITEM);
            }
            self.put("\"*VALUES*\".");
            self.identifier(own);
            if name != own {
                self.put(" AS ");
                self.identifier(name);
            }
        }
        self.line(" FROM (", -STANDARD, STANDARD, 2);
        self.values(rows, outer)?;
        self.put(") \"*VALUES*\"");
        Ok(())
    }

    /// `VALUES (…), (…)`
    pub(super) fn values(&mut self, rows: &[Vec<Expr>], outer: Option<&Level<'_>>) -> Result<()> {
        let frame = frame(outer);
        let scope = Scope::empty(&frame);
        let level = Level {
            scope: &scope,
            shown: Vec::new(),
            windows: WindowList::default(),
            outer,
        };
        let width = rows.first().map_or(0, Vec::len);
        let mut wanted = Vec::with_capacity(width);
        for column in 0..width {
            let mut bounds = Vec::new();
            for row in rows {
                let bound = row.get(column).and_then(|expr| self.bound(expr, &level));
                bounds.extend(bound);
            }
            wanted.push(self.common_type(bounds));
        }
        self.put("VALUES ");
        for (at, row) in rows.iter().enumerate() {
            self.put(if at > 0 { ", (" } else { "(" });
            for (column, expr) in row.iter().enumerate() {
                self.put(if column > 0 { "," } else { "" });
                let wanted = wanted.get(column).copied().flatten();
                self.as_type(expr, &level, wanted, Around::TOP)?;
            }
            self.put(")");
        }
        Ok(())
    }

    /// The type that these have in common.
    pub(super) fn common_type(&mut self, bounds: Vec<Bound>) -> Option<DataType> {
        let types: Vec<DataType> = bounds
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        crate::expression::common_type(&types)
    }

    fn select(
        &mut self,
        select: &Select,
        query: &Query,
        names: Option<&[&str]>,
        outer: Option<&Level<'_>>,
    ) -> Result<()> {
        let frame = frame(outer);
        self.inside(&frame);
        let scope = select::from_scope(self.binder, &select.from, &frame)?;
        let shown = self.shown(&select.from, &scope);
        let windows = self.named_windows(select, &scope)?;
        let taken = self.taken.len();
        self.take_names(&shown);
        let level = Level {
            scope: &scope,
            shown,
            windows,
            outer,
        };
        self.indent += STANDARD;
        self.put(" SELECT");
        let outputs = outputs(select, &level);
        match &select.distinct {
            Distinctness::All => {}
            Distinctness::Distinct => self.put(" DISTINCT"),
            Distinctness::On(list) => {
                self.put(" DISTINCT ON (");
                for (at, expr) in list.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    self.key(expr, &outputs, &level)?;
                }
                self.put(")");
            }
        }
        self.targets(&outputs, names, &level)?;
        self.from(&select.from, &level)?;
        if let Some(filter) = &select.filter {
            self.line(" WHERE ", -STANDARD, STANDARD, 1);
            self.expr(filter, &level, Around::TOP)?;
        }
        self.groups(select, &outputs, &level)?;
        if let Some(having) = &select.having {
            self.line(" HAVING ", -STANDARD, STANDARD, 0);
            self.expr(having, &level, Around::TOP)?;
        }
        for (at, (name, window)) in select.windows.iter().enumerate() {
            match at {
                0 => self.line(" WINDOW ", -STANDARD, STANDARD, 1),
                _ => self.put(", "),
            }
            self.identifier(&fold_name(name));
            self.put(" AS ");
            self.window(window, &level)?;
        }
        for (at, item) in query.order.iter().enumerate() {
            match at {
                0 => self.line(" ORDER BY ", -STANDARD, STANDARD, 1),
                _ => self.put(", "),
            }
            self.key(&item.expr, &outputs, &level)?;
            self.direction(item)?;
        }
        self.limits(query, &level)?;
        self.taken.truncate(taken);
        Ok(())
    }

    /// Takes the names of a FROM list, for the queries within.
    fn take_names(&mut self, shown: &[Shown]) {
        let named = shown.iter().filter(|each| !each.name.is_empty());
        self.taken.extend(named.map(|each| each.name.clone()));
    }

    /// The windows of the WINDOW clause.
    fn named_windows(&mut self, select: &Select, scope: &Scope<'_>) -> Result<WindowList> {
        let aggregates = Aggregates::Collected(Vec::new());
        let aggregates = std::mem::replace(&mut self.binder.aggregates, aggregates);
        let windows = Windows::Collected(WindowList::default());
        let windows = std::mem::replace(&mut self.binder.windows, windows);
        let named = self.binder.name_windows(&select.windows, scope);
        let windows = std::mem::replace(&mut self.binder.windows, windows);
        self.binder.aggregates = aggregates;
        named?;
        match windows {
            Windows::Collected(list) => Ok(list),
            _ => Err(Error::internal("windows are not collected here")),
        }
    }

    fn targets(
        &mut self,
        outputs: &[Output<'_>],
        names: Option<&[&str]>,
        level: &Level<'_>,
    ) -> Result<()> {
        for (at, output) in outputs.iter().enumerate() {
            if at == 0 {
                self.put(" ");
            } else {
                self.put(",");
            }
            let start = self.out.len();
            if at > 0 {
                self.line("", -STANDARD, STANDARD, ITEM);
            }
            let (printed, own) = match output {
                Output::Column(column, own) => {
                    self.column(column);
                    (Some(column.name.clone()), own.clone())
                }
                Output::Expr(expr, label) => {
                    let printed = self.output(expr, level)?;
                    let own = label.clone().unwrap_or_else(|| select::column_name(expr));
                    (printed, own)
                }
            };
            // CASE begins a line by itself.
            if self.out[start..].starts_with("\n\n") {
                self.out.remove(start);
            }
            let name = match names.and_then(|names| names.get(at)) {
                Some(name) => (*name).to_owned(),
                None => own,
            };
            let printed = printed.or_else(|| {
                // A nameless column of a subquery needs no name.
                let nameless = names.is_none() && name == "?column?";
                nameless.then(|| name.clone())
            });
            if printed.as_ref() != Some(&name) {
                self.put(" AS ");
                self.identifier(&name);
            }
        }
        Ok(())
    }

    /// An expression of a select list. Returns the name that a column has of itself.
    fn output(&mut self, expr: &Expr, level: &Level<'_>) -> Result<Option<String>> {
        if let ExprKind::Column { path, star: false } = &expr.kind {
            let path: Vec<String> = path.0.iter().map(fold_name).collect();
            if let Some(column) = level.column(&path) {
                self.column(&column);
                return Ok(Some(column.name));
            }
        }
        self.as_type(expr, level, Some(DataType::Text), Around::TOP)?;
        Ok(None)
    }

    pub(super) fn direction(&mut self, item: &SortItem) -> Result<()> {
        if let Direction::Using(operator) = &item.direction {
            self.put(" USING ");
            self.put(&operator.symbol);
            return Ok(());
        }
        let order = key_order(item)?;
        self.put(match (order.descending, order.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        });
        Ok(())
    }

    fn limits(&mut self, query: &Query, level: &Level<'_>) -> Result<()> {
        if let Some(offset) = &query.offset {
            self.line(" OFFSET ", -STANDARD, STANDARD, 0);
            self.expr(offset, level, Around::TOP)?;
        }
        if let Some(limit) = &query.limit {
            match (&limit.count, limit.with_ties) {
                (Some(count), true) => {
                    self.line(" FETCH FIRST ", -STANDARD, STANDARD, 0);
                    self.expr(count, level, Around::TOP)?;
                    self.put(" ROWS WITH TIES");
                }
                (Some(count), false) => {
                    self.line(" LIMIT ", -STANDARD, STANDARD, 0);
                    self.expr(count, level, Around::TOP)?;
                }
                (None, _) => self.line(" LIMIT ALL", -STANDARD, STANDARD, 0),
            }
        }
        for locking in &query.locking {
            self.line(
                match locking.strength {
                    LockStrength::Update => " FOR UPDATE",
                    LockStrength::NoKeyUpdate => " FOR NO KEY UPDATE",
                    LockStrength::Share => " FOR SHARE",
                    LockStrength::KeyShare => " FOR KEY SHARE",
                },
                -STANDARD,
                STANDARD,
                0,
            );
            for (at, table) in locking.tables.iter().enumerate() {
                self.put(if at > 0 { ", " } else { " OF " });
                if let Some(name) = table.0.last() {
                    self.identifier(&fold_name(name));
                }
            }
            self.put(match locking.wait {
                LockWait::Wait => "",
                LockWait::NoWait => " NOWAIT",
                LockWait::SkipLocked => " SKIP LOCKED",
            });
        }
        Ok(())
    }
}

/// The frame of a query in this level, or in none.
fn frame<'a>(outer: Option<&'a Level<'a>>) -> Frame<'a> {
    match outer {
        Some(outer) => Frame::inside(outer.scope),
        None => Frame::outermost(),
    }
}

/// The columns of a select list.
fn outputs<'q>(select: &'q Select, level: &Level<'_>) -> Vec<Output<'q>> {
    let mut outputs = Vec::new();
    let star = |(column, own)| Output::Column(column, own);
    for target in &select.targets {
        match target {
            Target::Star(_) => outputs.extend(level.all().into_iter().map(star)),
            Target::Expr(
                Expr {
                    kind: ExprKind::Column { path, star: true },
                    ..
                },
                _,
            ) => {
                let path: Vec<String> = path.0.iter().map(fold_name).collect();
                outputs.extend(level.all_of(&path).into_iter().map(star));
            }
            Target::Expr(expr, label) => {
                outputs.push(Output::Expr(expr, label.as_ref().map(fold_name)));
            }
        }
    }
    outputs
}

/// Nothing is shown for a relation without a name.
impl Shown {
    pub(super) fn nothing() -> Self {
        Self::default()
    }
}
