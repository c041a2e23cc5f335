//! Functions in the FROM list.

use smol_str::SmolStr;
use sqlparser::ast::{FunctionArg, FunctionArgExpr, ObjectName, Spanned, TableAlias};

use super::from::{From, FromKind, FromNode};
use super::node::{SetFunction, SetKind};
use crate::expression::{Expression, ScopeColumn, fold_name};
use crate::value::{DataType, Value};
use crate::{Error, Result, SqlState};

impl From<'_, '_, '_> {
    pub(super) fn function(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromNode> {
        let position = self.binder.position(name.span());
        let function = name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold_name)
            .ok_or_else(|| Error::syntax("a function's name is expected").at(position))?;
        let mut bounds = Vec::new();
        for argument in arguments {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
                return Err(Error::unsupported("a named argument").at(position));
            };
            bounds.push(self.binder.bind(expr, &self.scope)?);
        }
        let mut kind = SetKind::Scalar;
        let mut columns: Vec<(SmolStr, DataType)> = Vec::new();
        let mut expressions = Vec::new();
        match function.as_str() {
            "generate_series" if matches!(bounds.len(), 2 | 3) => {
                let (unified, column_type) = self.binder.unify(bounds, "generate_series")?;
                let data_type = match column_type.data_type {
                    DataType::Int2 | DataType::Text => DataType::Int4,
                    other => other,
                };
                if !matches!(
                    data_type,
                    DataType::Int4 | DataType::Int8 | DataType::Numeric
                ) {
                    return Err(
                        Error::unsupported(format_args!("generate_series of {data_type}"))
                            .at(position),
                    );
                }
                for expression in unified {
                    let bound = crate::expression::Bound::new(expression, column_type);
                    let cast = self.binder.cast(
                        bound,
                        data_type.into(),
                        crate::expression::CastContext::Explicit,
                    )?;
                    expressions.push(cast.expression);
                }
                kind = SetKind::Series(data_type);
                columns.push((SmolStr::from(function.as_str()), data_type));
            }
            "unnest" | "generate_subscripts" if !bounds.is_empty() => {
                let array = bounds[0].column_type.data_type;
                let Some(element) = array.element() else {
                    return Err(Error::new(
                        SqlState::UNDEFINED_FUNCTION,
                        format!("function {function}({array}) does not exist"),
                    )
                    .at(position));
                };
                let vector = matches!(array, DataType::Int2Vector | DataType::OidVector);
                if function == "unnest" {
                    kind = SetKind::Unnest;
                    columns.push((SmolStr::from("unnest"), element));
                } else {
                    kind = SetKind::Subscripts;
                    columns.push((SmolStr::from("generate_subscripts"), DataType::Int4));
                }
                expressions.push(bounds.swap_remove(0).expression);
                expressions.push(Expression::Constant(Value::Int4(i32::from(!vector))));
            }
            name => {
                let bound = self.binder.call_with(name, bounds, position)?;
                columns.push((SmolStr::from(name), bound.column_type.data_type));
                expressions.push(bound.expression);
            }
        }
        if ordinality {
            columns.push(("ordinality".into(), DataType::Int8));
        }
        // The alias of a function with one column is its column's name, too.
        if let Some(alias) = alias
            && columns.len() == 1 + usize::from(ordinality)
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
                column_type: data_type.into(),
                origin: None,
            })
            .collect();
        self.add(SmolStr::from(function.as_str()), None, scope_columns, alias)
            .map_err(|error| error.at(position))?;
        let function = SetFunction {
            kind,
            arguments: expressions,
            ordinality,
        };
        Ok(self.place(FromKind::Function(function), width))
    }
}
