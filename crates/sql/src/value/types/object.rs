//! The type `oid`, and the object types `regclass` and its like, which are an OID with
//! the text that it prints as.

use std::cmp::Ordering;

use smol_str::SmolStr;

use super::integer;
use super::*;

pub(in crate::value) struct Oid;

impl TypeOperations for Oid {
    type Representation = Self;

    const FACTS: TypeFacts = TypeFacts {
        oid: 26,
        name: "oid",
        sql_name: "oid",
        length: 4,
        family: Family::Other,
        structure: Structure::Scalar,
        array: Some(DataType::OidArray),
        modifier: Modifier::None,
        category: Category::Numeric,
        preferred: true,
        by_value: true,
        alignment: Alignment::Int,
        storage: Storage::Plain,
        collation: None,
        functions: "oid",
        operator_class: OperatorClass::Own {
            oid: 1981,
            name: "oid_ops",
            family: (1989, "oid_ops"),
        },
        extremes: Extremes::Same,
    };
    const STORABLE: bool = true;

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        let number: i64 = integer::parse(text, DataType::Oid)?;
        // A negative integer is reinterpreted as unsigned, as a C cast does.
        match u32::try_from(number).or_else(|_| i32::try_from(number).map(|n| n as u32)) {
            Ok(oid) => Ok(Value::Oid(oid)),
            Err(_) => Err(out_of_range(DataType::Oid, text)),
        }
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let bytes = binary::exact(bytes, DataType::Oid)?;
        Ok(Value::Oid(u32::from_be_bytes(bytes)))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    fn from_cell(cell: &[u8]) -> Result<Value> {
        Ok(Value::Oid(u32::from_le_bytes(exact_cell(cell)?)))
    }

    fn read_key(key: &mut KeyReader<'_>) -> Option<Value> {
        key.u32().map(Value::Oid)
    }
}

impl Representation for Oid {
    type Content<'value> = u32;

    /// An object compares with an OID by its own OID.
    #[inline]
    fn content(value: &Value) -> Option<u32> {
        let (Value::Oid(number) | Value::Object(number, _)) = value else {
            return None;
        };
        Some(*number)
    }

    fn write_text(number: u32, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        integer::write(i64::from(number), out);
    }

    #[inline]
    fn write_binary(number: u32, _column_type: ColumnType, _style: &Style, out: &mut Vec<u8>) {
        out.extend_from_slice(&number.to_be_bytes());
    }

    #[inline]
    fn write_cell(number: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&number.to_le_bytes());
    }

    #[inline]
    fn write_key(number: u32, key: &mut Vec<u8>) {
        key.extend_from_slice(&number.to_be_bytes());
    }

    #[inline]
    fn order(left: u32, right: u32) -> Ordering {
        left.cmp(&right)
    }
}

/// Representation of [`Value::Object`]: encoded as its OID, except in text.
pub(in crate::value) struct Object;

impl Representation for Object {
    type Content<'value> = (u32, &'value str);

    #[inline]
    fn content(value: &Value) -> Option<(u32, &str)> {
        if let Value::Object(number, name) = value {
            return Some((*number, name));
        }
        Oid::content(value).map(|number| (number, ""))
    }

    fn write_text(
        (_, name): (u32, &str),
        _column_type: ColumnType,
        _style: &Style,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(name.as_bytes());
    }

    fn write_binary(
        (number, _): (u32, &str),
        column_type: ColumnType,
        style: &Style,
        out: &mut Vec<u8>,
    ) {
        Oid::write_binary(number, column_type, style, out);
    }

    fn write_cell((number, _): (u32, &str), out: &mut Vec<u8>) {
        Oid::write_cell(number, out);
    }

    fn write_key((number, _): (u32, &str), key: &mut Vec<u8>) {
        Oid::write_key(number, key);
    }

    #[inline]
    fn order((left, _): (u32, &str), (right, _): (u32, &str)) -> Ordering {
        left.cmp(&right)
    }
}

macro_rules! objects {
    ($($name:ident, $oid:literal, $type_name:literal, $array:expr;)*) => {$(
        pub(in crate::value) struct $name;

        impl TypeOperations for $name {
            type Representation = Object;

            const FACTS: TypeFacts = TypeFacts {
                oid: $oid,
                name: $type_name,
                sql_name: $type_name,
                length: 4,
                family: Family::Object(ObjectType::$name),
                structure: Structure::Scalar,
                array: $array,
                modifier: Modifier::None,
                category: Category::Numeric,
                preferred: false,
                by_value: true,
                alignment: Alignment::Int,
                storage: Storage::Plain,
                collation: None,
                functions: $type_name,
                operator_class: OperatorClass::None,
                extremes: Extremes::Of(DataType::Oid),
            };

            /// Not supported here: parsing an object's name needs the catalog; see
            /// [`crate::system`].
            fn parse_text(_text: &str, _style: &Style) -> Result<Value> {
                Err(Error::unsupported(concat!("reading a value of type ", $type_name)))
            }

            fn parse_binary(bytes: &[u8]) -> Result<Value> {
                let oid = u32::from_be_bytes(binary::exact(bytes, DataType::$name)?);
                Ok(Value::Object(oid, SmolStr::from(oid.to_string())))
            }

            fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
                Ok(value)
            }

            catalog_only!();
        }
    )*};
}

objects! {
    Regproc, 24, "regproc", None;
    Regclass, 2205, "regclass", None;
    Regprocedure, 2202, "regprocedure", None;
    Regoper, 2203, "regoper", None;
    Regoperator, 2204, "regoperator", None;
    Regtype, 2206, "regtype", Some(DataType::RegtypeArray);
    Regnamespace, 4089, "regnamespace", None;
    Regrole, 4096, "regrole", None;
}
