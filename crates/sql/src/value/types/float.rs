//! The types `real` and `double precision`: their encodings and catalog entries.

use std::cmp::Ordering;
use std::io::Write;

use super::*;

macro_rules! floats {
    ($($name:ident, $array:ident, $float:ty, $fixed:literal, $parse:ident,
       $oid:literal, $type_name:literal, $sql_name:literal, $preferred:literal, $alignment:ident,
       $class_oid:literal, $class:literal;)*) => {$(
        pub(in crate::value) struct $name;

        impl TypeOperations for $name {
            type Representation = Self;

            const FACTS: TypeFacts = TypeFacts {
                oid: $oid,
                name: $type_name,
                sql_name: $sql_name,
                length: size_of::<$float>() as i16,
                family: Family::Number(NumberType::$name),
                structure: Structure::Scalar,
                array: Some(DataType::$array),
                modifier: Modifier::None,
                category: Category::Numeric,
                preferred: $preferred,
                by_value: true,
                alignment: Alignment::$alignment,
                storage: Storage::Plain,
                collation: None,
                functions: $type_name,
                operator_class: OperatorClass::Own {
                    oid: $class_oid,
                    name: $class,
                    family: (1970, "float_ops"),
                },
                extremes: Extremes::Same,
            };
            const STORABLE: bool = true;

            fn parse_text(text: &str, _style: &Style) -> Result<Value> {
                $parse(text).map(Value::$name)
            }

            fn parse_binary(bytes: &[u8]) -> Result<Value> {
                let bytes = binary::exact(bytes, DataType::$name)?;
                Ok(Value::$name(<$float>::from_be_bytes(bytes)))
            }

            fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
                Ok(value)
            }

            #[inline]
            fn from_cell(cell: &[u8]) -> Result<Value> {
                Ok(Value::$name(<$float>::from_le_bytes(exact_cell(cell)?)))
            }

            fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
                key.f64().map(|number| Value::$name(number as $float))
            }
        }

        impl Representation for $name {
            type Content<'value> = $float;

            #[inline]
            fn content(value: &Value) -> Option<$float> {
                let Value::$name(number) = value else {
                    return None;
                };
                Some(*number)
            }

            #[inline]
            fn write_text(
                number: $float,
                _column_type: ColumnType,
                style: &Style,
                out: &mut Vec<u8>,
            ) {
                let wide = f64::from(number);
                match style.rounded_floats {
                    None => write(wide, &format!("{number:e}"), $fixed, out),
                    Some(more) => write_rounded(wide, $fixed + i32::from(more), out),
                }
            }

            #[inline]
            fn write_binary(
                number: $float,
                _column_type: ColumnType,
                _style: &Style,
                out: &mut Vec<u8>,
            ) {
                out.extend_from_slice(&number.to_be_bytes());
            }

            #[inline]
            fn write_cell(number: $float, out: &mut Vec<u8>) {
                out.extend_from_slice(&number.to_le_bytes());
            }

            #[inline]
            fn write_key(number: $float, key: &mut Vec<u8>) {
                key::push_f64(f64::from(number), key);
            }

            #[inline]
            fn order(left: $float, right: $float) -> Ordering {
                left.partial_cmp(&right)
                    .unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
            }
        }
    )*};
}

floats! {
    Float4, Float4Array, f32, 6, parse_narrow,
        700, "float4", "real", false, Int, 10_012, "float4_ops";
    Float8, Float8Array, f64, 15, parse_wide,
        701, "float8", "double precision", true, Double, 3123, "float8_ops";
}

fn parse_wide(text: &str) -> Result<f64> {
    parse(text, DataType::Float8)
}

fn parse_narrow(text: &str) -> Result<f32> {
    let number = parse(text, DataType::Float4)?;
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() || narrow == 0.0 && number != 0.0 {
        return Err(float_out_of_range(text, DataType::Float4));
    }
    Ok(narrow)
}

fn float_out_of_range(text: &str, data_type: DataType) -> Error {
    Error::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {data_type}"),
    )
}

fn parse(text: &str, data_type: DataType) -> Result<f64> {
    let trimmed = text.trim_matches(BLANKS);
    let number: f64 = trimmed.parse().map_err(|_| invalid(data_type, text))?;
    let digits = trimmed.bytes().any(|byte| byte.is_ascii_digit());
    let nonzero = || {
        let mantissa = trimmed.split(['e', 'E']).next().unwrap_or("");
        mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte))
    };
    if number.is_infinite() && digits || number == 0.0 && nonzero() {
        return Err(float_out_of_range(text, data_type));
    }
    Ok(number)
}

/// Prints a number with so many digits, and no zeros at its end, as C's `%g` does.
fn write_rounded(number: f64, digits: i32, out: &mut Vec<u8>) {
    let digits = digits.max(1);
    let printed = format!("{number:.*e}", digits as usize - 1);
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    write(number, &format!("{mantissa}e{exponent}"), digits, out);
}

/// Appends the shortest digits that parse as the same number, in fixed notation if the
/// exponent is at least -4 and below `fixed`.
fn write(number: f64, shortest: &str, fixed: i32, out: &mut Vec<u8>) {
    if number.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number.is_infinite() {
        return out.extend_from_slice(b"Infinity");
    }
    if number == 0.0 {
        return out.push(b'0');
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: Vec<u8> = mantissa
        .bytes()
        .filter(|byte| byte.is_ascii_digit())
        .collect();
    if (-4..fixed).contains(&exponent) {
        if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(&digits);
        } else {
            let integer = exponent as usize + 1;
            for position in 0..integer {
                out.push(digits.get(position).copied().unwrap_or(b'0'));
            }
            if digits.len() > integer {
                out.push(b'.');
                out.extend_from_slice(&digits[integer..]);
            }
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        write!(
            out,
            "e{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        )
        .expect("a vector takes every write");
    }
}
