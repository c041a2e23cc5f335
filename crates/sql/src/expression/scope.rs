//! Name resolution: scopes that map column names to columns, and frames that collect a
//! subquery's correlations.
//!
//! A [`Scope`] holds the names that the clauses of one SELECT can use: the columns of
//! its FROM list. A [`Frame`] collects the values that a subquery takes from the
//! enclosing query. The binder looks a name that the scope does not have up in the
//! scope outside the frame; a match there becomes a correlation, [`Expression::Outer`]:
//!
//! ```text
//!   select … from a where exists (select 1 from b where b.x = a.x)
//!            scope of a                         scope of b, in a frame:
//!            Column(1) is a.x                   Outer(0) is a.x = Column(1) outside
//! ```

use std::cell::{Cell, RefCell};

use smol_str::SmolStr;

use super::Expression;
use super::system_columns::{OF_RECORDS, system_column};
use crate::value::ColumnType;
use crate::{Error, Result, SqlState};

/// A column that expressions can name.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Name of the column.
    pub name: SmolStr,
    /// Expression that computes the column from the rows of the FROM list.
    pub expression: Expression,
    /// Type of the column.
    pub column_type: ColumnType,
    /// OID of the table and number of the attribute that the column shows unchanged, if
    /// any.
    pub origin: Option<(u32, i16)>,
}

/// One item of a FROM list.
#[derive(Clone, Debug)]
pub struct ScopeRelation {
    /// Alias or table name. Empty for an item that cannot qualify a name, such as the
    /// merged columns of JOIN … USING.
    pub name: SmolStr,
    /// Schema of the table, if names can be qualified with it.
    pub schema: Option<SmolStr>,
    /// Columns of the item.
    pub columns: Vec<ScopeColumn>,
    /// Columns that a join with USING has merged: reachable by qualified name only, and
    /// left out of `*`.
    pub merged: Vec<bool>,
    /// Whether it is a function with one column, so that its name means the column's value.
    pub is_scalar: bool,
    /// OID of the table, for an item that is one.
    pub table: Option<u32>,
    /// Position of the rows' record ids, if they have them.
    pub record: Option<usize>,
    /// Position of the rows' `xmax`, if that is not 0.
    pub xmax: Option<usize>,
    /// Whether an outer join may fill the item up with nulls.
    pub nullable: bool,
}

/// The columns that every table has and `*` does not show.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "cmin", "xmax", "cmax"];

impl ScopeRelation {
    /// A relation without merged columns.
    #[must_use]
    pub fn new(name: SmolStr, schema: Option<SmolStr>, columns: Vec<ScopeColumn>) -> Self {
        let merged = vec![false; columns.len()];
        Self {
            name,
            schema,
            columns,
            merged,
            is_scalar: false,
            table: None,
            record: None,
            xmax: None,
            nullable: false,
        }
    }

    /// The system column of this name, if the item is a table and there is one. Where the
    /// rows do not have their record ids, notes in the frame that they should.
    fn system_column(&self, name: &str, frame: &Frame<'_>) -> Result<Option<ScopeColumn>> {
        let Some(table) = self.table.filter(|_| SYSTEM_COLUMNS.contains(&name)) else {
            return Ok(None);
        };
        let found = system_column(name, table, self.record, self.xmax);
        let Some((expression, data_type)) = found else {
            frame.wants_records.set(true);
            let what = format!("the system column {name} here");
            return Err(Error::unsupported(what));
        };
        // A row that an outer join has made is null in all columns.
        let is_null =
            |column: &ScopeColumn| Expression::IsNull(Box::new(column.expression.clone()));
        let missing = Expression::all_of(self.columns.iter().map(is_null).collect());
        let by_itself = OF_RECORDS.contains(&name) || self.columns.is_empty();
        let expression = match self.nullable && !by_itself {
            false => expression,
            true => Expression::Case(vec![(missing, Expression::NULL)], Box::new(expression)),
        };
        Ok(Some(ScopeColumn {
            name: SmolStr::new(name),
            expression,
            column_type: data_type.into(),
            origin: None,
        }))
    }
}

/// The boundary between a subquery and its enclosing query; collects the subquery's
/// correlations.
#[derive(Debug)]
pub struct Frame<'a> {
    outside: Option<&'a Scope<'a>>,
    taken: RefCell<Vec<Expression>>,
    /// Number of frames around this one.
    depth: usize,
    /// Whether a name needs the record ids of the rows of this level, which they do not
    /// have: the query is planned once more, with them.
    wants_records: Cell<bool>,
}

impl<'a> Frame<'a> {
    /// The frame of a whole statement, without an enclosing query.
    #[must_use]
    pub fn outermost() -> Self {
        Self {
            outside: None,
            taken: RefCell::new(Vec::new()),
            depth: 0,
            wants_records: Cell::new(false),
        }
    }

    /// The frame of a subquery inside the scope `outside`.
    #[must_use]
    pub fn inside(outside: &'a Scope<'a>) -> Self {
        Self {
            outside: Some(outside),
            taken: RefCell::new(Vec::new()),
            depth: outside.frame.depth + 1,
            wants_records: Cell::new(false),
        }
    }

    /// Whether rows need their record ids.
    #[must_use]
    pub fn wants_records(&self) -> bool {
        self.wants_records.get()
    }

    /// The subquery's correlations, in the order of [`Expression::Outer`], as
    /// expressions of the enclosing query.
    #[must_use]
    pub fn into_taken(self) -> Vec<Expression> {
        self.taken.into_inner()
    }

    /// The scope of the enclosing query.
    pub(crate) const fn outside(&self) -> Option<&'a Scope<'a>> {
        self.outside
    }

    /// Number of frames around this one.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// The frame of that depth, of those around this one.
    pub(crate) fn at_depth(&self, depth: usize) -> &Self {
        let mut frame = self;
        while frame.depth > depth
            && let Some(outside) = frame.outside
        {
            frame = outside.frame;
        }
        frame
    }

    /// The correlations so far.
    pub(crate) fn taken(&self) -> Vec<Expression> {
        self.taken.borrow().clone()
    }

    /// Number of correlations of this frame and of those around it, from the inside.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![self.taken.borrow().len()];
        let mut outside = self.outside;
        while let Some(scope) = outside {
            counts.push(scope.frame.taken.borrow().len());
            outside = scope.frame.outside;
        }
        counts
    }

    /// Drops the correlations from this one on.
    pub(crate) fn forget(&self, from: usize) {
        self.taken.borrow_mut().truncate(from);
    }

    /// Makes the subqueries between this frame and one of that depth depend on the rows of
    /// the queries around them: they read what those queries make anew. A correlation with
    /// NULL says so ([`super::Subquery::reads_anew`]).
    pub(crate) fn depend(&self, depth: usize) {
        if self.depth > depth {
            self.take(Expression::NULL);
            if let Some(outside) = self.outside {
                outside.frame.depend(depth);
            }
        }
    }

    /// Takes a value of the enclosing query.
    pub(crate) fn take(&self, expression: Expression) -> Expression {
        let mut taken = self.taken.borrow_mut();
        let position = match taken.iter().position(|known| *known == expression) {
            Some(position) => position,
            None => {
                taken.push(expression);
                taken.len() - 1
            }
        };
        Expression::Outer(position)
    }
}

/// The names that the clauses of a SELECT can use.
#[derive(Debug)]
pub struct Scope<'a> {
    /// Items of the FROM list.
    pub relations: Vec<ScopeRelation>,
    /// Boundary to the enclosing query.
    pub frame: &'a Frame<'a>,
}

impl<'a> Scope<'a> {
    /// A scope without relations.
    #[must_use]
    pub fn empty(frame: &'a Frame<'a>) -> Self {
        Self {
            relations: Vec::new(),
            frame,
        }
    }

    /// Resolves an unqualified column name; errors 42703, 42702.
    pub fn column(&self, name: &str) -> Result<ScopeColumn> {
        if let Some(column) = self.find(name)? {
            return Ok(column);
        }
        match self.whole(name)? {
            Some((mut columns, true)) if columns.len() == 1 => Ok(columns.remove(0)),
            Some(_) => Err(Error::unsupported("a whole row as a value")),
            None => {
                let error = Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" does not exist"),
                );
                Err(self.suggest(error, name))
            }
        }
    }

    /// Looks an unqualified column name up in this scope, then in the enclosing ones.
    pub fn find(&self, name: &str) -> Result<Option<ScopeColumn>> {
        let mut found: Option<&ScopeColumn> = None;
        for relation in &self.relations {
            for (column, merged) in relation.columns.iter().zip(&relation.merged) {
                if column.name != name || *merged {
                    continue;
                }
                if found.is_some() {
                    return Err(Error::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!("column reference \"{name}\" is ambiguous"),
                    ));
                }
                found = Some(column);
            }
        }
        if let Some(column) = found {
            return Ok(Some(column.clone()));
        }
        if SYSTEM_COLUMNS.contains(&name) {
            let mut tables = self.relations.iter().filter(|each| each.table.is_some());
            match (tables.next(), tables.next()) {
                (Some(_), Some(_)) => {
                    return Err(Error::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!("column reference \"{name}\" is ambiguous"),
                    ));
                }
                (Some(table), None) => return table.system_column(name, self.frame),
                _ => {}
            }
        }
        self.outside(|outside| outside.find(name))
    }

    /// The columns of a relation of this scope or one around it, and whether its name means
    /// the value of the only one.
    pub(crate) fn whole(&self, name: &str) -> Result<Option<(Vec<ScopeColumn>, bool)>> {
        if let Some(relation) = self.relation(None, name)? {
            return Ok(Some((relation.columns.clone(), relation.is_scalar)));
        }
        let Some(outside) = self.frame.outside else {
            return Ok(None);
        };
        let found = outside.whole(name)?;
        Ok(found.map(|(columns, is_scalar)| {
            let taken = columns.into_iter().map(|column| ScopeColumn {
                expression: self.frame.take(column.expression),
                ..column
            });
            (taken.collect(), is_scalar)
        }))
    }

    fn outside(
        &self,
        find: impl FnOnce(&Scope<'_>) -> Result<Option<ScopeColumn>>,
    ) -> Result<Option<ScopeColumn>> {
        let Some(outside) = self.frame.outside else {
            return Ok(None);
        };
        Ok(find(outside)?.map(|column| ScopeColumn {
            expression: self.frame.take(column.expression),
            ..column
        }))
    }

    /// Looks a relation up in this scope only.
    pub fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<&ScopeRelation>> {
        let mut matching = self.relations.iter().filter(|relation| {
            relation.name == name
                && !relation.name.is_empty()
                && schema.is_none_or(|schema| relation.schema.as_deref() == Some(schema))
        });
        let found = matching.next();
        if matching.next().is_some() {
            return Err(Error::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table reference \"{name}\" is ambiguous"),
            ));
        }
        Ok(found)
    }

    /// Resolves a qualified column name; errors 42703, 42P01.
    pub fn qualified_column(
        &self,
        schema: Option<&str>,
        relation: &str,
        name: &str,
    ) -> Result<ScopeColumn> {
        match self.find_qualified(schema, relation, name)? {
            Some(column) => Ok(column),
            None => Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("missing FROM-clause entry for table \"{relation}\""),
            )),
        }
    }

    fn find_qualified(
        &self,
        schema: Option<&str>,
        relation: &str,
        name: &str,
    ) -> Result<Option<ScopeColumn>> {
        if let Some(found) = self.relation(schema, relation)? {
            let column = found.columns.iter().find(|column| column.name == name);
            return match column {
                Some(column) => Ok(Some(column.clone())),
                None if SYSTEM_COLUMNS.contains(&name) && found.table.is_some() => {
                    found.system_column(name, self.frame)
                }
                None => Err(Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column {relation}.{name} does not exist"),
                )),
            };
        }
        self.outside(|outside| outside.find_qualified(schema, relation, name))
    }

    fn suggest(&self, error: Error, name: &str) -> Error {
        for relation in &self.relations {
            for column in &relation.columns {
                let (known, wanted) = (column.name.as_str(), name);
                if !relation.name.is_empty() && is_near(known, wanted) {
                    return error.with_hint(format!(
                        "Perhaps you meant to reference the column \"{}.{known}\".",
                        relation.name
                    ));
                }
            }
        }
        error
    }
}

/// Whether the edit distance of the two names is at most one.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > 1 || one.len().min(other.len()) < 3 {
        return false;
    }
    let head = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    head + tail + 1 >= one.len().max(other.len())
}
