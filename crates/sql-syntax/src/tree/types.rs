//! Names of types.

use super::{Expr, Path};

/// A type where one is named.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    pub at: u32,
    pub setof: bool,
    pub base: BaseType,
    /// One for each dimension of an array, with its length if it is given.
    pub dimensions: Vec<Option<i32>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BaseType {
    /// A type that the grammar has words for.
    Builtin(Builtin, Vec<Expr>),
    Interval(IntervalFields, Option<i32>),
    Named(Path, Vec<Expr>),
    /// `table.column%TYPE`
    OfColumn(Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    Smallint,
    Integer,
    Bigint,
    Real,
    Double,
    Numeric,
    Boolean,
    Bit,
    BitVarying,
    Character,
    CharacterVarying,
    Time,
    TimeWithZone,
    Timestamp,
    TimestampWithZone,
}

/// Which fields an interval keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalFields {
    All,
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    YearToMonth,
    DayToHour,
    DayToMinute,
    DayToSecond,
    HourToMinute,
    HourToSecond,
    MinuteToSecond,
}

impl TypeName {
    /// Whether both name the same type, wherever they stand in the text.
    pub fn base_is(&self, other: &Self) -> bool {
        crate::print::type_name(self) == crate::print::type_name(other)
    }
}
