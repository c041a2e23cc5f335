//! The types `smallint`, `integer` and `bigint`: their encodings and catalog entries.

use std::cmp::Ordering;

use super::*;

macro_rules! integers {
    ($($name:ident, $array:ident, $integer:ty, $push_key:ident, $read_key:ident,
       $oid:literal, $type_name:literal, $sql_name:literal, $alignment:ident,
       $class_oid:literal, $class:literal;)*) => {$(
        pub(in crate::value) struct $name;

        impl TypeOperations for $name {
            type Representation = Self;

            const FACTS: TypeFacts = TypeFacts {
                oid: $oid,
                name: $type_name,
                sql_name: $sql_name,
                length: size_of::<$integer>() as i16,
                family: Family::Number(NumberType::$name),
                structure: Structure::Scalar,
                array: Some(DataType::$array),
                modifier: Modifier::None,
                category: Category::Numeric,
                preferred: false,
                by_value: true,
                alignment: Alignment::$alignment,
                storage: Storage::Plain,
                collation: None,
                functions: $type_name,
                operator_class: OperatorClass::Own {
                    oid: $class_oid,
                    name: $class,
                    family: (1976, "integer_ops"),
                },
                extremes: Extremes::Same,
            };
            const STORABLE: bool = true;

            fn parse_text(text: &str, _style: &Style) -> Result<Value> {
                Ok(Value::$name(parse(text, DataType::$name)?))
            }

            fn parse_binary(bytes: &[u8]) -> Result<Value> {
                let bytes = binary::exact(bytes, DataType::$name)?;
                Ok(Value::$name(<$integer>::from_be_bytes(bytes)))
            }

            fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
                Ok(value)
            }

            #[inline]
            fn from_cell(cell: &[u8]) -> Result<Value> {
                Ok(Value::$name(<$integer>::from_le_bytes(exact_cell(cell)?)))
            }

            fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
                key.$read_key().map(Value::$name)
            }
        }

        impl Representation for $name {
            type Content<'value> = $integer;

            #[inline]
            fn content(value: &Value) -> Option<$integer> {
                let Value::$name(number) = value else {
                    return None;
                };
                Some(*number)
            }

            #[inline]
            fn write_text(
                number: $integer,
                _column_type: ColumnType,
                _style: &Style,
                out: &mut Vec<u8>,
            ) {
                write(i64::from(number), out);
            }

            #[inline]
            fn write_binary(
                number: $integer,
                _column_type: ColumnType,
                _style: &Style,
                out: &mut Vec<u8>,
            ) {
                out.extend_from_slice(&number.to_be_bytes());
            }

            #[inline]
            fn write_cell(number: $integer, out: &mut Vec<u8>) {
                out.extend_from_slice(&number.to_le_bytes());
            }

            #[inline]
            fn write_key(number: $integer, key: &mut Vec<u8>) {
                key::$push_key(number, key);
            }

            #[inline]
            fn order(left: $integer, right: $integer) -> Ordering {
                left.cmp(&right)
            }
        }
    )*};
}

integers! {
    Int2, Int2Array, i16, push_i16, i16, 21, "int2", "smallint", Short, 1979, "int2_ops";
    Int4, Int4Array, i32, push_i32, i32, 23, "int4", "integer", Int, 1978, "int4_ops";
    Int8, Int8Array, i64, push_i64, i64, 20, "int8", "bigint", Double, 3124, "int8_ops";
}

pub(super) fn parse<T: std::str::FromStr>(text: &str, data_type: DataType) -> Result<T> {
    let trimmed = text.trim_matches(BLANKS);
    trimmed.parse().map_err(|_| {
        let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            out_of_range(data_type, text)
        } else {
            invalid(data_type, text)
        }
    })
}

pub(super) fn write(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}
