//! The traits that every SQL type implements: its encodings, its order, and its entries
//! in the system catalogs.
//!
//! Two traits; a new type does not compile until it implements the required methods:
//!
//! | trait | implemented by | defines |
//! | --- | --- | --- |
//! | [`TypeOperations`] | every variant of [`DataType`] | how text, binary, cells and keys are decoded as the type, and its properties in the system catalogs |
//! | [`Representation`] | every variant of [`Value`] but the null | how the content of the variant is encoded as text, binary, cell and key, and how two compare |
//!
//! The traits are separate because types share representations: `text`, `varchar` and
//! `name` are decoded differently and encoded alike. A type whose values have a variant
//! of their own (`date`) implements both on one marker in [`super::types`].
//!
//! Dispatch is by exhaustive `match` (`for_type!`, `for_value!`), never through a
//! function pointer, because queries decode, compare and print cells by the million.

use std::cmp::Ordering;

use super::key_read::KeyReader;
use super::{ColumnType, DataType, Fit, Style, Value};
use crate::Result;

/// Operations of one type of [`DataType`].
pub(super) trait TypeOperations {
    /// The representation of the type's values.
    type Representation: Representation;

    /// Names of the type and its properties in the system catalogs.
    const FACTS: TypeFacts;
    /// Whether a table can have a column of the type. All other types occur in the
    /// system catalogs only, and may take their cells and keys from `catalog_only!`.
    const STORABLE: bool;

    /// Parses text; ignores the type modifier.
    fn parse_text(text: &str, style: &Style) -> Result<Value>;
    /// Decodes the binary format; ignores the type modifier.
    fn parse_binary(bytes: &[u8]) -> Result<Value>;
    /// Applies the type modifier to a value of the type.
    fn fit(value: Value, column_type: ColumnType, fit: Fit) -> Result<Value>;
    /// Decodes a cell.
    fn from_cell(cell: &[u8]) -> Result<Value>;
    /// Decodes the bytes after a key's marker.
    fn read_key(key: &mut KeyReader<'_>) -> Option<Value>;

    /// Appends a cell as the bytes after a key's marker.
    #[inline]
    fn write_cell_key(cell: &[u8], key: &mut Vec<u8>) -> Result<()> {
        let value = Self::from_cell(cell)?;
        if let Some(content) = Self::Representation::content(&value) {
            Self::Representation::write_key(content, key);
        }
        Ok(())
    }
}

/// Encodings and order of one variant of [`Value`].
pub(super) trait Representation {
    /// Content of the variant, borrowed.
    type Content<'value>: Copy;

    /// The content of a value that can be compared with this representation.
    fn content(value: &Value) -> Option<Self::Content<'_>>;
    /// Appends the content as text.
    fn write_text(
        content: Self::Content<'_>,
        column_type: ColumnType,
        style: &Style,
        out: &mut Vec<u8>,
    );
    /// Appends the content in the binary format.
    fn write_binary(
        content: Self::Content<'_>,
        column_type: ColumnType,
        style: &Style,
        out: &mut Vec<u8>,
    );
    /// Appends the content as a cell.
    fn write_cell(content: Self::Content<'_>, out: &mut Vec<u8>);
    /// Appends the bytes after a key's marker, in ascending order.
    fn write_key(content: Self::Content<'_>, key: &mut Vec<u8>);
    /// Compares two contents.
    fn order(left: Self::Content<'_>, right: Self::Content<'_>) -> Ordering;
}

/// Names of a type and its properties in the system catalogs.
#[derive(Debug)]
pub(crate) struct TypeFacts {
    /// `pg_type.oid`.
    pub(crate) oid: u32,
    /// `pg_type.typname`.
    pub(crate) name: &'static str,
    /// Name in SQL, as `format_type` prints it.
    pub(crate) sql_name: &'static str,
    /// `pg_type.typlen`: length in bytes, -1 if it varies, -2 for a C string.
    pub(crate) length: i16,
    /// The group of types that expressions treat alike.
    pub(crate) family: Family,
    /// Whether values consist of values of another type.
    pub(crate) structure: Structure,
    /// The array type whose elements have this type.
    pub(crate) array: Option<DataType>,
    /// Kind of modifier that the type's name takes in parentheses.
    pub(crate) modifier: Modifier,
    /// `pg_type.typcategory`.
    pub(crate) category: Category,
    /// `pg_type.typispreferred`: whether literals prefer this type of its category.
    pub(crate) preferred: bool,
    /// `pg_type.typbyval`.
    pub(crate) by_value: bool,
    /// `pg_type.typalign`.
    pub(crate) alignment: Alignment,
    /// `pg_type.typstorage`.
    pub(crate) storage: Storage,
    /// `pg_type.typcollation`.
    pub(crate) collation: Option<Collation>,
    /// Prefix of the names of the type's conversion functions (`…in`, `…out`, `…recv`,
    /// `…send`), which `pg_proc` lists.
    pub(crate) functions: &'static str,
    /// Operator class that orders the type in an index: `pg_opclass`, `pg_opfamily`.
    pub(crate) operator_class: OperatorClass,
    /// The type of `min` and `max` over the type.
    pub(crate) extremes: Extremes,
}

/// Groups of types that expressions treat alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Numbers: they have arithmetic and widen implicitly.
    Number(NumberType),
    /// Strings: they cast to each other implicitly.
    String,
    /// Dates, times and intervals: parsing and printing them depends on the session's
    /// time zone and styles.
    DateTime(DateTimeType),
    /// Object types: an OID that the catalog prints as a name.
    Object(ObjectType),
    /// A type without a group: it can be compared, printed and parsed.
    Other,
}

/// The numeric types, ordered so that each widens implicitly to the later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberType {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
}

/// The types of dates, times and intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateTimeType {
    Date,
    Timestamp,
    TimestampTz,
    Time,
    TimeTz,
    Interval,
}

/// The object types: an OID that the catalog prints as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Regproc,
    Regprocedure,
    Regoper,
    Regoperator,
    Regclass,
    Regtype,
    Regnamespace,
    Regrole,
}

/// Whether a type's values consist of values of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    /// They do not.
    Scalar,
    /// They do not, but `pg_type` claims that they consist of `"char"`: `name`.
    Characters,
    /// An array with elements of this type.
    Array(DataType),
    /// A blank-separated list with subscripts from 0.
    Vector(DataType),
    /// An array of access privileges, whose elements have no type here and are text.
    AclItems,
}

/// Kinds of modifiers that a type's name takes in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modifier {
    /// No modifier.
    None,
    /// Length in characters.
    Length,
    /// Total number of digits, and number of digits after the decimal point.
    PrecisionAndScale,
    /// Number of digits of a second's fraction.
    Fraction,
    /// Fields of an interval, and digits of a second's fraction.
    Interval,
}

/// `pg_type.typcategory`, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Category {
    Array = b'A',
    Boolean = b'B',
    DateTime = b'D',
    Numeric = b'N',
    Pseudo = b'P',
    String = b'S',
    Timespan = b'T',
    Unknown = b'X',
    User = b'U',
    Internal = b'Z',
}

/// `pg_type.typalign`, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Alignment {
    Char = b'c',
    Short = b's',
    Int = b'i',
    Double = b'd',
}

/// `pg_type.typstorage`, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Storage {
    Plain = b'p',
    Main = b'm',
    Extended = b'x',
}

/// `pg_type.typcollation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collation {
    /// `default`.
    Default,
    /// `C`.
    C,
}

/// The operator class that orders a type in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorClass {
    /// The type has no default operator class.
    None,
    /// The operator class of another type, which has the same values.
    Of(DataType),
    /// An operator class of the type's own.
    Own {
        /// `pg_opclass.oid`.
        oid: u32,
        /// `pg_opclass.opcname`.
        name: &'static str,
        /// `pg_opclass.opcfamily`: OID and name.
        family: (u32, &'static str),
    },
}

/// The result type of `min` and `max` over a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extremes {
    /// The type has neither.
    None,
    /// The type itself.
    Same,
    /// Another type, to which the value is cast.
    Of(DataType),
}

// Fails to compile if facts of a type contradict each other.
const _: () = {
    let mut at = 0;
    while at < DataType::ALL.len() {
        let data_type = DataType::ALL[at];
        let facts = data_type.facts();
        if data_type.is_storable() {
            assert!(
                !matches!(facts.operator_class, OperatorClass::None) || !data_type.is_comparable(),
                "a type that tables can have columns of and that compares has an operator class"
            );
            assert!(
                facts.array.is_some(),
                "a type that tables can have columns of has an array type"
            );
        }
        if let Some(array) = facts.array {
            assert!(
                matches!(
                    array.facts().structure,
                    Structure::Array(element) if element as usize == data_type as usize
                ),
                "a type's array type has elements of the type"
            );
        }
        let mut before = 0;
        while before < at {
            assert!(
                DataType::ALL[before].facts().oid != facts.oid,
                "types have different numbers"
            );
            before += 1;
        }
        at += 1;
    }
};
