//! The types `tid` and `xid` of the system columns: where a row is, and which transaction
//! made it.

use super::object::Oid;
use super::string::Text;
use super::*;

pub(in crate::value) struct Tid;
pub(in crate::value) struct Xid;

/// Properties that both types have.
const fn facts(oid: u32, name: &'static str, length: i16, array: Option<DataType>) -> TypeFacts {
    TypeFacts {
        oid,
        name,
        sql_name: name,
        length,
        family: Family::Other,
        structure: Structure::Scalar,
        array,
        modifier: Modifier::None,
        category: Category::Internal,
        preferred: false,
        by_value: false,
        alignment: Alignment::Short,
        storage: Storage::Plain,
        collation: None,
        functions: name,
        operator_class: OperatorClass::None,
        extremes: Extremes::None,
    }
}

/// Block and place of a `tid` in text: `(0,1)`.
pub(super) fn parts(text: &str) -> Option<(u32, u16)> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (block, place) = inner.split_once(',')?;
    Some((block.trim().parse().ok()?, place.trim().parse().ok()?))
}

impl TypeOperations for Tid {
    type Representation = Text;

    const FACTS: TypeFacts = facts(27, "tid", 6, Some(DataType::TidArray));

    fn parse_text(text: &str, _style: &Style) -> Result<Value> {
        let (block, place) = parts(text).ok_or_else(|| invalid(DataType::Tid, text))?;
        Ok(Value::text(format!("({block},{place})")))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        let [a, b, c, d, e, f] = binary::exact(bytes, DataType::Tid)?;
        let (block, place) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
        Ok(Value::text(format!("({block},{place})")))
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    catalog_only!();
}

impl TypeOperations for Xid {
    type Representation = Oid;

    const FACTS: TypeFacts = TypeFacts {
        by_value: true,
        alignment: Alignment::Int,
        ..facts(28, "xid", 4, None)
    };

    fn parse_text(text: &str, style: &Style) -> Result<Value> {
        Oid::parse_text(text, style).map_err(|_| invalid(DataType::Xid, text))
    }

    fn parse_binary(bytes: &[u8]) -> Result<Value> {
        Oid::parse_binary(bytes)
    }

    fn fit(value: Value, _column_type: ColumnType, _fit: Fit) -> Result<Value> {
        Ok(value)
    }

    catalog_only!();
}
