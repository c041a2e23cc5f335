//! Deparser: prints parts of the schema as SQL, as PostgreSQL does.

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{Arguments, Cast, Expr, ExprKind, Literal, Special};

use super::object::object_by_oid;
use super::relation::{Attribute, Constraint, relation_by_oid};
use super::tables;
use crate::catalog::{Generation, Index, PUBLIC, TEMPORARY_ALIAS, Table, fold, quote_identifier};
use crate::expression::{EvaluationContext, is_momentary, resolve_type, value_name, with_stack};
use crate::sequence::with_names;
use crate::statement::parse_expression;
use crate::value::{ColumnType, DataType, Style, Value};

/// Options of a table or a view, each as `name=value`.
pub(super) fn options(options: &[(String, String)]) -> impl Iterator<Item = String> {
    let options = options.iter();
    options.map(|(name, value)| format!("{name}={value}"))
}

/// Prints one column of an index's key, without its sort order.
pub(super) fn key_column(table: &Table, index: &Index, position: usize) -> Option<String> {
    let key = index.columns.get(position)?;
    Some(quote_identifier(&table.columns[key.column].name))
}

/// Prints the CREATE INDEX statement of an index, with the schema of its table or `bare`.
pub(super) fn index_definition(table: &Table, index: &Index, bare: bool) -> String {
    let unique = if index.is_unique() { "UNIQUE " } else { "" };
    let name = quote_identifier(&index.name);
    let schema = match (bare, table.is_temporary()) {
        (true, _) => String::new(),
        (false, true) => format!("{TEMPORARY_ALIAS}."),
        (false, false) => format!("{PUBLIC}."),
    };
    let relation = quote_identifier(&table.name);
    let keys: Vec<String> = index
        .columns
        .iter()
        .map(|key| {
            let column = quote_identifier(&table.columns[key.column].name);
            // The default is nulls last for ascending and nulls first for descending
            // order.
            let order = match (key.order.descending, key.order.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            format!("{column}{order}")
        })
        .collect();
    format!(
        "CREATE {unique}INDEX {name} ON {schema}{relation} USING btree ({})",
        keys.join(", ")
    )
}

/// Prints a constraint, as in CREATE TABLE.
pub(super) fn constraint_definition(
    constraint: Constraint<'_>,
    pretty: bool,
    context: &EvaluationContext<'_>,
) -> String {
    match constraint {
        Constraint::Key(table, index) => key_definition(table, index),
        Constraint::Check(_, check) => {
            let mut condition = condition(&check.condition, context);
            if pretty {
                condition = without_brackets(condition);
            }
            let local = if check.is_local { " NO INHERIT" } else { "" };
            let valid = if check.is_valid { "" } else { " NOT VALID" };
            format!("CHECK ({condition}){local}{valid}")
        }
    }
}

/// Prints the constraint that an index enforces, as in CREATE TABLE.
fn key_definition(table: &Table, index: &Index) -> String {
    let columns: Vec<String> = (0..index.columns.len())
        .filter_map(|position| key_column(table, index, position))
        .collect();
    let kind = if tables::is_primary(index) {
        "PRIMARY KEY"
    } else {
        "UNIQUE"
    };
    format!("{kind} ({})", columns.join(", "))
}

/// Prints a type as `format_type` does; `modifier` is `None` if the caller passed none.
pub(super) fn format_type(oid: u32, modifier: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(data_type) = DataType::from_oid(oid) else {
        return "???".to_owned();
    };
    let element = data_type.element().filter(|_| data_type.array_syntax());
    let Some(modifier) = modifier else {
        return data_type.sql_name().to_owned();
    };
    match element {
        Some(data_type) => format!(
            "{}[]",
            ColumnType {
                data_type,
                modifier
            }
        ),
        None => ColumnType {
            data_type,
            modifier,
        }
        .to_string(),
    }
}

impl DataType {
    /// Whether the type's SQL name is its element's name with brackets.
    fn array_syntax(self) -> bool {
        self.sql_name().ends_with("[]")
    }
}

/// Prints the expression of a column in `pg_attrdef`, if it has one.
pub(super) fn column_expression(
    column: &Attribute<'_>,
    context: &EvaluationContext<'_>,
) -> Option<String> {
    if let Some(default) = column.default {
        return Some(default_expression(default, column.column_type, context));
    }
    let computed = column.generation.and_then(Generation::expression)?;
    Some(condition(computed, context))
}

/// Prints a condition, or what a column is computed by: in brackets, unless it needs none.
pub(super) fn condition(sql: &str, context: &EvaluationContext<'_>) -> String {
    let Ok(parsed) = parse_expression(sql) else {
        return sql.to_owned();
    };
    let bare = matches!(
        parsed.kind,
        ExprKind::Literal(_)
            | ExprKind::Column { .. }
            | ExprKind::Function(_)
            | ExprKind::Special(_)
            | ExprKind::Case(_)
            | ExprKind::Cast(_)
    );
    let printed = print::expr(&named(parsed, context));
    if bare {
        printed
    } else {
        format!("({printed})")
    }
}

/// An expression without the brackets around the whole of it, as pretty-printing shows it.
pub(super) fn without_brackets(text: String) -> String {
    let inside = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let Some(inside) = inside else { return text };
    match (parse_expression(inside), parse_expression(&text)) {
        (Ok(bare), Ok(whole)) if print::expr(&bare) == print::expr(&whole) => inside.to_owned(),
        _ => text,
    }
}

/// An expression of the catalog with names in place of relations' OIDs.
fn named(expression: Expr, context: &EvaluationContext<'_>) -> Expr {
    with_names(expression, &|oid| {
        relation_by_oid(context.catalog, oid)?;
        match object_by_oid(DataType::Regclass, oid, context) {
            Value::Object(_, name) => Some(name.to_string()),
            _ => None,
        }
    })
}

/// Prints a column's default as PostgreSQL does: literals with their types, key words
/// in capitals. Other expressions stay as they are stored.
fn default_expression(
    sql: &str,
    column_type: ColumnType,
    context: &EvaluationContext<'_>,
) -> String {
    let Ok(mut expression) = parse_expression(sql) else {
        return sql.to_owned();
    };
    let has_names = sql.contains("regclass");
    if has_names {
        expression = named(expression, context);
    }
    match printed(&expression, column_type.data_type) {
        Some(text) => text,
        None if has_names => print::expr(&expression),
        None => sql.to_owned(),
    }
}

/// Prints an expression; `None` if it should stay as it is stored.
fn printed(expression: &Expr, wanted: DataType) -> Option<String> {
    match &expression.kind {
        ExprKind::Literal(value) => literal(value, wanted),
        ExprKind::Cast(of) => with_stack(|| cast(of)),
        ExprKind::Special(special) => match &**special {
            Special::Value(value, _) => Some(value_name(*value).to_uppercase()),
            _ => None,
        },
        ExprKind::Function(call) => {
            let no_arguments = matches!(&call.arguments,
                Arguments::List(list) if list.arguments.is_empty());
            let names: Vec<String> = call.name.0.iter().map(fold).collect();
            match (names.as_slice(), &call.arguments) {
                ([name], Arguments::List(list)) if name == "nextval" => {
                    let [argument] = list.arguments.as_slice() else {
                        return None;
                    };
                    let argument = printed(&argument.value, DataType::Regclass)?;
                    return Some(format!("nextval({argument})"));
                }
                _ => {}
            }
            match names.as_slice() {
                _ if !no_arguments || call.over.is_some() => None,
                [name] => Some(format!("{}()", quote_identifier(name))),
                [schema, name] if schema == "pg_catalog" => {
                    Some(format!("{}()", quote_identifier(name)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The type of a numeric literal, by its spelling.
fn number_type(number: &str) -> DataType {
    if number.parse::<i32>().is_ok() {
        DataType::Int4
    } else if number.parse::<i64>().is_ok() {
        DataType::Int8
    } else {
        DataType::Numeric
    }
}

fn literal(value: &Literal, wanted: DataType) -> Option<String> {
    let number = |digits: &str| {
        let data_type = number_type(digits);
        match (digits.starts_with('-'), data_type) {
            (true, _) | (_, DataType::Int8) => format!("'{digits}'::{data_type}"),
            _ => digits.to_owned(),
        }
    };
    match value {
        Literal::Integer(value) => Some(number(&value.to_string())),
        Literal::Number(digits) => Some(number(digits)),
        Literal::Boolean(truth) => Some(truth.to_string()),
        Literal::Null => Some(format!("NULL::{}", typed(wanted))),
        Literal::String(text) => Some(text_literal(text, wanted)),
        Literal::Bits(_) | Literal::HexBits(_) => None,
    }
}

/// Prints a string as a literal of a type, in the short form of types that have one.
fn text_literal(text: &str, wanted: DataType) -> String {
    let number = text.trim();
    match wanted {
        DataType::Bool => {
            let truth = matches!(
                number.to_ascii_lowercase().as_str(),
                "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1"
            );
            truth.to_string()
        }
        DataType::Int4 | DataType::Numeric
            if !number.is_empty()
                && number
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.') =>
        {
            number.to_owned()
        }
        // PostgreSQL keeps the value, and shows it in its usual form.
        DataType::Interval
        | DataType::Time
        | DataType::Date
        | DataType::Timestamp
        | DataType::Bytea
        | DataType::Uuid
        | DataType::Jsonb
        | DataType::JsonPath => {
            let style = Style::default();
            let value = Value::parse(text, wanted.into(), &style);
            let value = value.ok().filter(|_| !is_momentary(text, wanted));
            let shown = value.and_then(|value| value.to_text(wanted.into(), &style));
            quoted(shown.as_deref().unwrap_or(text), wanted)
        }
        _ => quoted(text, wanted),
    }
}

fn quoted(text: &str, data_type: DataType) -> String {
    format!("'{}'::{}", text.replace('\'', "''"), typed(data_type))
}

/// Prints a type's name as in a cast without a modifier.
fn typed(data_type: DataType) -> String {
    ColumnType::from(data_type).to_string()
}

fn cast(cast: &Cast) -> Option<String> {
    let to = resolve_type(&cast.target).ok()?;
    match &cast.operand.kind {
        ExprKind::Literal(Literal::String(text)) if to.modifier < 0 => {
            Some(text_literal(text, to.data_type))
        }
        ExprKind::Literal(value) => Some(format!("({})::{to}", literal(value, to.data_type)?)),
        _ => Some(format!("({})::{to}", printed(&cast.operand, to.data_type)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_context;
    use super::*;

    #[test]
    fn types_are_printed_with_their_modifiers() {
        assert_eq!(format_type(1043, Some(16)), "character varying(12)");
        assert_eq!(format_type(1043, Some(-1)), "character varying");
        assert_eq!(format_type(1042, Some(-1)), "bpchar");
        assert_eq!(format_type(1042, None), "character");
        assert_eq!(format_type(1015, Some(16)), "character varying(12)[]");
        assert_eq!(format_type(1700, Some(786_438)), "numeric(12,2)");
        assert_eq!(format_type(22, Some(-1)), "int2vector");
        assert_eq!(format_type(0, None), "-");
        assert_eq!(format_type(1, None), "???");
    }

    /// The expected texts are PostgreSQL 15's output.
    #[test]
    fn defaults_are_printed_as_postgresql_prints_them() {
        for (sql, data_type, printed) in [
            ("'std'", DataType::Char, "'std'::bpchar"),
            ("'none'", DataType::Text, "'none'::text"),
            ("'it''s'", DataType::VarChar, "'it''s'::character varying"),
            ("0", DataType::Numeric, "0"),
            ("7", DataType::Int2, "7"),
            ("-1", DataType::Int4, "'-1'::integer"),
            ("-1.5", DataType::Numeric, "'-1.5'::numeric"),
            ("5000000000", DataType::Int8, "'5000000000'::bigint"),
            ("false", DataType::Bool, "false"),
            ("'yes'", DataType::Bool, "true"),
            (
                "'{\"b\":[1,2.50],\"a\":1}'",
                DataType::Jsonb,
                "'{\"a\": 1, \"b\": [1, 2.50]}'::jsonb",
            ),
            ("'{\"b\":1}'", DataType::Json, "'{\"b\":1}'::json"),
            ("'$ . a'", DataType::JsonPath, "'$.\"a\"'::jsonpath"),
            ("'a\\001'", DataType::Bytea, "'\\x6101'::bytea"),
            (
                "'{A0EEBC999C0B4EF8BB6D6BB9BD380A11}'",
                DataType::Uuid,
                "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
            ),
            ("now()", DataType::TimestampTz, "now()"),
            ("NOW()", DataType::TimestampTz, "now()"),
            (
                "current_timestamp",
                DataType::TimestampTz,
                "CURRENT_TIMESTAMP",
            ),
            ("current_date", DataType::Date, "CURRENT_DATE"),
            ("'2020-01-01'", DataType::Date, "'2020-01-01'::date"),
            ("'1 hour'", DataType::Interval, "'01:00:00'::interval"),
            (
                "'12:00'",
                DataType::Time,
                "'12:00:00'::time without time zone",
            ),
            ("'x'::text", DataType::Text, "'x'::text"),
            ("'1'::int", DataType::Int4, "1"),
            ("'a\\b'", DataType::Text, "'a\\b'::text"),
            ("user", DataType::VarChar, "USER"),
        ] {
            let shown = with_context(|context| default_expression(sql, data_type.into(), context));
            assert_eq!(shown, printed, "{sql}");
        }
    }
}
