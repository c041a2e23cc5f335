//! The `information_schema` views of columns, and of the check constraints for NOT
//! NULL.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use super::information::{OF_COLUMNS, may_see, not_null_name, yes_or_no};
use crate::Value;
use crate::access::Privileges;
use crate::catalog::{Generation, Table, quote_identifier};
use crate::expression::EvaluationContext;
use crate::sequence::Counting;
use crate::system::definition::{column_expression, condition};
use crate::system::relation::{Attribute, Relation, namespace_of, relations};
use crate::system::table::system_table;
use crate::system::{listed, schema_name};
use crate::value::interval::IntervalRange;
use crate::value::{ColumnType, DataType, DateTimeType, NumberType};

/// Maximum number of bytes of a character.
const CHARACTER_BYTES: i32 = 4;

fn characters(column_type: ColumnType) -> Option<i32> {
    column_type
        .length()
        .and_then(|length| i32::try_from(length).ok())
}

/// Maximum length of a string in bytes: as many as its declared characters may need, or
/// else the limit of a value.
fn bytes(column_type: ColumnType) -> Option<i32> {
    // Columns of type `name` have neither length, as in PostgreSQL.
    let counted = column_type.data_type.is_string() && column_type.data_type.length() < 0;
    counted.then(|| characters(column_type).map_or(1 << 30, |length| length * CHARACTER_BYTES))
}

/// Precision of a number, its base, and its scale.
fn digits(column_type: ColumnType) -> Option<(Option<i32>, i32, Option<i32>)> {
    Some(match column_type.data_type.number()? {
        NumberType::Int2 => (Some(16), 2, Some(0)),
        NumberType::Int4 => (Some(32), 2, Some(0)),
        NumberType::Int8 => (Some(64), 2, Some(0)),
        NumberType::Float4 => (Some(24), 2, None),
        NumberType::Float8 => (Some(53), 2, None),
        NumberType::Numeric => match column_type.precision_and_scale() {
            Some((precision, scale)) => (Some(precision as i32), 10, Some(scale as i32)),
            None => (None, 10, None),
        },
    })
}

/// Digits of a second's fraction.
fn fraction(column_type: ColumnType) -> Option<i32> {
    match column_type.data_type.date_time()? {
        DateTimeType::Date => Some(0),
        DateTimeType::Interval => {
            let range = IntervalRange::of_modifier(column_type.modifier);
            Some(range.digits().map_or(6, |digits| digits as i32))
        }
        DateTimeType::Timestamp
        | DateTimeType::TimestampTz
        | DateTimeType::Time
        | DateTimeType::TimeTz => Some(match column_type.modifier {
            modifier if modifier >= 0 => modifier,
            _ => 6,
        }),
    }
}

/// The fields that an interval type keeps: `DAY TO SECOND(2)`.
fn interval_fields(column_type: ColumnType) -> Option<String> {
    if column_type.data_type != DataType::Interval {
        return None;
    }
    let range = IntervalRange::of_modifier(column_type.modifier);
    let fields = range.to_string().to_uppercase();
    fields.strip_prefix(' ').map(str::to_owned)
}

fn type_name(data_type: DataType) -> &'static str {
    if data_type.element().is_some() {
        "ARRAY"
    } else {
        data_type.sql_name()
    }
}

system_table! {
    /// Columns of tables and views that the current role may see.
    COLUMNS = INFORMATION_SCHEMA 13295 View columns;
    context => relations(context.catalog)
        .filter(|each| {
            !matches!(each.kind(), b'i' | b'S') && may_see(*each, OF_COLUMNS, context)
        })
        .flat_map(|relation| {
            let updatable = super::views::updatable_columns(relation, context);
            let attributes = relation.attributes().into_iter().enumerate();
            attributes.map(move |(position, each)| {
                let updatable = updatable.get(position).copied();
                (each, updatable.unwrap_or(matches!(relation, Relation::Table(_))))
            })
        });
    (each, updatable) => {
        table_catalog: Name = context.session.database.clone(),
        table_schema: Name = schema_name(each.relation.namespace()),
        table_name: Name = each.relation.name(),
        column_name: Name = each.name,
        ordinal_position: Int4 = i32::from(each.number),
        column_default: VarChar = each.default.and_then(|_| column_expression(&each, context)),
        is_nullable: VarChar = yes_or_no(!each.not_null),
        data_type: VarChar = type_name(each.column_type.data_type),
        character_maximum_length: Int4 = characters(each.column_type),
        character_octet_length: Int4 = bytes(each.column_type),
        numeric_precision: Int4 = digits(each.column_type).and_then(|(digits, _, _)| digits),
        numeric_precision_radix: Int4 = digits(each.column_type).map(|(_, radix, _)| radix),
        numeric_scale: Int4 = digits(each.column_type).and_then(|(_, _, scale)| scale),
        datetime_precision: Int4 = fraction(each.column_type),
        interval_type: VarChar = interval_fields(each.column_type),
        interval_precision: Int4 = Value::Null,
        character_set_catalog: Name = Value::Null,
        character_set_schema: Name = Value::Null,
        character_set_name: Name = Value::Null,
        collation_catalog: Name = Value::Null,
        collation_schema: Name = Value::Null,
        collation_name: Name = Value::Null,
        domain_catalog: Name = Value::Null,
        domain_schema: Name = Value::Null,
        domain_name: Name = Value::Null,
        udt_catalog: Name = context.session.database.clone(),
        udt_schema: Name = "pg_catalog",
        udt_name: Name = each.column_type.data_type.name(),
        scope_catalog: Name = Value::Null,
        scope_schema: Name = Value::Null,
        scope_name: Name = Value::Null,
        maximum_cardinality: Int4 = Value::Null,
        dtd_identifier: Name = each.number.to_string(),
        is_self_referencing: VarChar = "NO",
        is_identity: VarChar = yes_or_no(each.generation.is_some_and(Generation::is_identity)),
        identity_generation: VarChar = match each.generation {
            Some(Generation::Identity { always: true }) => Some("ALWAYS"),
            Some(Generation::Identity { always: false }) => Some("BY DEFAULT"),
            _ => None,
        },
        identity_start: VarChar = identity(&each, context).map(|each| each.start.to_string()),
        identity_increment: VarChar =
            identity(&each, context).map(|each| each.increment.to_string()),
        identity_maximum: VarChar = identity(&each, context).map(|each| each.maximum.to_string()),
        identity_minimum: VarChar = identity(&each, context).map(|each| each.minimum.to_string()),
        identity_cycle: VarChar =
            yes_or_no(identity(&each, context).is_some_and(|each| each.cycle)),
        is_generated: VarChar = match each.generation {
            Some(Generation::Stored(_)) => "ALWAYS",
            _ => "NEVER",
        },
        generation_expression: VarChar = match each.generation {
            Some(Generation::Stored(_)) => column_expression(&each, context),
            _ => None,
        },
        is_updatable: VarChar = yes_or_no(updatable),
    }
}

/// How the sequence of an identity column counts.
fn identity(column: &Attribute<'_>, context: &EvaluationContext<'_>) -> Option<Counting> {
    column.generation.filter(|each| each.is_identity())?;
    let table = column.relation.oid();
    let (_, sequence) = context.catalog.sequence_of_column(table, column.number)?;
    Some(sequence.counting)
}

/// Check constraints of tables that the current role owns: table, name and condition; those that
/// NOT NULL implies come last.
fn checks<'a>(context: &EvaluationContext<'a>) -> Vec<(&'a Arc<Table>, String, String)> {
    let mut all = Vec::new();
    let owned = || {
        let tables = listed(context.catalog);
        tables.filter(|table| may_see(Relation::Table(table), Privileges::NONE, context))
    };
    for table in owned() {
        for check in &table.checks {
            let clause = format!("({})", condition(&check.condition, context));
            all.push((table, check.name.clone(), clause));
        }
    }
    for table in owned() {
        for column in table.columns.iter().filter(|column| column.not_null) {
            let clause = format!("{} IS NOT NULL", quote_identifier(&column.name));
            all.push((table, not_null_name(table, column.attribute), clause));
        }
    }
    all
}

system_table! {
    /// Check constraints, also those that NOT NULL implies.
    CHECK_CONSTRAINTS = INFORMATION_SCHEMA 13260 View check_constraints;
    context => checks(context);
    (table, name, clause) => {
        constraint_catalog: Name = context.session.database.clone(),
        constraint_schema: Name = schema_name(namespace_of(table)),
        constraint_name: Name = name,
        check_clause: VarChar = clause,
    }
}
