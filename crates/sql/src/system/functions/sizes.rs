//! SQL functions for the sizes of objects: the memory that they take, because rows and
//! indexes live in memory.

use std::sync::Arc;

use coeval_txn::StorageMemory;

use super::{ANY, INT4, INT8, NAME, NUMERIC, OID, REGCLASS, TEXT};
use crate::catalog::Table;
use crate::expression::{ArgumentKind, Arguments, Body, EvaluationContext, Function, Place};
use crate::system::database::{database_name, databases};
use crate::system::relation::{Relation, relation_by_oid};
use crate::{Error, Result, SqlState, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    sized("pg_relation_size", &[REGCLASS], own),
    sized("pg_relation_size", &[REGCLASS, TEXT], |a, context| {
        match a.text(1) {
            "main" => own(a, context),
            // The other forks of a relation's file in PostgreSQL.
            "fsm" | "vm" | "init" => own(a, context).map(|size| match size {
                Value::Null => Value::Null,
                _ => Value::Int8(0),
            }),
            _ => Err(
                Error::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
                    .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\"."),
            ),
        }
    }),
    sized("pg_table_size", &[REGCLASS], own),
    sized("pg_indexes_size", &[REGCLASS], |a, context| {
        Ok(size(a.oid(0), context, indexes_of))
    }),
    sized(
        "pg_total_relation_size",
        &[REGCLASS],
        |a, context| match relation_by_oid(context.catalog, a.oid(0)) {
            Some(Relation::Table(_)) => Ok(size(a.oid(0), context, |memory| {
                memory.rows + indexes_of(memory)
            })),
            _ => own(a, context),
        },
    ),
    sized(
        "pg_database_size",
        &[OID],
        |a, context| match database_name(a.oid(0), context) {
            Some(_) => Ok(whole(context)),
            None => Ok(Value::Null),
        },
    ),
    sized("pg_database_size", &[NAME], |a, context| {
        match databases(context).iter().any(|each| each.name == a.text(0)) {
            true => Ok(whole(context)),
            false => Err(Error::new(
                SqlState::INVALID_CATALOG_NAME,
                format!("database \"{}\" does not exist", a.text(0)),
            )),
        }
    }),
    sized(
        "pg_tablespace_size",
        &[OID],
        |a, context| match tablespace(|(oid, _)| *oid == a.oid(0)) {
            Some((DEFAULT_TABLESPACE, _)) => Ok(whole(context)),
            Some(_) => Ok(Value::Int8(0)),
            None => Ok(Value::Null),
        },
    ),
    sized(
        "pg_tablespace_size",
        &[NAME],
        |a, context| match tablespace(|(_, name)| *name == a.text(0)) {
            Some((DEFAULT_TABLESPACE, _)) => Ok(whole(context)),
            Some(_) => Ok(Value::Int8(0)),
            None => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("tablespace \"{}\" does not exist", a.text(0)),
            )),
        },
    ),
    Function::new("pg_column_size", &[ANY], INT4, |a, _| {
        let mut cell = Vec::new();
        if let Some(value) = a.values.first() {
            match value {
                Value::Array(elements) => {
                    for element in elements.iter().filter(|element| !element.is_null()) {
                        element.write_cell(&mut cell);
                    }
                }
                value => value.write_cell(&mut cell),
            }
        }
        Ok(Value::Int4(i32::try_from(cell.len()).unwrap_or(i32::MAX)))
    }),
    Function::new("pg_size_pretty", &[INT8], TEXT, |a, _| pretty(a.integer(0))),
    Function::new("pg_size_pretty", &[NUMERIC], TEXT, |a, _| {
        match a.values.first() {
            Some(Value::Numeric(number)) => pretty(number.to_i64().unwrap_or(i64::MAX)),
            _ => Ok(Value::Null),
        }
    }),
    Function::new("pg_relation_filenode", &[REGCLASS], OID, |a, _| {
        Ok(Value::Oid(a.oid(0)))
    })
    .stable(),
    Function::new("pg_relation_filepath", &[REGCLASS], TEXT, |_, _| {
        Ok(Value::Null)
    })
    .stable(),
    Function::new("pg_tablespace_location", &[OID], TEXT, |_, _| {
        Ok(Value::text(""))
    })
    .stable(),
];

const fn sized(name: &'static str, arguments: &'static [ArgumentKind], body: Body) -> Function {
    Function::new(name, arguments, INT8, body).volatile(Place::Anywhere)
}

/// The memory of one table, or of the table of an index, as `part` of it; null for what is
/// no relation, and 0 for one that has no memory of its own.
fn size(
    oid: u32,
    context: &EvaluationContext<'_>,
    part: impl FnOnce(&StorageMemory) -> u64,
) -> Value {
    let table = match relation_by_oid(context.catalog, oid) {
        None => return Value::Null,
        Some(Relation::Table(table) | Relation::Index(table, _)) => table,
        Some(_) => return Value::Int8(0),
    };
    let memory = context
        .engine
        .and_then(|engine| engine.storage_memory(table.storage));
    memory.map_or(Value::Null, |memory| bytes(part(&memory)))
}

fn bytes(bytes: u64) -> Value {
    Value::Int8(i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn indexes_of(memory: &StorageMemory) -> u64 {
    memory.indexes.iter().map(|(_, bytes)| bytes).sum()
}

/// The memory of a table without its indexes, or of an index.
fn own(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let index = match relation_by_oid(context.catalog, a.oid(0)) {
        Some(Relation::Index(_, index)) => Some(index.id),
        _ => None,
    };
    Ok(size(a.oid(0), context, |memory| match index {
        None => memory.rows,
        Some(index) => {
            let mut indexes = memory.indexes.iter();
            indexes
                .find(|(id, _)| *id == index)
                .map_or(0, |(_, bytes)| *bytes)
        }
    }))
}

/// The memory of all tables.
fn whole(context: &EvaluationContext<'_>) -> Value {
    let Some(engine) = context.engine else {
        return Value::Null;
    };
    let of = |table: &Arc<Table>| {
        let memory = engine.storage_memory(table.storage).unwrap_or_default();
        memory.rows + indexes_of(&memory)
    };
    bytes(context.catalog.tables().map(of).sum())
}

/// Tablespaces: OID, name.
pub(in crate::system) const TABLESPACES: [(u32, &str); 2] =
    [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")];
const DEFAULT_TABLESPACE: u32 = 1663;

fn tablespace(is: impl Fn(&(u32, &str)) -> bool) -> Option<(u32, &'static str)> {
    TABLESPACES.iter().copied().find(is)
}

/// Prints a size in the largest unit that gives at least 10, rounded to a whole number.
fn pretty(bytes: i64) -> Result<Value> {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes.unsigned_abs() < 10 * 1024 {
        return Ok(Value::text(format!("{bytes} bytes")));
    }
    // Counts in half units, truncated; the last half then decides how the result is
    // rounded to whole units.
    let mut halves = bytes / 512;
    let mut unit = 0;
    while halves.unsigned_abs() >= 20 * 1024 - 1 && unit + 1 < UNITS.len() {
        halves /= 1024;
        unit += 1;
    }
    let whole = (halves + halves.signum()) / 2;
    Ok(Value::text(format!("{whole} {}", UNITS[unit])))
}

#[cfg(test)]
mod tests {
    use super::pretty;
    use crate::Value;

    /// The expected texts are PostgreSQL 15's output.
    #[test]
    fn sizes_are_printed_in_their_largest_unit() {
        for (bytes, printed) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-10_240, "-10 kB"),
            (10_751, "10 kB"),
            (10_752, "11 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1 << 40, "1024 GB"),
            (i64::MAX, "8192 PB"),
            (i64::MIN, "-8192 PB"),
        ] {
            assert!(
                matches!(pretty(bytes), Ok(Value::Text(text)) if text == printed),
                "{bytes}"
            );
        }
    }
}
