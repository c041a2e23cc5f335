//! Joins and subqueries against a reference: random queries over small tables with nulls,
//! evaluated by nested loops and three-valued logic as SQL defines them.

use std::fmt::Write;

use crate::golden::Bench;

/// A value of a column: null or a small number.
type Cell = Option<i32>;

/// Rows of a table: columns `id`, `a` and `b`.
type Rows = Vec<[Cell; 3]>;

const COLUMNS: [&str; 3] = ["id", "a", "b"];

/// Xorshift, by Marsaglia.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// A column of a relation of the query, counted from the outermost.
#[derive(Clone, Copy, Debug)]
struct Column {
    relation: usize,
    column: usize,
}

#[derive(Clone, Debug)]
enum Condition {
    Compare(Column, &'static str, Column),
    Constant(Column, &'static str, i32),
    IsNull(Column),
    And(Box<[Condition; 2]>),
    Or(Box<[Condition; 2]>),
    Not(Box<Condition>),
    /// EXISTS over a table whose relation gets the next number.
    Exists(usize, Box<Condition>),
    /// IN over a column of such a table.
    In(Column, usize, Column, Box<Condition>),
    /// A comparison with an aggregate of such a table.
    Sum(Column, usize, Column, Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinForm {
    Inner,
    Left,
    Right,
    Full,
}

struct Query {
    first: usize,
    /// JoinForm, table and condition of each join.
    joins: Vec<(JoinForm, usize, Condition)>,
    filter: Option<Condition>,
}

fn column(random: &mut Random, relations: usize) -> Column {
    Column {
        relation: random.below(relations),
        column: random.below(3),
    }
}

const OPERATORS: [&str; 5] = ["=", "=", "<>", "<", ">="];

/// A condition over the first `relations` relations. It mentions the last one, if `linked`.
fn condition(random: &mut Random, relations: usize, depth: usize, tables: usize) -> Condition {
    if depth > 0 {
        let deeper =
            |random: &mut Random| Box::new(condition(random, relations, depth - 1, tables));
        match random.below(10) {
            0 | 1 => {
                return Condition::And(Box::new([
                    condition(random, relations, depth - 1, tables),
                    condition(random, relations, depth - 1, tables),
                ]));
            }
            2 => {
                return Condition::Or(Box::new([
                    condition(random, relations, depth - 1, tables),
                    condition(random, relations, depth - 1, tables),
                ]));
            }
            3 => return Condition::Not(deeper(random)),
            4 | 5 => {
                let inner = link(random, relations, depth - 1, tables);
                return Condition::Exists(random.below(tables), Box::new(inner));
            }
            6 => {
                let inner = link(random, relations, depth - 1, tables);
                let value = Column {
                    relation: relations,
                    column: random.below(3),
                };
                let operand = column(random, relations);
                return Condition::In(operand, random.below(tables), value, Box::new(inner));
            }
            7 => {
                let inner = link(random, relations, depth - 1, tables);
                let value = Column {
                    relation: relations,
                    column: random.below(3),
                };
                let operand = column(random, relations);
                return Condition::Sum(operand, random.below(tables), value, Box::new(inner));
            }
            _ => {}
        }
    }
    match random.below(5) {
        0 => Condition::IsNull(column(random, relations)),
        1 => Condition::Constant(
            column(random, relations),
            OPERATORS[random.below(5)],
            random.below(4) as i32,
        ),
        _ => Condition::Compare(
            column(random, relations),
            OPERATORS[random.below(5)],
            column(random, relations),
        ),
    }
}

/// A condition of a subquery: often an equality between it and the query around it.
fn link(random: &mut Random, relations: usize, depth: usize, tables: usize) -> Condition {
    let equal = equality(random, relations);
    match random.below(4) {
        0 => condition(random, relations + 1, depth, tables),
        1 => equal,
        _ => Condition::And(Box::new([
            equal,
            condition(random, relations + 1, depth, tables),
        ])),
    }
}

/// An equality between the relation of the next number and one before it.
fn equality(random: &mut Random, relations: usize) -> Condition {
    let own = Column {
        relation: relations,
        column: random.below(3),
    };
    Condition::Compare(own, "=", column(random, relations))
}

fn query(random: &mut Random, tables: usize) -> Query {
    let first = random.below(tables);
    let mut joins = Vec::new();
    for relations in 1..=random.below(4) {
        let kind = [
            JoinForm::Inner,
            JoinForm::Inner,
            JoinForm::Left,
            JoinForm::Right,
            JoinForm::Full,
        ][random.below(5)];
        let mut on = equality(random, relations);
        if random.one_in(2) {
            let more = condition(random, relations + 1, 0, tables);
            on = Condition::And(Box::new([on, more]));
        }
        joins.push((kind, random.below(tables), on));
    }
    let relations = joins.len() + 1;
    let filter = (!random.one_in(5)).then(|| condition(random, relations, 3, tables));
    Query {
        first,
        joins,
        filter,
    }
}

fn name(column: Column) -> String {
    format!("x{}.{}", column.relation, COLUMNS[column.column])
}

/// The condition in SQL, where so many relations are known.
fn text(condition: &Condition, relations: usize) -> String {
    match condition {
        Condition::Compare(left, operator, right) => {
            format!("{} {operator} {}", name(*left), name(*right))
        }
        Condition::Constant(left, operator, right) => format!("{} {operator} {right}", name(*left)),
        Condition::IsNull(column) => format!("{} is null", name(*column)),
        Condition::And(both) => format!(
            "({} and {})",
            text(&both[0], relations),
            text(&both[1], relations)
        ),
        Condition::Or(both) => format!(
            "({} or {})",
            text(&both[0], relations),
            text(&both[1], relations)
        ),
        Condition::Not(operand) => format!("not ({})", text(operand, relations)),
        Condition::Exists(table, inner) => format!(
            "exists (select 1 from t{table} as x{relations} where {})",
            text(inner, relations + 1)
        ),
        Condition::In(operand, table, value, inner) => format!(
            "{} in (select {} from t{table} as x{relations} where {})",
            name(*operand),
            name(*value),
            text(inner, relations + 1)
        ),
        Condition::Sum(operand, table, value, inner) => format!(
            "{} <= (select count({}) from t{table} as x{relations} where {})",
            name(*operand),
            name(*value),
            text(inner, relations + 1)
        ),
    }
}

impl Query {
    fn text(&self) -> String {
        let mut sql = "select ".to_owned();
        for relation in 0..=self.joins.len() {
            let comma = if relation == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}x{relation}.id, x{relation}.a");
        }
        let _ = write!(sql, " from t{} as x0", self.first);
        for (place, (kind, table, on)) in self.joins.iter().enumerate() {
            let word = match kind {
                JoinForm::Inner => "join",
                JoinForm::Left => "left join",
                JoinForm::Right => "right join",
                JoinForm::Full => "full join",
            };
            let relation = place + 1;
            let on = text(on, relation + 1);
            let _ = write!(sql, " {word} t{table} as x{relation} on {on}");
        }
        if let Some(filter) = &self.filter {
            let _ = write!(sql, " where {}", text(filter, self.joins.len() + 1));
        }
        sql.push(';');
        sql
    }

    /// The rows by nested loops.
    fn rows(&self, tables: &[Rows]) -> Vec<String> {
        const NULLS: [Cell; 3] = [None; 3];
        let mut rows: Vec<Rows> = tables[self.first].iter().map(|row| vec![*row]).collect();
        for (place, (kind, table, on)) in self.joins.iter().enumerate() {
            let mut joined: Vec<Rows> = Vec::new();
            let mut matched = vec![false; tables[*table].len()];
            for left in &rows {
                let mut found = false;
                for (number, right) in tables[*table].iter().enumerate() {
                    let mut both = left.clone();
                    both.push(*right);
                    if truth(on, &both, tables) == Some(true) {
                        found = true;
                        matched[number] = true;
                        joined.push(both);
                    }
                }
                if !found && matches!(kind, JoinForm::Left | JoinForm::Full) {
                    let mut alone = left.clone();
                    alone.push(NULLS);
                    joined.push(alone);
                }
            }
            if matches!(kind, JoinForm::Right | JoinForm::Full) {
                for (right, matched) in tables[*table].iter().zip(matched) {
                    if !matched {
                        let mut alone = vec![NULLS; place + 1];
                        alone.push(*right);
                        joined.push(alone);
                    }
                }
            }
            rows = joined;
        }
        let mut shown: Vec<String> = rows
            .into_iter()
            .filter(|row| match &self.filter {
                None => true,
                Some(filter) => truth(filter, row, tables) == Some(true),
            })
            .map(|row| {
                let cells: Vec<String> = row
                    .iter()
                    .flat_map(|relation| &relation[..2])
                    .map(|cell| cell.map_or_else(|| "NULL".to_owned(), |cell| cell.to_string()))
                    .collect();
                cells.join("|")
            })
            .collect();
        shown.sort();
        shown
    }
}

/// The truth of a condition; `None` for unknown.
fn truth(condition: &Condition, row: &Rows, tables: &[Rows]) -> Option<bool> {
    let cell = |column: &Column| row[column.relation][column.column];
    let compare = |left: Cell, operator: &str, right: Cell| {
        let (left, right) = (left?, right?);
        Some(match operator {
            "=" => left == right,
            "<>" => left != right,
            "<" => left < right,
            _ => left >= right,
        })
    };
    let matching = |table: &usize, inner: &Condition| -> Vec<Rows> {
        tables[*table]
            .iter()
            .map(|own| {
                let mut both = row.clone();
                both.push(*own);
                both
            })
            .filter(|both| truth(inner, both, tables) == Some(true))
            .collect()
    };
    match condition {
        Condition::Compare(left, operator, right) => compare(cell(left), operator, cell(right)),
        Condition::Constant(left, operator, right) => compare(cell(left), operator, Some(*right)),
        Condition::IsNull(column) => Some(cell(column).is_none()),
        Condition::And(both) => {
            match (truth(&both[0], row, tables), truth(&both[1], row, tables)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }
        Condition::Or(both) => match (truth(&both[0], row, tables), truth(&both[1], row, tables)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Condition::Not(operand) => truth(operand, row, tables).map(|holds| !holds),
        Condition::Exists(table, inner) => Some(!matching(table, inner).is_empty()),
        Condition::In(operand, table, value, inner) => {
            let mut unknown = false;
            for both in matching(table, inner) {
                match compare(cell(operand), "=", both[value.relation][value.column]) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
            if unknown { None } else { Some(false) }
        }
        Condition::Sum(operand, table, value, inner) => {
            let count = matching(table, inner)
                .iter()
                .filter(|both| both[value.relation][value.column].is_some())
                .count() as i32;
            compare(Some(count), ">=", cell(operand))
        }
    }
}

/// Three tables: one without an index, one with a plain index, one with a primary key and
/// an index of two columns.
fn tables(random: &mut Random, bench: &mut Bench) -> Vec<Rows> {
    for sql in [
        "create table t0 (id int, a int, b int);",
        "create table t1 (id int primary key, a int, b int);",
        "create index t1_a on t1 (a);",
        "create table t2 (id int primary key, a int, b int);",
        "create index t2_ab on t2 (a, b);",
    ] {
        bench.run(sql, &[]).unwrap();
    }
    (0..3)
        .map(|table| {
            let rows: Rows = (0..random.below(8))
                .map(|id| {
                    let cell =
                        |random: &mut Random| (!random.one_in(4)).then(|| random.below(4) as i32);
                    [Some(id as i32), cell(random), cell(random)]
                })
                .collect();
            for row in &rows {
                let cells: Vec<String> = row
                    .iter()
                    .map(|cell| cell.map_or_else(|| "null".to_owned(), |cell| cell.to_string()))
                    .collect();
                let sql = format!("insert into t{table} values ({});", cells.join(", "));
                bench.run(&sql, &[]).unwrap();
            }
            rows
        })
        .collect()
}

#[test]
fn joins_and_subqueries_return_what_nested_loops_do() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut compared = 0;
    for _ in 0..60 {
        let mut bench = Bench::new();
        let tables = tables(&mut random, &mut bench);
        for _ in 0..25 {
            let query = query(&mut random, tables.len());
            let sql = query.text();
            let wanted = query.rows(&tables);
            // The number of rows decides between plans.
            for counts in [false, true] {
                bench.counts = counts;
                let mut rows = match bench.run(&sql, &[]) {
                    Ok(rows) => rows,
                    Err(error) => panic!("{sql}\n{}", error.report().message),
                };
                rows.sort();
                let plan = || bench.explain(&sql).join("\n");
                assert_eq!(rows, wanted, "{sql}\n{}\n{tables:?}", plan());
            }
            compared += wanted.len();
        }
    }
    // Most queries return something, or the test would compare nothing.
    assert!(compared > 1_500, "{compared}");
}
