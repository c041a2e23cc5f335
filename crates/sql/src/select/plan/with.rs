//! The planner of WITH: common table expressions, recursive ones included.
//!
//! Each is planned once, where it is defined, and its rows are made once for all that read
//! them ([`Common`]), except where PostgreSQL's planner would put the query in the place of
//! its only reference: then it makes no difference, and costs no memory.
//!
//! A query that refers to itself is `base UNION [ALL] step`: the step reads the *working
//! table*, which holds the base's rows first, and then the rows of the step before.
//!
//! Changes of rows in WITH are planned by a layer above ([`BindChange`]), and run before the
//! statement; those that read them find the rows of RETURNING.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use coeval_sql_syntax::tree::{Body, Query, SetOperation, StatementKind, With as Clause};

use super::node::{Node, SetFunction, SetKind};
use super::query::{Planned, plan_in_frame, settle_columns, settled};
use crate::expression::{BindChange, Binder, Frame, Recursion, fold_name};
use crate::output::Column;
use crate::select::QueryPlan;
use crate::{Error, Result, SqlState};

/// A common table expression while its WITH is planned.
#[derive(Clone, Debug)]
pub struct CommonTable {
    name: String,
    /// Names of its columns, as far as WITH gives them.
    columns: Vec<String>,
    /// The statement that makes its rows: a query, or a change with RETURNING.
    statement: Arc<StatementKind>,
    /// Plans the change.
    bind_change: Option<BindChange>,
    position: Option<u32>,
    /// MATERIALIZED or NOT MATERIALIZED.
    materialized: Option<bool>,
    /// The first table of its WITH.
    group: usize,
    /// Number of tables that its query can refer to, from the first.
    visible: usize,
    /// Whether WITH is RECURSIVE.
    recursive: bool,
    /// Depth of the frame of the query that WITH belongs to.
    depth: usize,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Waiting,
    Planning(SelfReference),
    Planned(Arc<Common>),
    /// A change: its number among those of the statement, and the columns that it returns.
    Changed(usize, Option<Vec<Column>>),
}

/// What a query's reference to itself means while it is planned.
#[derive(Clone, Debug)]
enum SelfReference {
    /// The query is no UNION.
    WrongForm,
    /// The statement is a change.
    InChange,
    /// It would be within the term that is not recursive.
    InBase,
    /// It reads the working table of this number.
    Working {
        number: usize,
        columns: Vec<Column>,
        seen: usize,
    },
}

/// A planned common table expression.
#[derive(Debug)]
pub(crate) struct Common {
    /// Number within the statement.
    pub number: usize,
    /// Name, for EXPLAIN.
    pub name: String,
    /// The query that makes its rows.
    pub plan: QueryPlan,
    columns: Vec<Column>,
    references: AtomicUsize,
    /// Whether a subquery of an expression, or a LATERAL one, reads it.
    is_read_deeper: AtomicBool,
    reading: OnceLock<Reading>,
}

/// How the rows of a common table expression are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The reader runs the query itself.
    Inlined,
    /// The one reader takes the rows as the query makes them.
    Streamed,
    /// The rows are kept for all readers.
    Kept,
}

impl CommonTable {
    /// Whether this is the table's name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name
    }
}

impl Common {
    /// How its rows are read.
    pub(crate) fn reading(&self) -> Reading {
        self.reading.get().copied().unwrap_or(Reading::Kept)
    }

    /// Whether anything refers to it.
    pub(crate) fn is_read(&self) -> bool {
        self.references.load(Ordering::Relaxed) > 0
    }

    fn decide(&self, table: &CommonTable) {
        let references = self.references.load(Ordering::Relaxed);
        let root = &self.plan.root;
        let is_deeper = self.is_read_deeper.load(Ordering::Relaxed);
        // A query that stands in several places must not contain others that do.
        let is_wanted = match table.materialized {
            Some(true) => false,
            Some(false) => !root.any_node(&|node| matches!(node, Node::Common(_))),
            None => references == 1,
        };
        let reads_itself = matches!(root, Node::Recursive(_));
        let may_be_inlined =
            !reads_itself && !is_deeper && !self.plan.is_volatile() && !self.plan.locks_rows();
        let reading = match references {
            _ if is_wanted && may_be_inlined => Reading::Inlined,
            1 if !is_deeper => Reading::Streamed,
            _ => Reading::Kept,
        };
        // A table is decided once, at the end of its WITH.
        let _ = self.reading.set(reading);
    }
}

/// Plans what stands behind WITH, and sees its tables. Returns them, too.
pub(crate) fn with_tables<T>(
    binder: &mut Binder<'_>,
    with: &Clause,
    frame: &Frame<'_>,
    plan: impl FnOnce(&mut Binder<'_>) -> Result<T>,
) -> Result<(T, Vec<Arc<Common>>)> {
    let known = binder.with.len();
    let planned = define(binder, with, frame).and_then(|()| plan(binder));
    let tables = binder.with.split_off(known);
    let planned = planned?;
    let mut commons = Vec::with_capacity(tables.len());
    for table in &tables {
        if let Stage::Planned(common) = &table.stage {
            common.decide(table);
            commons.push(Arc::clone(common));
        }
    }
    Ok((planned, commons))
}

/// Whether WITH changes rows.
pub(crate) fn changes_rows(with: &Clause) -> bool {
    with.tables.iter().any(|table| is_change(&table.statement))
}

const fn is_change(statement: &StatementKind) -> bool {
    !matches!(statement, StatementKind::Query(_))
}

/// Plans the tables of WITH, and makes them known to the binder; the caller takes them away
/// again.
pub(crate) fn define(binder: &mut Binder<'_>, with: &Clause, frame: &Frame<'_>) -> Result<()> {
    let bind_change = binder.bind_change.take();
    let group = binder.with.len();
    for table in &with.tables {
        let position = binder.position(table.name.at);
        if is_change(&table.statement) && bind_change.is_none() {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "WITH clause containing a data-modifying statement must be at the top level",
            )
            .at(position));
        }
        if table.search.is_some() || table.cycle.is_some() {
            return Err(Error::unsupported("SEARCH and CYCLE").at(position));
        }
        let name = fold_name(&table.name);
        if binder.with[group..].iter().any(|known| known.name == name) {
            return Err(Error::new(
                SqlState::DUPLICATE_ALIAS,
                format!("WITH query name \"{name}\" specified more than once"),
            )
            .at(position));
        }
        let visible = match with.recursive {
            true => group + with.tables.len(),
            false => binder.with.len(),
        };
        binder.with.push(CommonTable {
            name,
            columns: table.columns.iter().map(fold_name).collect(),
            statement: Arc::clone(&table.statement),
            bind_change,
            position,
            materialized: table.materialized,
            group,
            visible,
            recursive: with.recursive,
            depth: frame.depth(),
            stage: Stage::Waiting,
        });
    }
    for at in group..binder.with.len() {
        if matches!(binder.with[at].stage, Stage::Waiting) {
            plan_table(binder, at, frame)?;
        }
    }
    Ok(())
}

/// Plans a reference to the common table expression of this name, if it exists.
pub(super) fn plan_common_table(
    binder: &mut Binder<'_>,
    name: &str,
    position: Option<u32>,
    frame: &Frame<'_>,
) -> Result<Option<(Node, Vec<Column>)>> {
    let Some(at) = binder.with.iter().rposition(|table| table.name == name) else {
        return Ok(None);
    };
    let depth = binder.with[at].depth;
    if matches!(binder.with[at].stage, Stage::Waiting) {
        // Tables of WITH RECURSIVE may refer to later ones.
        let own = frame.at_depth(depth);
        plan_table(binder, at, own)?;
    }
    if matches!(binder.with[at].stage, Stage::Planning(_)) {
        return refer_to_itself(binder, at)
            .map(Some)
            .map_err(|error| error.at(position));
    }
    if let Stage::Changed(number, columns) = &binder.with[at].stage {
        let Some(columns) = columns.clone() else {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("WITH query \"{name}\" does not have a RETURNING clause"),
            )
            .at(position));
        };
        let node = Node::Function(Box::new(SetFunction {
            kind: SetKind::Changed(*number),
            arguments: Vec::new(),
            ordinality: false,
        }));
        return Ok(Some((node, columns)));
    }
    let Stage::Planned(common) = &binder.with[at].stage else {
        return Err(Error::internal("a table of WITH that is not planned"));
    };
    common.references.fetch_add(1, Ordering::Relaxed);
    if frame.depth() > depth {
        common.is_read_deeper.store(true, Ordering::Relaxed);
        // The outermost query's tables are made once, those of others for each of its runs.
        if depth > 0 {
            frame.depend(depth);
        }
    }
    Ok(Some((
        Node::Common(Arc::clone(common)),
        common.columns.clone(),
    )))
}

fn recursion(message: String) -> Error {
    Error::new(SqlState::INVALID_RECURSION, message)
}

fn refer_to_itself(binder: &mut Binder<'_>, at: usize) -> Result<(Node, Vec<Column>)> {
    let group = binder.with[at].group;
    // What is hidden now belongs to another WITH.
    let is_sibling = |other: &usize| {
        let table = binder.with.get(*other).filter(|_| *other != at);
        table.is_some_and(|table| table.group == group)
    };
    let begun = binder.tables_planned.iter().rposition(|begun| *begun == at);
    if let Some(begun) = begun
        && binder.tables_planned[begun..].iter().any(is_sibling)
    {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "mutual recursion between WITH items is not implemented",
        ));
    }
    let place = binder.recursion;
    let table = &mut binder.with[at];
    let name = &table.name;
    let refused = |place: &str| {
        recursion(format!(
            "recursive reference to query \"{name}\" must not appear {place}"
        ))
    };
    match &mut table.stage {
        Stage::Planning(SelfReference::WrongForm) => Err(wrong_form(name)),
        Stage::Planning(SelfReference::InBase) => Err(refused("within its non-recursive term")),
        Stage::Planning(SelfReference::InChange) => Err(recursion(format!(
            "recursive query \"{name}\" must not contain data-modifying statements"
        ))),
        Stage::Planning(SelfReference::Working {
            number,
            columns,
            seen,
        }) => {
            if let Recursion::Within(what) = place {
                return Err(refused(&format!("within {what}")));
            }
            *seen += 1;
            if *seen > 1 {
                return Err(refused("more than once"));
            }
            Ok((Node::Working(*number), columns.clone()))
        }
        Stage::Waiting | Stage::Planned(_) | Stage::Changed(..) => {
            Err(Error::internal("a table of WITH that is not being planned"))
        }
    }
}

fn wrong_form(name: &str) -> Error {
    recursion(format!(
        "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
    ))
}

/// Plans a table of WITH in the frame of the query that WITH belongs to.
fn plan_table(binder: &mut Binder<'_>, at: usize, frame: &Frame<'_>) -> Result<()> {
    let table = binder.with[at].clone();
    let StatementKind::Query(query) = &*table.statement else {
        return plan_change(binder, at, &table);
    };
    binder.with[at].stage = Stage::Planning(SelfReference::WrongForm);
    let outer = binder.recursive_body.replace(at);
    if !table.recursive {
        binder.recursive_body = None;
    }
    let plan = beside(binder, at, &table, |binder| {
        plan_in_frame(binder, query, frame)
    });
    binder.recursive_body = outer;
    let plan = plan?;
    let columns = renamed(&table, plan.columns())?;
    binder.with[at].stage = Stage::Planned(Arc::new(Common {
        number: binder.next_subquery(),
        name: table.name,
        plan,
        columns,
        references: AtomicUsize::new(0),
        is_read_deeper: AtomicBool::new(false),
        reading: OnceLock::new(),
    }));
    Ok(())
}

/// Plans a change, whose plan the binder collects.
fn plan_change(binder: &mut Binder<'_>, at: usize, table: &CommonTable) -> Result<()> {
    let Some(bind) = table.bind_change else {
        return Err(Error::internal("a change in WITH that nothing plans"));
    };
    binder.with[at].stage = Stage::Planning(SelfReference::InChange);
    let outer = binder.recursive_body.take();
    let columns = beside(binder, at, table, |binder| bind(binder, &table.statement));
    binder.recursive_body = outer;
    let columns = match columns? {
        Some(columns) => Some(renamed(table, &columns)?),
        None => None,
    };
    let number = binder.changes.len().checked_sub(1);
    let number = number.ok_or_else(|| Error::internal("a change that has no plan"))?;
    binder.with[at].stage = Stage::Changed(number, columns);
    Ok(())
}

/// Plans the statement of a table of WITH, which sees those tables that it may see.
fn beside<T>(
    binder: &mut Binder<'_>,
    at: usize,
    table: &CommonTable,
    plan: impl FnOnce(&mut Binder<'_>) -> Result<T>,
) -> Result<T> {
    let hidden = binder.with.split_off(table.visible);
    let levels = binder
        .levels
        .split_off(table.depth.min(binder.levels.len()));
    let recursion = std::mem::replace(&mut binder.recursion, Recursion::Permitted);
    binder.tables_planned.push(at);
    let planned = binder.apart(plan);
    binder.tables_planned.pop();
    binder.recursion = recursion;
    binder.levels.extend(levels);
    binder.with.extend(hidden);
    planned
}

/// How often the tables of WITH in scope have been referred to so far.
pub(super) fn references(binder: &Binder<'_>) -> Vec<usize> {
    let counts = binder.with.iter().map(|table| match &table.stage {
        Stage::Planning(SelfReference::Working { seen, .. }) => *seen,
        Stage::Planned(common) => common.references.load(Ordering::Relaxed),
        Stage::Waiting | Stage::Planning(_) | Stage::Changed(..) => 0,
    });
    counts.collect()
}

/// Forgets the references since then, of a part that is planned once more.
pub(super) fn set_references(binder: &mut Binder<'_>, known: &[usize]) {
    for (table, known) in binder.with.iter_mut().zip(known) {
        match &mut table.stage {
            Stage::Planning(SelfReference::Working { seen, .. }) => *seen = *known,
            Stage::Planned(common) => common.references.store(*known, Ordering::Relaxed),
            Stage::Waiting | Stage::Planning(_) | Stage::Changed(..) => {}
        }
    }
}

/// The columns with the names that WITH gives them.
fn renamed(table: &CommonTable, columns: &[Column]) -> Result<Vec<Column>> {
    let name = &table.name;
    if table.columns.len() > columns.len() {
        return Err(Error::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                table.columns.len()
            ),
        )
        .at(table.position));
    }
    let mut columns = columns.to_vec();
    for (column, renamed) in columns.iter_mut().zip(&table.columns) {
        column.name.clone_from(renamed);
    }
    Ok(columns)
}

/// The table of WITH RECURSIVE whose query this is, if it may refer to itself in its last
/// step; from here on its other parts may not.
pub(super) fn recursive_steps(binder: &mut Binder<'_>, query: &Query) -> Option<usize> {
    let at = binder.recursive_body.take()?;
    match &query.body {
        Body::Set(_, steps)
            if steps
                .last()
                .is_some_and(|step| step.operation == SetOperation::Union) =>
        {
            binder.with[at].stage = Stage::Planning(SelfReference::InBase);
            Some(at)
        }
        _ => None,
    }
}

/// UNION [ALL] whose right side reads the rows that it has made before.
#[derive(Clone, Debug)]
pub(crate) struct Recursive {
    /// Number of the working table.
    pub number: usize,
    /// The rows to begin with.
    pub base: Node,
    /// Makes rows from those of the working table.
    pub step: Node,
    /// Whether rows that were there before are left out.
    pub distinct: bool,
    /// Whether the step can be opened again for another working table; otherwise it keeps
    /// rows, and is made anew.
    pub reopens: bool,
}

/// Plans the last step of a set operation that may be recursive.
pub(super) fn plan_last_step(
    binder: &mut Binder<'_>,
    at: usize,
    left: Planned,
    plan_right: impl FnOnce(&mut Binder<'_>) -> Result<Planned>,
    join: impl FnOnce(&mut Binder<'_>, Planned, Planned) -> Result<Planned>,
    distinct: bool,
) -> Result<(Planned, bool)> {
    let number = binder.next_subquery();
    let table = binder.with[at].clone();
    // The working table has the types of the base, where text is the type of literals.
    let mut columns = renamed(&table, &left.columns)?;
    for column in &mut columns {
        column.column_type = settled(column.column_type);
        column.table_oid = 0;
        column.attribute = 0;
    }
    binder.with[at].stage = Stage::Planning(SelfReference::Working {
        number,
        columns,
        seen: 0,
    });
    let right = plan_right(binder)?;
    let is_recursive = matches!(
        binder.with[at].stage,
        Stage::Planning(SelfReference::Working { seen: 1.., .. })
    );
    binder.with[at].stage = Stage::Planning(SelfReference::InBase);
    if !is_recursive {
        return join(binder, left, right).map(|planned| (planned, false));
    }
    let left = settle_columns(binder, left)?;
    let types: Vec<_> = left
        .columns
        .iter()
        .map(|column| column.column_type)
        .collect();
    let planned = join(binder, left, right)?;
    for (position, (column, before)) in planned.columns.iter().zip(types).enumerate() {
        if column.column_type != before {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "recursive query \"{}\" column {} has type {before} in non-recursive term but type {} overall",
                    table.name,
                    position + 1,
                    column.column_type
                ),
            )
            .with_hint("Cast the output of the non-recursive term to the correct type.")
            .at(table.position));
        }
    }
    let Planned { node, columns, .. } = planned;
    let sides = match node {
        Node::Distinct { input, .. } if distinct => *input,
        other => other,
    };
    let Node::Append(mut sides) = sides else {
        return Err(Error::internal("a recursive query that is no UNION"));
    };
    let (Some(step), Some(base)) = (sides.pop(), sides.pop()) else {
        return Err(Error::internal("a UNION of one side"));
    };
    let node = Node::Recursive(Box::new(Recursive {
        number,
        reopens: reopens(&step, number),
        base,
        step,
        distinct,
    }));
    let planned = Planned {
        node,
        columns,
        shape: None,
    };
    Ok((planned, true))
}

/// Whether the node reads the working table through nodes that keep no rows when they are
/// opened again, or not at all.
fn reopens(node: &Node, number: usize) -> bool {
    let reads =
        |node: &Node| node.any_node(&|each| matches!(each, Node::Working(n) if *n == number));
    if !reads(node) {
        return true;
    }
    let forgets = matches!(
        node,
        Node::Working(_)
            | Node::Plan(_)
            | Node::Filter { .. }
            | Node::Project { .. }
            | Node::ProjectSet(_)
            | Node::Join(_)
            | Node::Sort(_)
            | Node::Distinct { .. }
            | Node::Limit { .. }
            | Node::Append(_)
            | Node::Window(_)
    ) || matches!(node, Node::Derived(derived) if derived.correlations.is_none());
    let mut all = forgets;
    node.inputs(&mut |input| all = all && reopens(input, number));
    all
}

/// Whether the node shows the working table of a recursive query itself.
pub(super) fn is_working_table(node: &Node) -> bool {
    matches!(node, Node::Working(_))
}

/// Refuses aggregates in a query that reads the working table.
pub(super) fn no_aggregates() -> Error {
    recursion(
        "aggregate functions are not allowed in a recursive query's recursive term".to_owned(),
    )
}

/// Refuses a clause around a recursive query.
pub(super) fn refuse_around(query: &Query) -> Result<()> {
    let clause = if !query.order.is_empty() {
        "ORDER BY"
    } else if query.offset.is_some() {
        "OFFSET"
    } else if query.limit.is_some() {
        "LIMIT"
    } else if !query.locking.is_empty() {
        "FOR UPDATE/SHARE"
    } else {
        return Ok(());
    };
    Err(Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{clause} in a recursive query is not implemented"),
    ))
}

/// The node with the tables of WITH around it.
pub(crate) fn around(node: Node, commons: Vec<Arc<Common>>, depth: usize) -> Node {
    Node::With(Box::new(With {
        commons,
        input: node,
        lasts: depth == 0,
    }))
}

/// A query behind WITH.
#[derive(Clone, Debug)]
pub(crate) struct With {
    /// The tables of WITH.
    pub commons: Vec<Arc<Common>>,
    /// The query.
    pub input: Node,
    /// Whether the rows of the tables are the same whenever the query is opened again.
    pub lasts: bool,
}
