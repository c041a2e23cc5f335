//! Deparser of bound expressions: the text that EXPLAIN shows of a condition, as PostgreSQL
//! prints one.

use super::{
    AggregateCall, AggregateFunction, Comparison, Expression, Subquery, SubqueryKind, WindowCall,
    WindowFunction,
};
use crate::catalog::quote_identifier;
use crate::value::{ColumnType, DataType, Style, Value};

/// What an expression's names stand for, and the subqueries that have been met.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    /// What the enclosing query's values are, by number.
    pub outer: Vec<String>,
    /// The subqueries met, with what the values that they take are.
    pub subqueries: Vec<(&'a Subquery, Vec<String>)>,
}

impl<'a> Names<'a> {
    /// The text of an expression over rows with these columns.
    pub(crate) fn show(&mut self, expression: &'a Expression, columns: &[String]) -> String {
        super::with_stack(|| self.show_here(expression, columns))
    }

    /// The texts, with a separator between them.
    pub(crate) fn list(
        &mut self,
        expressions: impl IntoIterator<Item = &'a Expression>,
        columns: &[String],
        separator: &str,
    ) -> String {
        let shown: Vec<String> = expressions
            .into_iter()
            .map(|each| self.show(each, columns))
            .collect();
        shown.join(separator)
    }

    fn infix(&mut self, operands: &'a [Expression; 2], symbol: &str, columns: &[String]) -> String {
        let left = self.show(&operands[0], columns);
        let right = self.show(&operands[1], columns);
        format!("({left} {symbol} {right})")
    }

    fn show_here(&mut self, expression: &'a Expression, columns: &[String]) -> String {
        match expression {
            Expression::Constant(value) => constant(value),
            Expression::Column(position) => columns
                .get(*position)
                .cloned()
                .unwrap_or_else(|| format!("column{}", position + 1)),
            Expression::Outer(number) => self
                .outer
                .get(*number)
                .cloned()
                .unwrap_or_else(|| format!("${number}")),
            Expression::Parameter(number) => format!("${}", number + 1),
            Expression::Aggregate(number)
            | Expression::SetResult(number)
            | Expression::Window(number)
            | Expression::Grouping(number) => format!("#{number}"),
            Expression::Arithmetic(operator, operands) => {
                self.infix(operands, operator.symbol(), columns)
            }
            Expression::Compare(comparison, operands) => {
                self.infix(operands, comparison.symbol(), columns)
            }
            Expression::Negate(operand) => format!("(- {})", self.show(operand, columns)),
            Expression::And(operands) => format!("({})", self.list(operands, columns, " AND ")),
            Expression::Or(operands) => format!("({})", self.list(operands, columns, " OR ")),
            Expression::Not(operand) => match &**operand {
                Expression::IsNull(operand) => {
                    format!("({} IS NOT NULL)", self.show(operand, columns))
                }
                Expression::Like(operands, pattern) if pattern.ignore_case => {
                    self.infix(operands, "!~~*", columns)
                }
                Expression::Like(operands, _) => self.infix(operands, "!~~", columns),
                Expression::Regex(operands, pattern) if pattern.ignore_case => {
                    self.infix(operands, "!~*", columns)
                }
                Expression::Regex(operands, _) => self.infix(operands, "!~", columns),
                operand => format!("(NOT {})", self.show(operand, columns)),
            },
            Expression::IsNull(operand) => format!("({} IS NULL)", self.show(operand, columns)),
            Expression::IsTruth(operand, truth) => {
                let truth = if *truth { "TRUE" } else { "FALSE" };
                format!("({} IS {truth})", self.show(operand, columns))
            }
            Expression::Distinct(operands) => self.infix(operands, "IS DISTINCT FROM", columns),
            Expression::Case(branches, otherwise) => {
                let mut text = "CASE".to_owned();
                for (condition, result) in branches {
                    let condition = self.show(condition, columns);
                    let result = self.show(result, columns);
                    text.push_str(&format!(" WHEN {condition} THEN {result}"));
                }
                let otherwise = self.show(otherwise, columns);
                format!("{text} ELSE {otherwise} END")
            }
            Expression::Coalesce(operands) => {
                format!("COALESCE({})", self.list(operands, columns, ", "))
            }
            Expression::Extreme { greatest, operands } => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", self.list(operands, columns, ", "))
            }
            Expression::NullIf(operands) => match &operands[0] {
                Expression::Compare(_, compared) => {
                    format!("NULLIF({})", self.list(&**compared, columns, ", "))
                }
                _ => format!("NULLIF({})", self.show(&operands[1], columns)),
            },
            Expression::InList(operand, list) => {
                let operand = self.show(operand, columns);
                let list = self.list(list, columns, ", ");
                format!("({operand} = ANY (ARRAY[{list}]))")
            }
            Expression::Quantified {
                comparison,
                all,
                operands,
            } => {
                let word = if *all { "ALL" } else { "ANY" };
                let operand = self.show(&operands[0], columns);
                let array = self.show(&operands[1], columns);
                format!("({operand} {} {word} ({array}))", comparison.symbol())
            }
            Expression::Like(operands, pattern) => {
                let symbol = if pattern.ignore_case { "~~*" } else { "~~" };
                self.infix(operands, symbol, columns)
            }
            Expression::Regex(operands, pattern) => {
                let symbol = if pattern.ignore_case { "~*" } else { "~" };
                self.infix(operands, symbol, columns)
            }
            Expression::Cast(cast) => {
                let input = self.show(&cast.input, columns);
                format!("({input})::{}", cast.to.data_type.sql_name())
            }
            Expression::Call(call) => {
                let arguments = self.list(&call.arguments, columns, ", ");
                format!("{}({arguments})", call.function.name)
            }
            Expression::Array(operands) => {
                format!("ARRAY[{}]", self.list(operands, columns, ", "))
            }
            Expression::Subscript(operands) => {
                let array = self.show(&operands[0], columns);
                let subscript = self.show(&operands[1], columns);
                format!("{array}[{subscript}]")
            }
            Expression::Subquery(subquery) => self.subquery(subquery, columns),
        }
    }

    fn subquery(&mut self, subquery: &'a Subquery, columns: &[String]) -> String {
        let taken = subquery
            .correlations
            .iter()
            .map(|each| self.show(each, columns))
            .collect();
        let known = self
            .subqueries
            .iter()
            .any(|(known, _)| known.number == subquery.number);
        if !known {
            self.subqueries.push((subquery, taken));
        }
        let number = subquery.number;
        let name = match subquery.is_hashed() {
            true => format!("hashed SubPlan {number}"),
            false => format!("SubPlan {number}"),
        };
        let operand = subquery
            .operand
            .as_ref()
            .map(|operand| self.show(operand, columns))
            .unwrap_or_default();
        match subquery.kind {
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array
                if subquery.correlations.is_empty() =>
            {
                format!("(InitPlan {number})")
            }
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array => {
                format!("({name})")
            }
            SubqueryKind::Any(Comparison::Equal) => format!("({operand} IN ({name}))"),
            SubqueryKind::Any(comparison) => {
                format!("({operand} {} ANY ({name}))", comparison.symbol())
            }
            SubqueryKind::All(comparison) => {
                format!("({operand} {} ALL ({name}))", comparison.symbol())
            }
        }
    }

    /// The text of an aggregate call.
    pub(crate) fn aggregate(&mut self, call: &'a AggregateCall, columns: &[String]) -> String {
        let name = call.function.name();
        if call.function == AggregateFunction::CountRows {
            return "count(*)".to_owned();
        }
        let distinct = if call.distinct { "DISTINCT " } else { "" };
        if let AggregateFunction::OrderedSet(_) = call.function {
            let direct = self.list(&call.direct, columns, ", ");
            let order = self.list(call.order.iter().map(|(key, ..)| key), columns, ", ");
            return format!("{name}({direct}) WITHIN GROUP (ORDER BY {order})");
        }
        let arguments = self.list(call.argument.iter().chain(&call.second), columns, ", ");
        format!("{name}({distinct}{arguments})")
    }

    /// The text of a window function's call, without its window.
    pub(crate) fn window(&mut self, call: &'a WindowCall, columns: &[String]) -> String {
        let function = match &call.function {
            WindowFunction::Aggregate(call) => self.aggregate(call, columns),
            function => {
                let arguments = self.list(&call.arguments, columns, ", ");
                format!("{}({arguments})", function.name())
            }
        };
        format!("{function} OVER (?)")
    }
}

/// A constant, as SQL writes it.
fn constant(value: &Value) -> String {
    let quoted = |data_type: DataType| {
        let text = value
            .to_text(ColumnType::from(data_type), &Style::default())
            .unwrap_or_default();
        format!("'{}'::{}", text.replace('\'', "''"), data_type.sql_name())
    };
    let plain = |data_type: DataType| {
        value
            .to_text(ColumnType::from(data_type), &Style::default())
            .map_or_else(|| "NULL".to_owned(), |text| text.to_string())
    };
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int2(_) => plain(DataType::Int2),
        Value::Int4(_) => plain(DataType::Int4),
        Value::Int8(_) => plain(DataType::Int8),
        Value::Numeric(_) => plain(DataType::Numeric),
        Value::Float4(_) => quoted(DataType::Float4),
        Value::Float8(_) => quoted(DataType::Float8),
        Value::Text(_) => quoted(DataType::Text),
        Value::Date(_) => quoted(DataType::Date),
        Value::Timestamp(_) => quoted(DataType::Timestamp),
        Value::TimestampTz(_) => quoted(DataType::TimestampTz),
        Value::Interval(_) => quoted(DataType::Interval),
        Value::Time(_) => quoted(DataType::Time),
        Value::TimeTz(..) => quoted(DataType::TimeTz),
        Value::Bytes(_) => quoted(DataType::Bytea),
        Value::Uuid(_) => quoted(DataType::Uuid),
        Value::Jsonb(_) => quoted(DataType::Jsonb),
        Value::Oid(_) => quoted(DataType::Oid),
        Value::Object(_, name) => format!("'{name}'"),
        Value::Array(elements) => {
            let shown: Vec<String> = elements.iter().map(constant).collect();
            format!("ARRAY[{}]", shown.join(", "))
        }
        Value::Char(byte) => format!("'{}'::\"char\"", char::from(*byte)),
    }
}

/// A column's name, with its table's if the plan reads several.
pub(crate) fn column_name(table: &str, column: &str, qualified: bool) -> String {
    let column = quote_identifier(column);
    match qualified && !table.is_empty() {
        true => format!("{}.{column}", quote_identifier(table)),
        false => column,
    }
}
