//! The binder of functions in the FROM list, and of set-returning functions.

use coeval_sql_syntax::tree::{Arguments, ExprKind, FunctionTable};
use smol_str::SmolStr;

use super::from::{From, FromKind, FromNode};
use super::json_function::{bind_json_set, record_function};
use super::name::column_name;
use super::node::{SetFunction, SetKind};
use crate::expression::json::json_set;
use crate::expression::{
    Binder, Bound, Call, Expression, Place, ScopeColumn, SystemObjects, common_type, fold_name,
};
use crate::route::{Reason, Route};
use crate::system::SEQUENCE_PARAMETERS;
use crate::value::{DataType, Value};
use crate::{Error, Result, SqlState};

impl From<'_, '_, '_> {
    pub(super) fn functions(&mut self, table: &FunctionTable) -> Result<FromNode> {
        let [(expr, types)] = table.functions.as_slice() else {
            return Err(Error::unsupported("ROWS FROM of several functions"));
        };
        let position = self.binder.position(expr.at);
        let record = record_function(expr);
        if record.is_none() && (!types.is_empty() || !table.columns.is_empty()) {
            return Err(Error::unsupported("a list of columns of a function").at(position));
        }
        let (ordinality, alias) = (table.ordinality, table.alias.as_ref());
        let function = column_name(expr);
        let set = match &expr.kind {
            ExprKind::Function(call) => {
                let name = call.name.0.last().map(fold_name).unwrap_or_default();
                is_set_function(&name, self.binder.session.system).then_some((name, call))
            }
            _ => None,
        };
        let listed = if types.is_empty() {
            &table.columns
        } else {
            types
        };
        let mut record_types = Vec::new();
        let (mut set, mut columns) = match (record, set) {
            (Some(record), _) => {
                let (set, columns) = self.record(record, listed, position)?;
                record_types = columns.iter().map(|column| column.column_type).collect();
                let columns = columns
                    .into_iter()
                    .map(|column| (column.name, column.column_type.data_type));
                (set, columns.collect())
            }
            (None, Some((name, call))) => {
                let list = match &call.arguments {
                    Arguments::List(list) if !list.variadic && !list.distinct => list,
                    _ => {
                        return Err(Error::unsupported(
                            "DISTINCT, VARIADIC or * in a function of FROM",
                        )
                        .at(position));
                    }
                };
                let scope = &self.scope;
                let bounds = self.binder.positional(&list.arguments, position, scope)?;
                bind_set_function(self.binder, &name, bounds, SetPlace::From, position)?
            }
            (None, None) => {
                let bound = self.binder.bind(expr, &self.scope)?;
                let column = (
                    SmolStr::from(function.as_str()),
                    bound.column_type.data_type,
                );
                let set = SetFunction {
                    kind: SetKind::Scalar,
                    arguments: vec![bound.expression],
                    ordinality: false,
                };
                (set, vec![column])
            }
        };
        set.ordinality = ordinality;
        if ordinality {
            columns.push(("ordinality".into(), DataType::Int8));
        }
        // The alias of a function with one column also names the column, unless the function
        // names it.
        let is_scalar = record.is_none() && columns.len() == 1 + usize::from(ordinality);
        let is_named = matches!(set.kind, SetKind::Json(set)
            if columns.first().is_some_and(|(name, _)| name != set.name));
        if let Some(alias) = alias
            && is_scalar
            && !is_named
        {
            columns[0].0 = SmolStr::from(fold_name(&alias.name));
        }
        let start = self.width;
        let width = columns.len();
        let scope_columns = columns
            .into_iter()
            .enumerate()
            .map(|(position, (name, data_type))| ScopeColumn {
                name,
                expression: Expression::Column(start + position),
                column_type: record_types
                    .get(position)
                    .copied()
                    .unwrap_or(data_type.into()),
                origin: None,
            })
            .collect();
        self.add(SmolStr::from(function.as_str()), None, scope_columns, alias)
            .map_err(|error| error.at(position))?;
        if let Some(relation) = self.scope.relations.last_mut() {
            relation.is_scalar = is_scalar && !ordinality;
        }
        Ok(self.place(FromKind::Function(set), width))
    }
}

/// Whether the function of this name returns a set.
pub(crate) fn is_set_function(name: &str, system: &SystemObjects) -> bool {
    let is_own = matches!(
        name,
        "generate_series" | "unnest" | "generate_subscripts" | "pg_sequence_parameters"
    );
    is_own || json_set(name).is_some() || system.table_functions(name).next().is_some()
}

/// Where a set-returning function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetPlace {
    /// In FROM, where it makes a table.
    From,
    /// In a select list, where it makes one value for each row.
    List,
}

/// Whether a series of these types is one of moments: its step is an interval.
fn is_moments(types: &[DataType]) -> bool {
    let moment = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Date | DataType::Timestamp | DataType::TimestampTz
        )
    };
    let step = types.get(2).copied();
    matches!(step, Some(DataType::Interval))
        || matches!(step, Some(DataType::Unknown | DataType::Time)) && types[..2].iter().any(moment)
}

/// A bound set-returning function, and names and types of its columns.
type BoundSet = (SetFunction, Vec<(SmolStr, DataType)>);

/// Binds a call of a set-returning function.
pub(crate) fn bind_set_function(
    binder: &mut Binder<'_>,
    name: &str,
    mut arguments: Vec<Bound>,
    place: SetPlace,
    position: Option<u32>,
) -> Result<BoundSet> {
    if let Some(set) = json_set(name) {
        return bind_json_set(binder, set, arguments, position);
    }
    let types: Vec<DataType> = arguments
        .iter()
        .map(|bound| bound.column_type.data_type)
        .collect();
    let none_such = || {
        let names: Vec<&str> = types.iter().map(|each| each.sql_name()).collect();
        Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {name}({}) does not exist", names.join(", ")),
        )
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
        .at(position)
    };
    if name == "pg_sequence_parameters" && types.len() == 1 {
        let oid = binder.implicit(arguments.swap_remove(0), DataType::Oid)?;
        return Ok(sequence_parameters(&oid.expression));
    }
    let (kind, column, arguments) = match name {
        "generate_series" if types.len() == 3 && is_moments(&types) => {
            let data_type = match types[..2] {
                [
                    DataType::Timestamp,
                    DataType::Timestamp | DataType::Unknown | DataType::Date,
                ]
                | [DataType::Unknown | DataType::Date, DataType::Timestamp] => DataType::Timestamp,
                // Of dates, PostgreSQL prefers the type with time zone.
                _ => DataType::TimestampTz,
            };
            let wanted = [data_type, data_type, DataType::Interval];
            let mut bounds = Vec::with_capacity(3);
            for (argument, wanted) in arguments.into_iter().zip(wanted) {
                bounds.push(binder.implicit(argument, wanted)?.expression);
            }
            (SetKind::Series(data_type), data_type, bounds)
        }
        "generate_series" if matches!(types.len(), 2 | 3) => {
            let data_type = match common_type(&types) {
                Some(DataType::Int2 | DataType::Int4 | DataType::Text) => DataType::Int4,
                Some(known @ (DataType::Int8 | DataType::Numeric)) => known,
                Some(other) => {
                    return Err(
                        Error::unsupported(format_args!("generate_series of {other}")).at(position),
                    );
                }
                None => return Err(none_such()),
            };
            let mut bounds = Vec::with_capacity(arguments.len());
            for argument in arguments {
                bounds.push(binder.implicit(argument, data_type)?.expression);
            }
            (SetKind::Series(data_type), data_type, bounds)
        }
        // Only FROM takes several arrays: elsewhere a function has one result.
        "unnest" if types.len() > 1 && place == SetPlace::From => {
            let elements = types.iter().map(|each| each.element());
            let elements = elements.collect::<Option<Vec<_>>>();
            let elements = elements.ok_or_else(none_such)?;
            let arrays = arguments.into_iter().map(|bound| bound.expression);
            let function = SetFunction {
                kind: SetKind::Unnest,
                arguments: arrays.collect(),
                ordinality: false,
            };
            let column = |element| (SmolStr::from(name), element);
            return Ok((function, elements.into_iter().map(column).collect()));
        }
        "unnest" if types.len() > 1 => return Err(none_such()),
        "unnest" | "generate_subscripts" if !types.is_empty() => {
            let element = types[0].element().ok_or_else(none_such)?;
            let vector = matches!(types[0], DataType::Int2Vector | DataType::OidVector);
            let array = arguments.swap_remove(0).expression;
            let first = Expression::Constant(Value::Int4(i32::from(!vector)));
            if name == "unnest" {
                (SetKind::Unnest, element, vec![array])
            } else {
                (SetKind::Subscripts, DataType::Int4, vec![array, first])
            }
        }
        _ => {
            let found = binder
                .session
                .system
                .table_functions(name)
                .find_map(|table| Some((table, table.signature(&types)?)));
            let (table, (wanted, columns)) = found.ok_or_else(none_such)?;
            if table.place != Place::Anywhere {
                binder.route = binder.route.and(Route::Leader(Reason::Function));
            }
            let mut given = Vec::with_capacity(arguments.len());
            for (argument, wanted) in arguments.into_iter().zip(wanted) {
                given.push(binder.implicit(argument, wanted)?.expression);
            }
            let kind = match place {
                SetPlace::List if columns.len() > 1 => SetKind::Packed(table),
                SetPlace::From | SetPlace::List => SetKind::Table(table),
            };
            let function = SetFunction {
                kind,
                arguments: given,
                ordinality: false,
            };
            let columns = columns.into_iter();
            let columns = columns.map(|(name, data_type)| (SmolStr::new_static(name), data_type));
            return Ok((function, columns.collect()));
        }
    };
    let function = SetFunction {
        kind,
        arguments,
        ordinality: false,
    };
    Ok((function, vec![(SmolStr::from(name), column)]))
}

/// How the sequence with an OID counts, as a row.
fn sequence_parameters(oid: &Expression) -> BoundSet {
    let arguments = SEQUENCE_PARAMETERS.iter().map(|(_, _, function)| {
        Expression::Call(Box::new(Call {
            function,
            arguments: vec![oid.clone()],
            types: vec![DataType::Oid.into()],
        }))
    });
    let function = SetFunction {
        kind: SetKind::Scalar,
        arguments: arguments.collect(),
        ordinality: false,
    };
    let columns = SEQUENCE_PARAMETERS.iter();
    let columns = columns.map(|(name, data_type, _)| (SmolStr::new_static(name), *data_type));
    (function, columns.collect())
}
