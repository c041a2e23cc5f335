//! The types `time`, `timetz` and `interval`: their encodings and catalog entries.

use std::cmp::Ordering;

use super::super::date_time::{parse_time, parse_time_tz, write_clock, write_offset};
use super::super::interval::{Interval as Span, IntervalRange, parse as parse_interval, write};
use super::date_time::round;
use super::*;
use crate::value::calendar::{DAY, SECOND};

pub(in crate::value) struct Time;
pub(in crate::value) struct TimeTz;
pub(in crate::value) struct Interval;

/// Largest offset of a `timetz`, in seconds: less than 16 hours.
const MAX_WEST: i32 = 16 * 3600;

impl TypeOperations for Time {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 1083,
        name: "time",
        sql_name: "time without time zone",
        length: 8,
        family: Family::DateTime(DateTimeType::Time),
        structure: Structure::Scalar,
        array: Some(DataType::TimeArray),
        modifier: Modifier::Fraction,
        category: Category::DateTime,
        preferred: false,
        by_value: true,
        alignment: Alignment::Double,
        storage: Storage::Plain,
        collation: None,
        functions: "time_",
        operator_class: OperatorClass::Own {
            oid: 10_038,
            name: "time_ops",
            family: (1996, "time_ops"),
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, style: &Style) -> Result<Value> {
        parse_time(text, style).map(Value::Time)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let time = i64::from_be_bytes(binary::exact(bytes, DataType::Time)?);
        in_a_day(time).map(Value::Time)
    }

    fn fit(value: Value, column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(match Self::content(&value) {
            Some(time) => Value::Time(round(time, column_type.modifier)),
            None => value,
        })
    }

    #[inline]
    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Time(i64::from_le_bytes(exact_cell(cell)?)))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.i64().map(Value::Time)
    }
}

/// A time of day as a client sends it.
fn in_a_day(time: i64) -> Result<i64> {
    if (0..=DAY).contains(&time) {
        return Ok(time);
    }
    Err(Error::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        "time out of range",
    ))
}

impl Representation for Time {
    type Content<'value> = i64;

    #[inline]
    fn content(value: &Value) -> Option<i64> {
        let Value::Time(time) = value else {
            return None;
        };
        Some(*time)
    }

    fn write_text(time: i64, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        write_clock(time, out);
    }

    #[inline]
    fn write_binary(time: i64, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
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

impl TypeOperations for TimeTz {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 1266,
        name: "timetz",
        sql_name: "time with time zone",
        length: 12,
        family: Family::DateTime(DateTimeType::TimeTz),
        structure: Structure::Scalar,
        array: Some(DataType::TimeTzArray),
        modifier: Modifier::Fraction,
        category: Category::DateTime,
        preferred: false,
        by_value: false,
        alignment: Alignment::Double,
        storage: Storage::Plain,
        collation: None,
        functions: "timetz_",
        operator_class: OperatorClass::Own {
            oid: 10_041,
            name: "timetz_ops",
            family: (2000, "timetz_ops"),
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, style: &Style) -> Result<Value> {
        let (time, west) = parse_time_tz(text, style)?;
        Ok(Value::TimeTz(time, west))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let bytes: [u8; 12] = binary::exact(bytes, DataType::TimeTz)?;
        let (time, west) = split(bytes, i64::from_be_bytes, i32::from_be_bytes);
        if west <= -MAX_WEST || west >= MAX_WEST {
            return Err(Error::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
                "time zone displacement out of range",
            ));
        }
        Ok(Value::TimeTz(in_a_day(time)?, west))
    }

    fn fit(value: Value, column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(match Self::content(&value) {
            Some((time, west)) => Value::TimeTz(round(time, column_type.modifier), west),
            None => value,
        })
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        let cell: [u8; 12] = exact_cell(cell)?;
        let (time, west) = split(cell, i64::from_le_bytes, i32::from_le_bytes);
        Ok(Value::TimeTz(time, west))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        let in_utc = key.i64()?;
        let west = key.i32()?;
        Some(Value::TimeTz(in_utc - i64::from(west) * SECOND, west))
    }
}

/// The two numbers that twelve bytes are.
fn split(
    bytes: [u8; 12],
    wide: impl Fn([u8; 8]) -> i64,
    narrow: impl Fn([u8; 4]) -> i32,
) -> (i64, i32) {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    (wide([a, b, c, d, e, f, g, h]), narrow(rest))
}

/// The time in UTC, by which times with a zone compare first.
fn in_utc((time, west): (i64, i32)) -> i64 {
    time + i64::from(west) * SECOND
}

impl Representation for TimeTz {
    /// Microseconds since midnight, and seconds west of Greenwich.
    type Content<'value> = (i64, i32);

    #[inline]
    fn content(value: &Value) -> Option<(i64, i32)> {
        let Value::TimeTz(time, west) = value else {
            return None;
        };
        Some((*time, *west))
    }

    fn write_text(
        (time, west): (i64, i32),
        _column_type: ColumnType,
        _style: &Style,
        out: &mut Vec<u8>,
    ) {
        write_clock(time, out);
        write_offset(-west, out);
    }

    fn write_binary(
        (time, west): (i64, i32),
        _column_type: ColumnType,
        _style: &Style,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(&time.to_be_bytes());
        out.extend_from_slice(&west.to_be_bytes());
    }

    fn write_cell((time, west): (i64, i32), out: &mut Vec<u8>) {
        out.extend_from_slice(&time.to_le_bytes());
        out.extend_from_slice(&west.to_le_bytes());
    }

    fn write_key(content: (i64, i32), key: &mut Vec<u8>) {
        key::push_i64(in_utc(content), key);
        key::push_i32(content.1, key);
    }

    fn order(left: (i64, i32), right: (i64, i32)) -> Ordering {
        in_utc(left)
            .cmp(&in_utc(right))
            .then_with(|| left.1.cmp(&right.1))
    }
}

impl TypeOperations for Interval {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 1186,
        name: "interval",
        sql_name: "interval",
        length: 16,
        family: Family::DateTime(DateTimeType::Interval),
        structure: Structure::Scalar,
        array: Some(DataType::IntervalArray),
        modifier: Modifier::Interval,
        category: Category::Timespan,
        preferred: true,
        by_value: false,
        alignment: Alignment::Double,
        storage: Storage::Plain,
        collation: None,
        functions: "interval_",
        operator_class: OperatorClass::Own {
            oid: 10_022,
            name: "interval_ops",
            family: (1982, "interval_ops"),
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, style: &Style) -> Result<Value> {
        parse_interval(text, -1, style).map(Value::Interval)
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let bytes: [u8; 16] = binary::exact(bytes, DataType::Interval)?;
        let [micros @ .., a, b, c, d, e, f, g, h] = bytes;
        Ok(Value::Interval(Span {
            micros: i64::from_be_bytes(micros),
            days: i32::from_be_bytes([a, b, c, d]),
            months: i32::from_be_bytes([e, f, g, h]),
        }))
    }

    fn fit(value: Value, column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(match Self::content(&value) {
            Some(interval) => {
                let range = IntervalRange::of_modifier(column_type.modifier);
                Value::Interval(range.adjust(interval))
            }
            None => value,
        })
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        let cell: [u8; 16] = exact_cell(cell)?;
        let [micros @ .., a, b, c, d, e, f, g, h] = cell;
        Ok(Value::Interval(Span {
            micros: i64::from_le_bytes(micros),
            days: i32::from_le_bytes([a, b, c, d]),
            months: i32::from_le_bytes([e, f, g, h]),
        }))
    }

    /// A key tells the length alone, in which `24:00:00` is `1 day`.
    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        let bits = u128::from_be_bytes(key.array()?);
        Span::of_span((bits ^ 1 << 127) as i128).map(Value::Interval)
    }
}

impl Representation for Interval {
    type Content<'value> = Span;

    #[inline]
    fn content(value: &Value) -> Option<Span> {
        let Value::Interval(interval) = value else {
            return None;
        };
        Some(*interval)
    }

    fn write_text(interval: Span, _column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        write(interval, style.interval_style, out);
    }

    fn write_binary(interval: Span, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(&interval.micros.to_be_bytes());
        out.extend_from_slice(&interval.days.to_be_bytes());
        out.extend_from_slice(&interval.months.to_be_bytes());
    }

    fn write_cell(interval: Span, out: &mut Vec<u8>) {
        out.extend_from_slice(&interval.micros.to_le_bytes());
        out.extend_from_slice(&interval.days.to_le_bytes());
        out.extend_from_slice(&interval.months.to_le_bytes());
    }

    fn write_key(interval: Span, key: &mut Vec<u8>) {
        let bits = interval.span() as u128 ^ 1 << 127;
        key.extend_from_slice(&bits.to_be_bytes());
    }

    fn order(left: Span, right: Span) -> Ordering {
        left.order(right)
    }
}
