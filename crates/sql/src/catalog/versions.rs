//! The cluster version that a catalog row needs: from it on every node of a cluster reads the row,
//! and keeps to what it says. The table of all versions is in crate `leader`
//! (`node::cluster_version`).

use crate::value::DataType;

/// The version of rows that every build reads.
pub(super) const ALWAYS: u32 = 1;

/// The version of unlogged tables, of columns of `interval`, `time` and `timetz`, and of
/// statistics of tables; from it on a session says that it is pinned to its leader.
pub const SQL_OBJECTS: u32 = 6;

/// The version of rows of other objects than tables and roles; of tables with CHECK constraints,
/// with columns that the database computes, and with columns of types that nodes of version 6 do
/// not store. From it on a session says which numbers of sequences it was given.
pub const NAMED_OBJECTS: u32 = 7;

/// The version that columns of this type need.
pub(super) const fn of_type(data_type: DataType) -> u32 {
    match data_type {
        DataType::Bool
        | DataType::Int2
        | DataType::Int4
        | DataType::Int8
        | DataType::Float4
        | DataType::Float8
        | DataType::Numeric
        | DataType::Text
        | DataType::Char
        | DataType::VarChar
        | DataType::Date
        | DataType::Timestamp
        | DataType::TimestampTz => ALWAYS,
        DataType::Interval | DataType::Time | DataType::TimeTz => SQL_OBJECTS,
        _ => NAMED_OBJECTS,
    }
}
