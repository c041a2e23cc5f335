//! The system columns of a table's rows: `tableoid`, `ctid`, `xmin` and their like.
//!
//! | column | here |
//! | --- | --- |
//! | `tableoid` | OID of the table |
//! | `ctid` | the row's record, written as block and place |
//! | `xmin` | a checksum of the row's contents: it changes when the row does |
//! | `xmax` | 0; of a row that ON CONFLICT DO UPDATE has changed, in RETURNING, another number |
//! | `cmin`, `cmax` | 0 |
//!
//! Programs use `xmin` to see whether another client has changed a row that they have read, and
//! `xmax` to see whether an upsert has inserted. Versions of rows do not say which
//! transaction made them, and a version has no commit timestamp before its commit; its
//! contents it has.

use coeval_types::Rid;

use super::function::{ArgumentKind, Function};
use super::{Call, Expression};
use crate::value::{ColumnType, DataType, Value};

/// The system columns that need a row's record.
pub(crate) const OF_RECORDS: [&str; 2] = ["ctid", "xmin"];

/// Records of one block of a `ctid`.
const IN_BLOCK: u64 = 256;

/// Numbers below are no transactions in PostgreSQL.
const FIRST_NORMAL: u32 = 3;

const RECORD: ArgumentKind = ArgumentKind::Is(DataType::Int8);

static CTID: Function = Function::new(
    "ctid",
    &[RECORD],
    ArgumentKind::Is(DataType::Tid),
    |a, _| {
        let record = a.integer(0) as u64;
        let (block, place) = (record / IN_BLOCK, record % IN_BLOCK + 1);
        Ok(Value::text(format!("({block},{place})")))
    },
);

static XMIN: Function = Function::new(
    "xmin",
    &[ArgumentKind::Is(DataType::Oid), RECORD],
    ArgumentKind::Is(DataType::Xid),
    |a, context| {
        let Some(table) = context.catalog.table_by_oid(a.oid(0)) else {
            return Ok(Value::Null);
        };
        let (storage, record) = (table.storage, Rid(a.integer(1) as u64));
        let mut sum = None;
        context
            .reads()?
            .get_record(storage, record, &mut |_, row| {
                sum = Some(checksum(row.bytes()));
            })?;
        Ok(sum.map_or(Value::Null, Value::Oid))
    },
)
.stable();

/// FNV-1a of a row, as a number that PostgreSQL would give a transaction.
fn checksum(row: &[u8]) -> u32 {
    let sum = row.iter().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    sum.max(FIRST_NORMAL)
}

/// The column of this name, of a row of a table whose record id has this position. `xmax`
/// is where that stands, if it is not 0.
pub(crate) fn system_column(
    name: &str,
    table: u32,
    record: Option<usize>,
    xmax: Option<usize>,
) -> Option<(Expression, DataType)> {
    let call = |function: &'static Function, arguments: Vec<Expression>, types: &[DataType]| {
        Expression::Call(Box::new(Call {
            function,
            arguments,
            types: types.iter().copied().map(ColumnType::from).collect(),
        }))
    };
    let oid = Expression::Constant(Value::Oid(table));
    let zero = Expression::Constant(Value::Oid(0));
    Some(match name {
        "tableoid" => (oid, DataType::Oid),
        "ctid" => {
            let record = Expression::Column(record?);
            (call(&CTID, vec![record], &[DataType::Int8]), DataType::Tid)
        }
        "xmin" => {
            let arguments = vec![oid, Expression::Column(record?)];
            let types = [DataType::Oid, DataType::Int8];
            (call(&XMIN, arguments, &types), DataType::Xid)
        }
        "xmax" => (xmax.map_or(zero, Expression::Column), DataType::Xid),
        _ => (zero, DataType::Oid),
    })
}
