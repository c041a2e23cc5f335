//! Golden transcripts: statements, and what PostgreSQL 15 prints for them.
//!
//! ```text
//! select 1, null;          a statement, up to a semicolon at the end of a line
//! > 1|NULL                 one line for each row of its result
//! select 1 / 0;
//! ! 22012 division by zero the error it fails with
//! ```
//!
//! PostgreSQL itself has written the results (`tests/golden/record.sh`), so a difference
//! is a difference from PostgreSQL. This module creates and fills tables without a
//! session, because these transcripts are about queries.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::catalog::{Catalog, Index, KeyColumn, Table, TableColumn};
use crate::expression::{
    Binder, EvaluationContext, Frame, Parameters, Scope, SessionInfo, fold_name, resolve_type,
};
use crate::select::{Cursor, plan_query};
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};
use coeval_sql_syntax::Limits;
use coeval_sql_syntax::tree::{
    self, Body, ColumnConstraintKind, IndexKey, Query, StatementKind, TableConstraintKind,
    TableElement, TableShape,
};
use coeval_txn::{BeginOptions, Engine, Insert, Serial, TableLock, Transaction};
use coeval_types::{IndexId, IndexKind, RowBuilder, RowRef, StorageId};

/// Polls a future to its end, if it needs no other task to make progress.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut task = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut task) {
            return value;
        }
    }
}

/// A small database without a session.
pub(crate) struct Bench {
    engine: Serial,
    tables: Vec<Arc<Table>>,
    pub(crate) session: SessionInfo,
    /// Whether plans depend on the numbers of rows; otherwise all tables count as equal.
    pub(crate) counts: bool,
    next_number: u32,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            engine: Serial::new(),
            tables: Vec::new(),
            session: SessionInfo {
                user: "visitor".into(),
                database: "postgres".into(),
                process_id: 7,
                search_path: vec!["public".into()],
                work_memory: 1 << 20,
                ..SessionInfo::new(crate::system::OBJECTS)
            },
            counts: false,
            next_number: 100,
        }
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::new(Catalog::new(
            1,
            self.tables.iter().cloned(),
            [],
            Arc::default(),
        ))
    }

    /// Runs `work` with a context that reads nothing.
    pub(crate) fn with_context<T>(&self, work: impl FnOnce(&mut EvaluationContext<'_>) -> T) -> T {
        let catalog = self.catalog();
        work(&mut EvaluationContext::new(
            &self.session,
            &catalog,
            &[],
            None,
        ))
    }

    fn begin(&self) -> Box<dyn Transaction> {
        block_on(coeval_txn::begin(&self.engine, &BeginOptions::default())).unwrap()
    }

    /// Runs one statement, and returns its rows as PostgreSQL prints them unaligned.
    pub(crate) fn run(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>> {
        match parsed(sql)? {
            StatementKind::Query(query) => self.query(&query, parameters),
            StatementKind::CreateTable(create) => {
                self.create_table(&create);
                Ok(Vec::new())
            }
            StatementKind::CreateIndex(create) => {
                self.create_index(&create);
                Ok(Vec::new())
            }
            StatementKind::Insert(insert) => {
                self.insert(&insert)?;
                Ok(Vec::new())
            }
            other => panic!("transcripts do not know {other:?}"),
        }
    }

    fn create_table(&mut self, create: &tree::CreateTable) {
        let name = fold_name(&create.name.0[0]);
        let mut primary: Vec<String> = Vec::new();
        let mut columns = Vec::new();
        let TableShape::Columns(elements) = &create.shape else {
            panic!("columns are expected");
        };
        for element in elements {
            match element {
                TableElement::Column(column) => {
                    for constraint in &column.constraints {
                        if matches!(constraint.kind, ColumnConstraintKind::PrimaryKey(_)) {
                            primary.push(fold_name(&column.name));
                        }
                    }
                    columns.push(TableColumn {
                        name: fold_name(&column.name),
                        column_type: resolve_type(column.kind.as_ref().unwrap()).unwrap(),
                        attribute: columns.len() as i16 + 1,
                        not_null: false,
                        default: None,
                        generation: None,
                    });
                }
                TableElement::Constraint(constraint) => {
                    if let TableConstraintKind::PrimaryKey(key) = &constraint.kind {
                        primary.extend(key.columns.iter().map(fold_name));
                    }
                }
                TableElement::Like(..) => panic!("transcripts do not know LIKE"),
            }
        }
        let storage = StorageId(self.number());
        let mut table = Table {
            oid: self.number(),
            name,
            storage,
            schema_version: 1,
            cells: columns.len(),
            columns,
            indexes: Vec::new(),
            options: Vec::new(),
            checks: Vec::new(),
            is_unlogged: false,
            owned: crate::access::Owned::by(crate::access::FIRST_ROLE),
        };
        if !primary.is_empty() {
            let index = self.index(&table, "pkey", IndexKind::Primary, &primary);
            table.indexes.push(index);
        }
        self.engine.attach_storage(table.definition()).unwrap();
        self.tables.push(Arc::new(table));
    }

    fn index(
        &mut self,
        table: &Table,
        suffix: &str,
        kind: IndexKind,
        names: &[String],
    ) -> Arc<Index> {
        let columns = names
            .iter()
            .map(|name| {
                let column = table.column(name).unwrap();
                KeyColumn {
                    column,
                    attribute: table.columns[column].attribute,
                    column_type: table.columns[column].column_type,
                    order: KeyOrder::ASCENDING,
                }
            })
            .collect();
        Arc::new(Index::new(
            self.number(),
            IndexId(self.number()),
            format!("{}_{suffix}", table.name),
            kind,
            kind == IndexKind::Primary,
            columns,
        ))
    }

    fn create_index(&mut self, create: &tree::CreateIndex) {
        let table_name = fold_name(&create.table.name.0[0]);
        let names: Vec<String> = create
            .items
            .iter()
            .map(|item| match &item.key {
                IndexKey::Column(name) => fold_name(name),
                IndexKey::Expr(_) => panic!("transcripts do not know indexes on expressions"),
            })
            .collect();
        let place = self
            .tables
            .iter()
            .position(|table| table.name == table_name)
            .unwrap();
        let old = Arc::clone(&self.tables[place]);
        let index = self.index(&old, "index", IndexKind::Secondary, &names);
        let mut table = (*old).clone();
        // The table is still empty, so it can be created anew with all its indexes.
        self.engine.drop_storage(table.storage);
        table.storage = StorageId(self.number());
        table.indexes.push(index);
        self.engine.attach_storage(table.definition()).unwrap();
        self.tables[place] = Arc::new(table);
    }

    fn insert(&mut self, insert: &tree::Insert) -> Result<()> {
        let name = fold_name(&insert.table.0[0]);
        let catalog = self.catalog();
        let table = Arc::clone(catalog.table(&name)?);
        let source = insert.source.as_ref().unwrap();
        let locate = |_| None;
        let mut binder = Binder::new(&catalog, &self.session, &locate, Parameters::default());
        let frame = Frame::outermost();
        let scope = Scope::empty(&frame);
        let Body::Values(rows) = &source.body else {
            panic!("VALUES are expected");
        };
        let mut transaction = self.begin();
        block_on(coeval_txn::lock_table(
            &mut *transaction,
            table.storage,
            TableLock::RowExclusive,
            1,
        ))?;
        for row in rows {
            let mut builder = RowBuilder::new();
            for (column, expr) in table.columns.iter().zip(row) {
                let bound = binder.bind(expr, &scope)?;
                let bound = binder.assign(bound, &column.name, column.column_type)?;
                let mut context = EvaluationContext::new(&self.session, &catalog, &[], None);
                let value = bound.expression.evaluate(&mut context, &[])?;
                if value.is_null() {
                    builder.push_null();
                } else {
                    builder.push_with(|cell| value.write_cell(cell));
                }
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let inserted = block_on(coeval_txn::insert(
                &mut *transaction,
                table.storage,
                RowRef::trusted(&bytes),
            ))?;
            assert!(matches!(inserted, Insert::Inserted(_)));
        }
        block_on(coeval_txn::commit(&mut *transaction));
        Ok(())
    }

    fn query(&mut self, query: &Query, parameters: &[Value]) -> Result<Vec<String>> {
        let catalog = self.catalog();
        let locate = |_| None;
        let mut binder = Binder::new(&catalog, &self.session, &locate, Parameters::default());
        if self.counts {
            binder.engine = Some(&self.engine);
        }
        let plan = Arc::new(plan_query(&mut binder, query)?);
        let mut transaction = self.begin();
        let mut context =
            EvaluationContext::new(&self.session, &catalog, parameters, Some(&mut *transaction));
        let mut cursor = Cursor::new(&plan);
        let mut row = Vec::new();
        let mut rows = Vec::new();
        while block_on(cursor.next(&mut context, &mut row))? {
            let printed: Vec<String> = row
                .iter()
                .zip(plan.columns())
                .map(|(value, column)| {
                    value
                        .to_text(column.column_type, &self.session.style)
                        .map_or_else(|| "NULL".to_owned(), |text| text.to_string())
                })
                .collect();
            rows.push(printed.join("|"));
        }
        Ok(rows)
    }

    /// The inferred types of a query's parameters.
    pub(crate) fn parameter_types(&self, sql: &str) -> Result<Vec<crate::DataType>> {
        let StatementKind::Query(query) = parsed(sql).unwrap() else {
            panic!("a query is expected");
        };
        let catalog = self.catalog();
        let locate = |_| None;
        let mut binder = Binder::new(&catalog, &self.session, &locate, Parameters::default());
        plan_query(&mut binder, &query)?;
        binder.parameters.finish()
    }

    /// The plan of a query, as EXPLAIN shows it.
    pub(crate) fn explain(&self, sql: &str) -> Vec<String> {
        let StatementKind::Query(query) = parsed(sql).unwrap() else {
            panic!("a query is expected");
        };
        let catalog = self.catalog();
        let locate = |_| None;
        let mut binder = Binder::new(&catalog, &self.session, &locate, Parameters::default());
        if self.counts {
            binder.engine = Some(&self.engine);
        }
        plan_query(&mut binder, &query).unwrap().explain()
    }
}

/// The only statement of a text.
fn parsed(sql: &str) -> Result<StatementKind> {
    let mut statements = coeval_sql_syntax::parse(sql, &Limits::default())
        .map_err(|error| Error::new(SqlState(error.fault.sqlstate()), error.message))?;
    Ok(statements.remove(0).kind)
}

/// Runs a transcript and returns it with the actual results.
fn replay(transcript: &str) -> String {
    let mut bench = Bench::new();
    let mut out = String::new();
    let mut statement = String::new();
    for line in transcript.lines() {
        if line.starts_with("> ") || line.starts_with("! ") || line == ">" {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if statement.is_empty() && (line.starts_with("--") || line.trim().is_empty()) {
            continue;
        }
        statement.push_str(line);
        statement.push('\n');
        if !line.trim_end().ends_with(';') {
            continue;
        }
        match bench.run(&statement, &[]) {
            Ok(rows) => {
                for row in rows {
                    out.push_str(&format!("> {row}\n"));
                }
            }
            Err(error) => {
                let report = error.report();
                out.push_str(&format!("! {} {}\n", report.state.0, report.message));
            }
        }
        statement.clear();
    }
    out
}

/// Each line that is no result, with the results below it.
fn by_line(transcript: &str) -> Vec<(&str, Vec<&str>)> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in transcript.lines() {
        match lines.last_mut() {
            Some((_, results)) if line.starts_with(['>', '!']) => results.push(line),
            _ => lines.push((line, Vec::new())),
        }
    }
    lines
}

fn check(transcript: &str) {
    let replayed = replay(transcript);
    let mut differences = Vec::new();
    for ((line, wanted), (_, got)) in by_line(transcript).iter().zip(by_line(&replayed)) {
        if *wanted != got {
            differences.push(format!(
                "{line}\n  PostgreSQL {}\n  here       {}",
                wanted.join("\n             "),
                got.join("\n             ")
            ));
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    assert_eq!(transcript, replayed);
}

#[test]
fn expressions() {
    check(include_str!("../tests/golden/expression.txt"));
}

#[test]
fn times() {
    check(include_str!("../tests/golden/time.txt"));
}

#[test]
fn templates() {
    check(include_str!("../tests/golden/template.txt"));
}

#[test]
fn windows() {
    check(include_str!("../tests/golden/windows.txt"));
}

#[test]
fn windows_over_times() {
    check(include_str!("../tests/golden/window_times.txt"));
}

#[test]
fn tables_of_with() {
    check(include_str!("../tests/golden/with.txt"));
}

#[test]
fn random_windows() {
    check(include_str!("../tests/golden/random_windows.txt"));
}

#[test]
fn random_groups() {
    check(include_str!("../tests/golden/random_groups.txt"));
}

#[test]
fn regular_expressions() {
    check(include_str!("../tests/golden/regex.txt"));
}

#[test]
fn powers() {
    check(include_str!("../tests/golden/powers.txt"));
}

#[test]
fn grouping() {
    check(include_str!("../tests/golden/grouping.txt"));
}

#[test]
fn queries() {
    check(include_str!("../tests/golden/query.txt"));
}

#[test]
fn grammar() {
    check(include_str!("../tests/golden/grammar.txt"));
}

#[test]
fn json() {
    check(include_str!("../tests/golden/json.txt"));
}

#[test]
fn bytes() {
    check(include_str!("../tests/golden/bytes.txt"));
}
