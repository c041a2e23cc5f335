//! The binder for what JSON and `bytea` have of their own: operators that are functions,
//! subscripts of `jsonb`, and rows as arguments of functions that make JSON.

use coeval_sql_syntax::tree::{self, Argument, Expr, ExprKind};
use smol_str::{SmolStr, format_smolstr};

use super::{Binder, fold_name};
use crate::access::Privileges;
use crate::expression::functions::json::{ROW, names};
use crate::expression::{Bound, Call, CastContext, Expression, Scope, ScopeColumn};
use crate::value::{ColumnType, DataType};
use crate::{Error, Result, SqlState};

/// Operators that only JSON has.
const OF_JSON: [&str; 10] = ["->", "->>", "#>", "#>>", "?", "?|", "?&", "#-", "@?", "@@"];

/// The function that an operator is for operands of these types; `None` for operators that
/// are none, or not of these types.
pub(super) fn operator_function(
    operator: &tree::Operator,
    left: DataType,
    right: DataType,
) -> Option<&'static str> {
    use DataType as T;
    let in_catalog = |schema: &tree::Name| schema.text == "pg_catalog";
    if !operator.schema.iter().all(in_catalog) {
        return None;
    }
    let is_integer = matches!(right, T::Int2 | T::Int4);
    let is_text = right.is_string() || right == T::Unknown;
    let is_texts = matches!(right, T::TextArray | T::VarCharArray | T::Unknown);
    let binary = matches!(
        (left, right),
        (T::Jsonb, T::Jsonb | T::Unknown) | (T::Unknown, T::Jsonb)
    );
    Some(match (operator.symbol.as_str(), left) {
        ("->", T::Jsonb) if is_integer => "jsonb_array_element",
        ("->", T::Jsonb) if is_text => "jsonb_object_field",
        ("->>", T::Jsonb) if is_integer => "jsonb_array_element_text",
        ("->>", T::Jsonb) if is_text => "jsonb_object_field_text",
        ("#>", T::Jsonb) if is_texts => "jsonb_extract_path",
        ("#>>", T::Jsonb) if is_texts => "jsonb_extract_path_text",
        ("->", T::Json) if is_integer => "json_array_element",
        ("->", T::Json) if is_text => "json_object_field",
        ("->>", T::Json) if is_integer => "json_array_element_text",
        ("->>", T::Json) if is_text => "json_object_field_text",
        ("#>", T::Json) if is_texts => "json_extract_path",
        ("#>>", T::Json) if is_texts => "json_extract_path_text",
        ("?", T::Jsonb) if is_text => "jsonb_exists",
        ("?|", T::Jsonb) if is_texts => "jsonb_exists_any",
        ("?&", T::Jsonb) if is_texts => "jsonb_exists_all",
        ("@>", _) if binary => "jsonb_contains",
        ("<@", _) if binary => "jsonb_contained",
        ("||", _) if binary => "jsonb_concat",
        ("-", T::Jsonb) if is_integer || is_text || is_texts => "jsonb_delete",
        ("#-", T::Jsonb) if is_texts => "jsonb_delete_path",
        ("@?", T::Jsonb) if matches!(right, T::JsonPath | T::Unknown) => "jsonb_path_exists_opr",
        ("@@", T::Jsonb) if matches!(right, T::JsonPath | T::Unknown) => "jsonb_path_match_opr",
        ("||", T::Bytea) if matches!(right, T::Bytea | T::Unknown) => "byteacat",
        ("||", T::Unknown) if right == T::Bytea => "byteacat",
        _ => return None,
    })
}

/// The type that the right operand's literal has: that of a path, or text.
fn literal_type(function: &str) -> Option<DataType> {
    match function {
        "jsonb_extract_path"
        | "jsonb_extract_path_text"
        | "json_extract_path"
        | "json_extract_path_text"
        | "jsonb_delete_path" => Some(DataType::TextArray),
        "jsonb_delete" => Some(DataType::Text),
        _ => None,
    }
}

/// The error for an operator of JSON on other types; `None` for another operator.
pub(super) fn misused(symbol: &str, left: DataType, right: DataType) -> Option<Error> {
    let is_array = left.element().or(right.element()).is_some();
    let contains = matches!(symbol, "@>" | "<@") && !is_array;
    if !contains && !OF_JSON.contains(&symbol) {
        return None;
    }
    if (left, right) == (DataType::Unknown, DataType::Unknown) {
        return Some(Error::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("operator is not unique: unknown {symbol} unknown"),
        )
        .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts."));
    }
    Some(super::operator::no_operator(left, symbol, right))
}

/// Whether the function or aggregate of this name takes rows.
pub(super) fn takes_rows(name: &str) -> bool {
    matches!(
        name,
        "row_to_json"
            | "to_json"
            | "to_jsonb"
            | "json_build_array"
            | "jsonb_build_array"
            | "json_build_object"
            | "jsonb_build_object"
            | "json_agg"
            | "jsonb_agg"
            | "json_object_agg"
            | "jsonb_object_agg"
    )
}

/// The error for values of a type that cannot be equal; `None` if they can.
pub(crate) fn no_equality(data_type: DataType) -> Option<Error> {
    (!data_type.is_comparable()).then(|| {
        Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("could not identify an equality operator for type {data_type}"),
        )
    })
}

/// The error for values of a type that has no order; `None` if it has one.
pub(crate) fn no_order(data_type: DataType) -> Option<Error> {
    (!data_type.is_comparable()).then(|| {
        Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("could not identify an ordering operator for type {data_type}"),
        )
        .with_hint("Use an explicit ordering operator or modify the query.")
    })
}

impl Binder<'_> {
    /// Binds an operator that is a function.
    pub(super) fn operator_call(
        &mut self,
        function: &'static str,
        left: Bound,
        right: Bound,
        place: Option<u32>,
    ) -> Result<Bound> {
        let right = match literal_type(function) {
            Some(data_type) if right.column_type.data_type == DataType::Unknown => {
                self.implicit(right, data_type)?
            }
            _ => right,
        };
        self.call_with(function, vec![left, right], place)
    }

    /// Binds a subscript of a `jsonb`, which is a key or the number of an element.
    pub(super) fn jsonb_subscript(
        &mut self,
        base: Bound,
        index: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let position = base.position;
        let subscript = self.bind(index, scope)?;
        let data_type = subscript.column_type.data_type;
        let is_known = data_type == DataType::Unknown
            || data_type.is_string()
            || matches!(data_type, DataType::Int2 | DataType::Int4);
        if !is_known {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("subscript type {data_type} is not supported"),
            )
            .with_hint("jsonb subscript must be coercible to either integer or text.")
            .at(self.position(index.at)));
        }
        let key = self.cast(subscript, DataType::Text.into(), CastContext::Explicit)?;
        self.call_with("jsonb_extract_path", vec![base, key], position)
    }

    /// Binds the arguments of a function that takes rows.
    pub(super) fn arguments_or_rows(
        &mut self,
        arguments: &[Argument],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Bound>> {
        let mut bounds = Vec::with_capacity(arguments.len());
        for argument in arguments {
            if argument.name.is_some() {
                return Err(Error::unsupported("a named argument of a function").at(position));
            }
            bounds.push(self.value_or_row(&argument.value, scope)?.0);
        }
        Ok(bounds)
    }

    /// Binds an expression, or a row as JSON. Says whether it is a row.
    pub(super) fn value_or_row(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<(Bound, bool)> {
        let position = self.position(expr.at);
        match &expr.kind {
            ExprKind::Row(row) => {
                let mut columns = Vec::with_capacity(row.fields.len());
                for (at, field) in row.fields.iter().enumerate() {
                    let bound = self.bind(field, scope)?;
                    let bound = self.settle(bound)?;
                    columns.push((format_smolstr!("f{}", at + 1), bound));
                }
                Ok((row_as_json(columns).at(position), true))
            }
            ExprKind::Column { path, star } => {
                let [name] = path.0.as_slice() else {
                    return Ok((self.bind(expr, scope)?, false));
                };
                let name = fold_name(name);
                if !star && scope.find(&name)?.is_some() {
                    return Ok((self.bind(expr, scope)?, false));
                }
                match scope.whole(&name)? {
                    Some((columns, is_scalar)) if !is_scalar || *star => {
                        let may_be_missing = scope.relations.len() > 1;
                        Ok((self.whole_row(columns, may_be_missing).at(position), true))
                    }
                    _ => Ok((self.bind(expr, scope)?, false)),
                }
            }
            _ => Ok((self.bind(expr, scope)?, false)),
        }
    }

    fn whole_row(&mut self, columns: Vec<ScopeColumn>, may_be_missing: bool) -> Bound {
        for column in &columns {
            if let Some((table, _)) = column.origin {
                self.needs.table(table, Privileges::SELECT);
            }
        }
        let fields: Vec<(SmolStr, Bound)> = columns
            .into_iter()
            .map(|column| {
                let bound = Bound::new(column.expression, column.column_type);
                (column.name, bound)
            })
            .collect();
        if !may_be_missing || fields.is_empty() {
            return row_as_json(fields);
        }
        // An outer join's missing row is null, and not a row of nulls.
        let nulls = fields
            .iter()
            .map(|(_, field)| Expression::IsNull(Box::new(field.expression.clone())));
        let missing = Expression::all_of(nulls.collect());
        let row = row_as_json(fields);
        let column_type = row.column_type;
        Bound::new(
            Expression::Case(vec![(missing, Expression::NULL)], Box::new(row.expression)),
            column_type,
        )
    }
}

/// A row as a value of type `json`.
fn row_as_json(fields: Vec<(SmolStr, Bound)>) -> Bound {
    let mut types: Vec<ColumnType> = vec![DataType::TextArray.into()];
    let mut arguments = vec![Expression::Constant(names(
        fields.iter().map(|(name, _)| name.clone()),
    ))];
    for (_, field) in fields {
        types.push(field.column_type);
        arguments.push(field.expression);
    }
    let call = Expression::Call(Box::new(Call {
        function: &ROW,
        arguments,
        types,
    }));
    Bound::new(call, DataType::Json)
}

/// Fails for an argument whose type nothing says, as of `to_json('x')`.
pub(super) fn check_known(name: &str, arguments: &[Bound]) -> Result<()> {
    let is_unknown = arguments
        .first()
        .is_some_and(|bound| bound.column_type.data_type == DataType::Unknown);
    if matches!(name, "to_json" | "to_jsonb") && is_unknown {
        return Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            "could not determine polymorphic type because input has type unknown",
        ));
    }
    Ok(())
}
