//! Printing of queries: operands of set operations and subqueries in brackets, joins from the left.

use super::Printer;
use crate::tree::{
    Alias, AssignTarget, Body, ColumnType, CommonTable, Direction, Distinctness, FunctionTable,
    GroupItem, Join, JoinCondition, JoinKind, LockStrength, LockWait, Locking, NullsOrder,
    Persistence, Query, Relation, Select, SetOperation, SetStep, SortItem, TableFactor, TableRef,
    Target, With, XmlTable,
};

impl Printer {
    pub(super) fn query(&mut self, query: &Query) {
        stacker::maybe_grow(64 << 10, 2 << 20, || self.query_inside(query));
    }

    fn query_inside(&mut self, query: &Query) {
        self.with(query.with.as_ref());
        match &query.body {
            Body::Select(select) => self.select(select),
            Body::Values(rows) => {
                self.put("VALUES");
                self.list(rows, |printer, row| printer.bracketed_exprs(row));
            }
            Body::Table(relation) => {
                self.put("TABLE");
                self.relation(relation);
            }
            Body::Set(first, steps) => {
                let binds_more = |step: &SetStep| step.operation == SetOperation::Intersect;
                let breaks: Vec<bool> = steps
                    .windows(2)
                    .map(|pair| binds_more(&pair[0]) != binds_more(&pair[1]))
                    .collect();
                for _ in breaks.iter().filter(|due| **due) {
                    self.put("(");
                }
                self.brackets(|printer| printer.query(first));
                for (index, step) in steps.iter().enumerate() {
                    if index > 0 && breaks[index - 1] {
                        self.put(")");
                    }
                    self.put(match step.operation {
                        SetOperation::Union => "UNION",
                        SetOperation::Intersect => "INTERSECT",
                        SetOperation::Except => "EXCEPT",
                    });
                    self.put_if(step.all, "ALL");
                    self.brackets(|printer| printer.query(&step.query));
                }
            }
        }
        self.order(&query.order);
        if let Some(limit) = query.limit.as_ref().filter(|limit| !limit.with_ties) {
            self.put("LIMIT");
            match &limit.count {
                Some(count) => self.operand(count),
                None => self.put("ALL"),
            }
        }
        if let Some(offset) = &query.offset {
            self.put("OFFSET");
            self.operand(offset);
        }
        if let Some(limit) = query.limit.as_ref().filter(|limit| limit.with_ties) {
            self.put("FETCH FIRST");
            if let Some(count) = &limit.count {
                self.operand(count);
            }
            self.put("ROWS WITH TIES");
        }
        for locking in &query.locking {
            self.locking(locking);
        }
    }

    pub(super) fn with(&mut self, with: Option<&With>) {
        let Some(with) = with else { return };
        self.put("WITH");
        self.put_if(with.recursive, "RECURSIVE");
        self.list(&with.tables, Self::common_table);
    }

    fn common_table(&mut self, table: &CommonTable) {
        self.name(&table.name);
        self.names(&table.columns);
        self.put("AS");
        match table.materialized {
            None => {}
            Some(true) => self.put("MATERIALIZED"),
            Some(false) => self.put("NOT MATERIALIZED"),
        }
        self.brackets(|printer| printer.statement(&table.statement));
        if let Some(search) = &table.search {
            self.put(if search.breadth_first {
                "SEARCH BREADTH FIRST BY"
            } else {
                "SEARCH DEPTH FIRST BY"
            });
            self.list(&search.columns, Self::name);
            self.named("SET", Some(&search.sequence));
        }
        if let Some(cycle) = &table.cycle {
            self.put("CYCLE");
            self.list(&cycle.columns, Self::name);
            self.named("SET", Some(&cycle.mark));
            if let Some((value, default)) = &cycle.values {
                self.put("TO");
                self.constant(value);
                self.put("DEFAULT");
                self.constant(default);
            }
            self.named("USING", Some(&cycle.path));
        }
    }

    /// A constant where no expression may stand: a type stands in front of it.
    fn constant(&mut self, constant: &crate::tree::Expr) {
        match &constant.kind {
            crate::tree::ExprKind::Cast(cast) => {
                self.type_name(&cast.target);
                self.expr(&cast.operand);
            }
            _ => self.expr(constant),
        }
    }

    fn select(&mut self, select: &Select) {
        self.put("SELECT");
        match &select.distinct {
            Distinctness::All => {}
            Distinctness::Distinct => self.put("DISTINCT"),
            Distinctness::On(exprs) => {
                self.put("DISTINCT ON");
                self.bracketed_exprs(exprs);
            }
        }
        self.targets(&select.targets);
        if let Some(into) = &select.into {
            self.put("INTO");
            self.persistence(into.persistence);
            self.put("TABLE");
            self.path(&into.name);
        }
        self.from("FROM", &select.from);
        self.clause("WHERE", select.filter.as_ref());
        if !select.group.is_empty() {
            self.put("GROUP BY");
            self.put_if(select.group_distinct, "DISTINCT");
            self.list(&select.group, Self::group_item);
        }
        self.clause("HAVING", select.having.as_ref());
        if !select.windows.is_empty() {
            self.put("WINDOW");
            self.list(&select.windows, |printer, (name, window)| {
                printer.name(name);
                printer.put("AS");
                printer.window(window);
            });
        }
    }

    /// Words and an expression behind them, if there is one.
    pub(super) fn clause(&mut self, words: &str, expr: Option<&crate::tree::Expr>) {
        if let Some(expr) = expr {
            self.put(words);
            self.expr(expr);
        }
    }

    pub(super) fn targets(&mut self, targets: &[Target]) {
        self.list(targets, |printer, target| match target {
            Target::Star(_) => printer.put("*"),
            Target::Expr(expr, label) => {
                printer.expr(expr);
                printer.named("AS", label.as_ref());
            }
        });
    }

    pub(super) fn persistence(&mut self, persistence: Persistence) {
        self.put(match persistence {
            Persistence::Permanent => "",
            Persistence::Temporary => "TEMPORARY",
            Persistence::Unlogged => "UNLOGGED",
        });
    }

    fn group_item(&mut self, item: &GroupItem) {
        match item {
            GroupItem::Expr(expr) => self.expr(expr),
            GroupItem::Empty => self.put("()"),
            GroupItem::Rollup(exprs) => {
                self.put("ROLLUP");
                self.bracketed_exprs(exprs);
            }
            GroupItem::Cube(exprs) => {
                self.put("CUBE");
                self.bracketed_exprs(exprs);
            }
            GroupItem::Sets(items) => {
                self.put("GROUPING SETS");
                self.bracketed(items, Self::group_item);
            }
        }
    }

    pub(super) fn order(&mut self, order: &[SortItem]) {
        if order.is_empty() {
            return;
        }
        self.put("ORDER BY");
        self.list(order, |printer, item| {
            printer.expr(&item.expr);
            match &item.direction {
                Direction::Default => {}
                Direction::Ascending => printer.put("ASC"),
                Direction::Descending => printer.put("DESC"),
                Direction::Using(operator) => {
                    printer.put("USING");
                    printer.operator(operator);
                }
            }
            printer.nulls(item.nulls);
        });
    }

    pub(super) fn nulls(&mut self, nulls: NullsOrder) {
        self.put(match nulls {
            NullsOrder::Default => "",
            NullsOrder::First => "NULLS FIRST",
            NullsOrder::Last => "NULLS LAST",
        });
    }

    fn locking(&mut self, locking: &Locking) {
        self.put(match locking.strength {
            LockStrength::Update => "FOR UPDATE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::KeyShare => "FOR KEY SHARE",
        });
        if !locking.tables.is_empty() {
            self.put("OF");
            self.list(&locking.tables, Self::path);
        }
        self.put(match locking.wait {
            LockWait::Wait => "",
            LockWait::NoWait => "NOWAIT",
            LockWait::SkipLocked => "SKIP LOCKED",
        });
    }

    pub(super) fn relation(&mut self, relation: &Relation) {
        self.put_if(relation.only, "ONLY");
        self.path(&relation.name);
    }

    pub(super) fn from(&mut self, words: &str, tables: &[TableRef]) {
        if !tables.is_empty() {
            self.put(words);
            self.list(tables, Self::table_ref);
        }
    }

    pub(super) fn table_ref(&mut self, table: &TableRef) {
        self.table_factor(&table.first);
        for join in &table.joins {
            self.join(join);
        }
    }

    fn join(&mut self, join: &Join) {
        self.put_if(join.condition == JoinCondition::Natural, "NATURAL");
        self.put(match join.kind {
            JoinKind::Cross => "CROSS JOIN",
            JoinKind::Inner => "JOIN",
            JoinKind::Left => "LEFT JOIN",
            JoinKind::Right => "RIGHT JOIN",
            JoinKind::Full => "FULL JOIN",
        });
        if join.right.joins.is_empty() {
            self.table_factor(&join.right.first);
        } else {
            self.brackets(|printer| printer.table_ref(&join.right));
        }
        match &join.condition {
            JoinCondition::None | JoinCondition::Natural => {}
            JoinCondition::Using(columns, alias) => {
                self.put("USING");
                self.names(columns);
                self.named("AS", alias.as_ref());
            }
            JoinCondition::On(condition) => self.clause("ON", Some(condition)),
        }
    }

    pub(super) fn alias(&mut self, alias: Option<&Alias>) {
        if let Some(alias) = alias {
            self.named("AS", Some(&alias.name));
            self.names(&alias.columns);
        }
    }

    fn table_factor(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::Table {
                relation,
                alias,
                sample,
            } => {
                self.relation(relation);
                self.alias(alias.as_ref());
                if let Some(sample) = sample {
                    self.put("TABLESAMPLE");
                    self.path(&sample.method);
                    self.bracketed_exprs(&sample.arguments);
                    if let Some(repeatable) = &sample.repeatable {
                        self.put("REPEATABLE");
                        self.brackets(|printer| printer.expr(repeatable));
                    }
                }
            }
            TableFactor::Query {
                lateral,
                query,
                alias,
            } => {
                self.put_if(*lateral, "LATERAL");
                self.brackets(|printer| printer.query(query));
                self.alias(alias.as_ref());
            }
            TableFactor::Functions(functions) => self.function_table(functions),
            TableFactor::Xml(table) => self.xml_table(table),
            TableFactor::Joined(table, alias) => {
                self.brackets(|printer| printer.table_ref(table));
                self.alias(alias.as_ref());
            }
        }
    }

    fn function_table(&mut self, table: &FunctionTable) {
        self.put_if(table.lateral, "LATERAL");
        self.put_if(table.rows_from, "ROWS FROM (");
        self.list(&table.functions, |printer, (call, columns)| {
            printer.expr(call);
            if !columns.is_empty() {
                printer.put("AS");
                printer.column_types(columns);
            }
        });
        self.put_if(table.rows_from, ")");
        self.put_if(table.ordinality, "WITH ORDINALITY");
        self.alias(table.alias.as_ref());
        if !table.columns.is_empty() {
            self.put_if(table.alias.is_none(), "AS");
            self.column_types(&table.columns);
        }
    }

    pub(super) fn column_types(&mut self, columns: &[ColumnType]) {
        self.bracketed(columns, Self::column_type);
    }

    pub(super) fn column_type(&mut self, column: &ColumnType) {
        self.name(&column.name);
        self.type_name(&column.kind);
        self.collation(column.collation.as_ref());
    }

    pub(super) fn collation(&mut self, collation: Option<&crate::tree::Path>) {
        if let Some(collation) = collation {
            self.put("COLLATE");
            self.path(collation);
        }
    }

    fn xml_table(&mut self, table: &XmlTable) {
        self.put_if(table.lateral, "LATERAL");
        self.put("XMLTABLE(");
        if !table.namespaces.is_empty() {
            self.put("XMLNAMESPACES(");
            self.list(&table.namespaces, |printer, (value, name)| {
                printer.put_if(name.is_none(), "DEFAULT");
                printer.operand(value);
                printer.named("AS", name.as_ref());
            });
            self.put("),");
        }
        self.operand(&table.row);
        self.put("PASSING");
        self.operand(&table.document);
        self.put("COLUMNS");
        self.list(&table.columns, |printer, column| {
            printer.name(&column.name);
            match &column.kind {
                None => printer.put("FOR ORDINALITY"),
                Some(kind) => printer.type_name(kind),
            }
            for (words, value) in [("PATH", &column.path), ("DEFAULT", &column.default)] {
                if let Some(value) = value {
                    printer.put(words);
                    printer.operand(value);
                }
            }
            match column.not_null {
                None => {}
                Some(true) => printer.put("NOT NULL"),
                Some(false) => printer.put("NULL"),
            }
        });
        self.put(")");
        self.alias(table.alias.as_ref());
    }

    pub(super) fn assign_target(&mut self, target: &AssignTarget) {
        self.name(&target.name);
        self.steps(&target.steps);
    }
}
