//! The binder of functions that return the parts of a JSON document as rows, and of those
//! that return records.
//!
//! The columns of a record are part of the call: `json_to_record(x) AS r(a int, b text)`, or
//! `json_populate_record(NULL::t, x)`, which has the columns of the table `t`. The binder
//! hands them to the function as constants behind the document.

use coeval_sql_syntax::tree::{
    self, Argument, Arguments, BaseType, ColumnType as ListedColumn, Expr, ExprKind, FunctionCall,
    Literal,
};
use smol_str::SmolStr;

use super::from::From;
use super::node::{SetFunction, SetKind};
use crate::catalog::QualifiedName;
use crate::expression::json::{JsonSet, Record, RecordColumn, json_set, record_arguments};
use crate::expression::{Binder, Bound, Expression, fold_name, resolve_type};
use crate::value::DataType;
use crate::{Error, Result, SqlState};

/// The function that returns a record, if the expression is a call of one.
pub(super) fn record_function(expr: &Expr) -> Option<(&'static JsonSet, Record, &FunctionCall)> {
    let ExprKind::Function(call) = &expr.kind else {
        return None;
    };
    let set = json_set(&fold_name(call.name.0.last()?))?;
    Some((set, set.record?, call))
}

/// Binds a call of a function that returns the parts of a document.
pub(super) fn bind_json_set(
    binder: &mut Binder<'_>,
    set: &'static JsonSet,
    arguments: Vec<Bound>,
    position: Option<u32>,
) -> Result<(SetFunction, Vec<(SmolStr, DataType)>)> {
    if set.record.is_some() {
        return Err(Error::unsupported("a record outside of FROM").at(position));
    }
    let fits = |bound: &Bound, wanted: DataType| {
        let given = bound.column_type.data_type;
        given == wanted || given == DataType::Unknown
    };
    let count = arguments.len();
    let is_call = (set.required..=set.arguments.len()).contains(&count)
        && arguments
            .iter()
            .zip(set.arguments)
            .all(|(bound, wanted)| fits(bound, *wanted));
    if !is_call {
        let names: Vec<&str> = arguments
            .iter()
            .map(|bound| bound.column_type.data_type.sql_name())
            .collect();
        return Err(Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {}({}) does not exist", set.name, names.join(", ")),
        )
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
        .at(position));
    }
    let mut bound = Vec::with_capacity(count);
    for (argument, wanted) in arguments.into_iter().zip(set.arguments) {
        bound.push(binder.implicit(argument, *wanted)?.expression);
    }
    let function = SetFunction {
        kind: SetKind::Json(set),
        arguments: bound,
        ordinality: false,
    };
    let columns = set
        .columns
        .iter()
        .map(|(name, data_type)| (SmolStr::new(name), *data_type));
    Ok((function, columns.collect()))
}

impl From<'_, '_, '_> {
    /// Binds a call of a function that returns a record or a set of records.
    pub(super) fn record(
        &mut self,
        (set, record, call): (&'static JsonSet, Record, &FunctionCall),
        listed: &[ListedColumn],
        position: Option<u32>,
    ) -> Result<(SetFunction, Vec<RecordColumn>)> {
        let arguments = match &call.arguments {
            Arguments::List(list) if !list.variadic && !list.distinct => list.arguments.as_slice(),
            _ => {
                return Err(
                    Error::unsupported("DISTINCT, VARIADIC or * in a function of FROM")
                        .at(position),
                );
            }
        };
        let (columns, document) = match (record, arguments) {
            (Record::Listed, [document]) if listed.is_empty() => {
                return Err(Error::syntax(
                    "a column definition list is required for functions returning \"record\"",
                )
                .at(self.binder.position(document.value.at).and(position)));
            }
            (Record::Listed, [document]) => (self.listed_columns(listed)?, document),
            (Record::Typed, [base, document]) if listed.is_empty() => {
                (self.columns_of(base, position)?, document)
            }
            (Record::Typed, [_, _]) => {
                return Err(Error::syntax(
                    "a column definition list is redundant for a function returning a named composite type",
                )
                .at(position));
            }
            _ => {
                return Err(Error::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!(
                        "function {} of {} arguments does not exist",
                        set.name,
                        arguments.len()
                    ),
                )
                .at(position));
            }
        };
        let bounds =
            self.binder
                .positional(std::slice::from_ref(document), position, &self.scope)?;
        let mut expressions = Vec::with_capacity(4);
        for (bound, wanted) in bounds.into_iter().zip(set.arguments) {
            expressions.push(self.binder.implicit(bound, *wanted)?.expression);
        }
        expressions.extend(record_arguments(&columns).map(Expression::Constant));
        let function = SetFunction {
            kind: SetKind::Json(set),
            arguments: expressions,
            ordinality: false,
        };
        Ok((function, columns))
    }

    fn listed_columns(&self, listed: &[ListedColumn]) -> Result<Vec<RecordColumn>> {
        listed
            .iter()
            .map(|column| {
                let place = self.binder.position(column.kind.at);
                Ok(RecordColumn {
                    name: SmolStr::from(fold_name(&column.name)),
                    column_type: resolve_type(&column.kind).map_err(|error| error.at(place))?,
                })
            })
            .collect()
    }

    /// The columns of the table that an argument `NULL::table` names.
    fn columns_of(&self, base: &Argument, position: Option<u32>) -> Result<Vec<RecordColumn>> {
        let unsupported = || {
            Error::unsupported("a record that is not NULL::table as a first argument").at(position)
        };
        let ExprKind::Cast(cast) = &base.value.kind else {
            return Err(unsupported());
        };
        let tree::Cast { operand, target } = &**cast;
        if !matches!(operand.kind, ExprKind::Literal(Literal::Null)) {
            return Err(unsupported());
        }
        let BaseType::Named(path, _) = &target.base else {
            return Err(unsupported());
        };
        let place = self.binder.position(target.at);
        let name = QualifiedName::new(path)?;
        let missing = || {
            Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("type \"{}\" does not exist", name.name),
            )
            .at(place)
        };
        name.require_public().map_err(|_| missing())?;
        let table = self
            .binder
            .catalog
            .table(&name.name)
            .map_err(|_| missing())?;
        Ok(table
            .columns
            .iter()
            .map(|column| RecordColumn {
                name: SmolStr::new(&column.name),
                column_type: column.column_type,
            })
            .collect())
    }
}
