//! The types `date`, `timestamp` and `timestamptz`: their encodings and catalog
//! entries. Their text format is in [`crate::value::date_time`].

use std::cmp::Ordering;

use super::super::date_time::{
    parse_date, parse_timestamp, parse_timestamp_tz, write_date, write_timestamp,
    write_timestamp_tz,
};
use super::*;

pub(in crate::value) struct Date;
pub(in crate::value) struct Timestamp;
pub(in crate::value) struct TimestampTz;

const DATETIME_FAMILY: (u32, &str) = (434, "datetime_ops");

impl TypeOperations for Date {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 1082,
        name: "date",
        sql_name: "date",
        length: 4,
        family: Family::DateTime(DateTimeType::Date),
        structure: Structure::Scalar,
        array: Some(DataType::DateArray),
        modifier: Modifier::None,
        category: Category::DateTime,
        preferred: false,
        by_value: true,
        alignment: Alignment::Int,
        storage: Storage::Plain,
        collation: None,
        functions: "date_",
        operator_class: OperatorClass::Own {
            oid: 3122,
            name: "date_ops",
            family: DATETIME_FAMILY,
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, style: &Style) -> Result<Value> {
        parse_date(text, style).map(Value::Date)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let days = i32::from_be_bytes(binary::exact(bytes, DataType::Date)?);
        let infinite = matches!(days, i32::MIN | i32::MAX);
        if infinite || (calendar::MIN_DATE..calendar::END_DATE).contains(&i64::from(days)) {
            return Ok(Value::Date(days));
        }
        Err(overflow("date"))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Date(i32::from_le_bytes(exact_cell(cell)?)))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.i32().map(Value::Date)
    }
}

impl Representation for Date {
    type Content<'value> = i32;

    #[inline]
    fn content(value: &Value) -> Option<i32> {
        let Value::Date(days) = value else {
            return None;
        };
        Some(*days)
    }

    fn write_text(days: i32, _column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        write_date(days, style, out);
    }

    #[inline]
    fn write_binary(days: i32, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(&days.to_be_bytes());
    }

    #[inline]
    fn write_cell(days: i32, out: &mut Vec<u8>) {
        out.extend_from_slice(&days.to_le_bytes());
    }

    #[inline]
    fn write_key(days: i32, key: &mut Vec<u8>) {
        key::push_i32(days, key);
    }

    #[inline]
    fn order(left: i32, right: i32) -> Ordering {
        left.cmp(&right)
    }
}

macro_rules! timestamps {
    ($($name:ident, $array:ident, $parse:ident,
       |$time:ident, $style:ident, $out:ident| $write:expr,
       $oid:literal, $type_name:literal, $sql_name:literal, $preferred:literal,
       $functions:literal, $class_oid:literal, $class:literal;)*) => {$(
        impl TypeOperations for $name {
            type Representation = Self;

            const FACTS: TypeFacts = TypeFacts {
                oid: $oid,
                name: $type_name,
                sql_name: $sql_name,
                length: 8,
                family: Family::DateTime(DateTimeType::$name),
                structure: Structure::Scalar,
                array: Some(DataType::$array),
                modifier: Modifier::Fraction,
                category: Category::DateTime,
                preferred: $preferred,
                by_value: true,
                alignment: Alignment::Double,
                storage: Storage::Plain,
                collation: None,
                functions: $functions,
                operator_class: OperatorClass::Own {
                    oid: $class_oid,
                    name: $class,
                    family: DATETIME_FAMILY,
                },
                extremes: Extremes::Same,
            };
            const STORABLE: bool = true;

            fn parse_text(text: &str, style: &Style) -> Result<Value> {
                $parse(text, style).map(Value::$name)
            }

            fn parse_binary(bytes: &[u8]) -> Result<Value> {
                parse_binary(binary::exact(bytes, DataType::$name)?).map(Value::$name)
            }

            fn fit(value: Value, column_type: ColumnType, _fit: Fit) -> Result<Value> {
                Ok(match Self::content(&value) {
                    Some(time) => Value::$name(round(time, column_type.modifier)),
                    None => value,
                })
            }

            #[inline]
            fn from_cell(cell: &[u8]) -> Result<Value> {
                Ok(Value::$name(i64::from_le_bytes(exact_cell(cell)?)))
            }

            fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
                key.i64().map(Value::$name)
            }
        }

        impl Representation for $name {
            type Content<'value> = i64;

            #[inline]
            fn content(value: &Value) -> Option<i64> {
                let Value::$name(time) = value else {
                    return None;
                };
                Some(*time)
            }

            fn write_text(
                $time: i64,
                _column_type: ColumnType,
                $style: &Style,
                $out: &mut Vec<u8>,
            ) {
                $write
            }

            #[inline]
            fn write_binary(
                time: i64,
                _column_type: ColumnType,
                _style: &Style,
                out: &mut Vec<u8>,
            ) {
                out.extend_from_slice(&time.to_be_bytes());
            }

            #[inline]
            fn write_cell(time: i64, out: &mut Vec<u8>) {
                out.extend_from_slice(&time.to_le_bytes());
            }

            #[inline]
            fn write_key(time: i64, key: &mut Vec<u8>) {
                key::push_i64(time, key);
            }

            #[inline]
            fn order(left: i64, right: i64) -> Ordering {
                left.cmp(&right)
            }
        }
    )*};
}

timestamps! {
    Timestamp, TimestampArray, parse_timestamp,
        |time, style, out| write_timestamp(time, style, out),
        1114, "timestamp", "timestamp without time zone", false,
        "timestamp_", 3128, "timestamp_ops";
    TimestampTz, TimestampTzArray, parse_timestamp_tz,
        |moment, style, out| write_timestamp_tz(moment, style, out),
        1184, "timestamptz", "timestamp with time zone", true,
        "timestamptz_", 3127, "timestamptz_ops";
}

fn overflow(what: &str) -> Error {
    Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{what} out of range"),
    )
}

fn parse_binary(bytes: [u8; 8]) -> Result<i64> {
    let time = i64::from_be_bytes(bytes);
    let infinite = matches!(time, i64::MIN | i64::MAX);
    if infinite || (calendar::MIN_TIMESTAMP..calendar::END_TIMESTAMP).contains(&time) {
        return Ok(time);
    }
    Err(overflow("timestamp"))
}

/// Rounds a timestamp to `digits` digits of a second's fraction.
pub(super) fn round(time: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) || time == i64::MIN || time == i64::MAX {
        return time;
    }
    let unit = 10_i64.pow(6 - digits as u32);
    let half = unit / 2;
    if time >= 0 {
        time.saturating_add(half) / unit * unit
    } else {
        -((-time).saturating_add(half) / unit * unit)
    }
}
