//! SQL functions for the sizes of objects. The server does not track a relation's size,
//! so they return null.

use super::{INT8, NAME, NUMERIC, OID, REGCLASS, TEXT};
use crate::expression::{ArgumentKind, Function, Place};
use crate::{Result, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    uncounted("pg_relation_size", &[REGCLASS]),
    uncounted("pg_relation_size", &[REGCLASS, TEXT]),
    uncounted("pg_table_size", &[REGCLASS]),
    uncounted("pg_indexes_size", &[REGCLASS]),
    uncounted("pg_total_relation_size", &[REGCLASS]),
    uncounted("pg_database_size", &[OID]),
    uncounted("pg_database_size", &[NAME]),
    uncounted("pg_tablespace_size", &[OID]),
    uncounted("pg_tablespace_size", &[NAME]),
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

const fn uncounted(name: &'static str, arguments: &'static [ArgumentKind]) -> Function {
    Function::new(name, arguments, INT8, |_, _| Ok(Value::Null)).volatile(Place::Anywhere)
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
