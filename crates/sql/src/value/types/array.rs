//! Array types, and the vector types of the system catalogs. Neither is storable in a
//! table.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::KeyOrder;
use super::super::array as literal;
use super::*;

/// Representation of [`Value::Array`].
pub(in crate::value) struct Array;

impl Representation for Array {
    type Content<'value> = &'value [Value];

    #[inline]
    fn content(value: &Value) -> Option<&[Value]> {
        let Value::Array(elements) = value else {
            return None;
        };
        Some(elements)
    }

    fn write_text(elements: &[Value], column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        if column_type.data_type == DataType::Record {
            return record::write_text(elements, style, out);
        }
        literal::write(elements, column_type, style, out);
    }

    fn write_binary(elements: &[Value], column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
        if column_type.data_type == DataType::Record {
            return record::write_binary(elements, style, out);
        }
        binary::write_array(elements, column_type, style, out);
    }

    fn write_cell(elements: &[Value], _out: &mut Vec<u8>) {
        debug_assert!(false, "{elements:?} has no cell");
    }

    fn write_key(elements: &[Value], key: &mut Vec<u8>) {
        for element in elements {
            element.write_key(KeyOrder::ASCENDING, key);
        }
        key.push(key::NULL_FIRST);
    }

    fn order(left: &[Value], right: &[Value]) -> Ordering {
        for (left, right) in left.iter().zip(right) {
            let order = left.order(right);
            if order != Ordering::Equal {
                return order;
            }
        }
        left.len().cmp(&right.len())
    }
}

/// Properties that all array types have, for an element type.
const fn array(
    oid: u32,
    name: &'static str,
    sql_name: &'static str,
    structure: Structure,
    element: &TypeFacts,
) -> TypeFacts {
    TypeFacts {
        oid,
        name,
        sql_name,
        length: -1,
        family: Family::Other,
        structure,
        array: None,
        modifier: Modifier::None,
        category: Category::Array,
        preferred: false,
        by_value: false,
        alignment: match element.alignment {
            Alignment::Double => Alignment::Double,
            Alignment::Char | Alignment::Short | Alignment::Int => Alignment::Int,
        },
        storage: Storage::Extended,
        collation: element.collation,
        functions: "array_",
        operator_class: OperatorClass::None,
        extremes: Extremes::Same,
    }
}

/// Properties that all vector types have.
const fn vector(
    oid: u32,
    name: &'static str,
    element: DataType,
    element_facts: &TypeFacts,
) -> TypeFacts {
    TypeFacts {
        storage: Storage::Plain,
        functions: name,
        ..array(oid, name, name, Structure::Vector(element), element_facts)
    }
}

macro_rules! arrays {
    ($($name:ident of $element:ident = $facts:expr;)*) => {$(
        pub(in crate::value) struct $name;

        impl TypeOperations for $name {
            type Representation = Array;

            const FACTS: TypeFacts = $facts;

            fn parse_text(text: &str, style: &Style) -> Result<Value> {
                let elements =
                    literal::parse(text, DataType::$name, DataType::$element, style)?;
                Ok(Value::Array(Arc::from(elements)))
            }

            fn parse_binary(bytes: &[u8]) -> Result<Value> {
                let elements = binary::parse_array(bytes, DataType::$name, DataType::$element)?;
                Ok(Value::Array(elements))
            }

            fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
                Ok(value)
            }

            catalog_only!();
        }
    )*};
}

macro_rules! arrays_of {
    ($($name:ident of $element:ident = $oid:literal, $type_name:literal, $sql_name:literal;)*) => {
        arrays! {
            $($name of $element = array(
                $oid,
                $type_name,
                $sql_name,
                Structure::Array(DataType::$element),
                &$element::FACTS,
            );)*
        }
    };
}

arrays_of! {
    BoolArray of Bool = 1000, "_bool", "boolean[]";
    InternalCharArray of InternalChar = 1002, "_char", "\"char\"[]";
    NameArray of Name = 1003, "_name", "name[]";
    Int2Array of Int2 = 1005, "_int2", "smallint[]";
    Int4Array of Int4 = 1007, "_int4", "integer[]";
    TextArray of Text = 1009, "_text", "text[]";
    CharArray of Char = 1014, "_bpchar", "character[]";
    VarCharArray of VarChar = 1015, "_varchar", "character varying[]";
    Int8Array of Int8 = 1016, "_int8", "bigint[]";
    Float4Array of Float4 = 1021, "_float4", "real[]";
    Float8Array of Float8 = 1022, "_float8", "double precision[]";
    OidArray of Oid = 1028, "_oid", "oid[]";
    TimestampArray of Timestamp = 1115, "_timestamp", "timestamp without time zone[]";
    DateArray of Date = 1182, "_date", "date[]";
    TimestampTzArray of TimestampTz = 1185, "_timestamptz", "timestamp with time zone[]";
    NumericArray of Numeric = 1231, "_numeric", "numeric[]";
    RegtypeArray of Regtype = 2211, "_regtype", "regtype[]";
    TimeArray of Time = 1183, "_time", "time without time zone[]";
    IntervalArray of Interval = 1187, "_interval", "interval[]";
    TimeTzArray of TimeTz = 1270, "_timetz", "time with time zone[]";
    JsonArray of Json = 199, "_json", "json[]";
    ByteaArray of Bytea = 1001, "_bytea", "bytea[]";
    UuidArray of Uuid = 2951, "_uuid", "uuid[]";
    JsonbArray of Jsonb = 3807, "_jsonb", "jsonb[]";
    JsonPathArray of JsonPath = 4073, "_jsonpath", "jsonpath[]";
    TidArray of Tid = 1010, "_tid", "tid[]";
    RecordArray of Record = 2287, "_record", "record[]";
}

arrays! {
    Int2Vector of Int2 = vector(22, "int2vector", DataType::Int2, &Int2::FACTS);
    OidVector of Oid = vector(30, "oidvector", DataType::Oid, &Oid::FACTS);
    AclItemArray of Text = TypeFacts {
        collation: None,
        ..array(1034, "_aclitem", "aclitem[]", Structure::AclItems, &Text::FACTS)
    };
}
