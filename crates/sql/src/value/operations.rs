//! What a column type must be able to do.
//!
//! Two traits with no method that can be left out:
//!
//! | trait | implemented by | says |
//! | --- | --- | --- |
//! | [`TypeOperations`] | every variant of [`DataType`] | how text, binary, cells and keys are read as the type, and what the system catalogs say of it |
//! | [`Representation`] | every variant of [`Value`] but the null | how what the variant holds is written as text, binary, cell and key, and how two compare |
//!
//! They are two because types share representations: `text`, `varchar` and `name`
//! are read differently and written alike. A type whose values have a variant of
//! their own (`date`) implements both on one marker in [`super::types`].
//!
//! Dispatch is by exhaustive `match` (`for_type!`, `for_value!`), never by a
//! pointer: cells are decoded, compared and printed by the million.

use std::cmp::Ordering;

use super::key_read::KeyReader;
use super::{ColumnType, DataType, Fit, Style, Value};
use crate::Result;

/// One type of [`DataType`].
pub(super) trait TypeOperations {
    /// What its values are held as.
    type Representation: Representation;

    /// What it is called, and what the system catalogs say of it.
    const FACTS: TypeFacts;
    /// Whether tables can have columns of it. The rest is for the system catalogs
    /// only, and may take its cells and keys from `catalog_only!`.
    const STORABLE: bool;

    /// Reads text, the modifier aside.
    fn parse_text(text: &str, style: &Style) -> Result<Value>;
    /// Reads the binary form, the modifier aside.
    fn parse_binary(bytes: &[u8]) -> Result<Value>;
    /// Brings a value of the type into the form its modifier asks for.
    fn fit(value: Value, column_type: ColumnType, fit: Fit) -> Result<Value>;
    /// Reads a cell.
    fn from_cell(cell: &[u8]) -> Result<Value>;
    /// Reads the bytes behind a key's marker.
    fn read_key(key: &mut KeyReader<'_>) -> Option<Value>;

    /// Appends a cell as the bytes behind a key's marker.
    #[inline]
    fn write_cell_key(cell: &[u8], key: &mut Vec<u8>) -> Result<()> {
        let value = Self::from_cell(cell)?;
        if let Some(content) = Self::Representation::content(&value) {
            Self::Representation::write_key(content, key);
        }
        Ok(())
    }
}

/// What one variant of [`Value`] holds.
pub(super) trait Representation {
    /// What the variant holds, borrowed.
    type Content<'value>: Copy;

    /// The content of a value that compares with this representation.
    fn content(value: &Value) -> Option<Self::Content<'_>>;
    /// Appends it as text.
    fn write_text(
        content: Self::Content<'_>,
        column_type: ColumnType,
        style: &Style,
        out: &mut Vec<u8>,
    );
    /// Appends it in the binary form.
    fn write_binary(
        content: Self::Content<'_>,
        column_type: ColumnType,
        style: &Style,
        out: &mut Vec<u8>,
    );
    /// Appends its cell.
    fn write_cell(content: Self::Content<'_>, out: &mut Vec<u8>);
    /// Appends the bytes behind a key's marker, ascending.
    fn write_key(content: Self::Content<'_>, key: &mut Vec<u8>);
    /// Which of two comes first.
    fn order(left: Self::Content<'_>, right: Self::Content<'_>) -> Ordering;
}

/// What a type is called, and what the system catalogs say of it.
#[derive(Debug)]
pub(crate) struct TypeFacts {
    /// `pg_type.oid`.
    pub(crate) oid: u32,
    /// `pg_type.typname`.
    pub(crate) name: &'static str,
    /// Its name in SQL, as `format_type` prints it.
    pub(crate) sql_name: &'static str,
    /// `pg_type.typlen`: bytes, -1 when values differ in length, -2 for a C string.
    pub(crate) length: i16,
    /// How expressions treat it.
    pub(crate) family: Family,
    /// Whether its values are made of values of another type.
    pub(crate) structure: Structure,
    /// The array type with elements of it.
    pub(crate) array: Option<DataType>,
    /// What may stand in parentheses behind its name.
    pub(crate) modifier: Modifier,
    /// `pg_type.typcategory`.
    pub(crate) category: Category,
    /// `pg_type.typispreferred`: the one of its category that a literal becomes.
    pub(crate) preferred: bool,
    /// `pg_type.typbyval`.
    pub(crate) by_value: bool,
    /// `pg_type.typalign`.
    pub(crate) alignment: Alignment,
    /// `pg_type.typstorage`.
    pub(crate) storage: Storage,
    /// `pg_type.typcollation`.
    pub(crate) collation: Option<Collation>,
    /// What `in`, `out`, `recv` and `send` are appended to for the names of its
    /// conversion functions, which `pg_proc` has to list.
    pub(crate) functions: &'static str,
    /// What orders it in an index: `pg_opclass`, `pg_opfamily`.
    pub(crate) operator_class: OperatorClass,
    /// What `min` and `max` of it are.
    pub(crate) extremes: Extremes,
}

/// How expressions treat a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// With arithmetic; numbers widen by themselves.
    Number(NumberType),
    /// Strings become each other by themselves.
    String,
    /// Points in time; reading and printing them takes the session's time zone.
    DateTime(DateTimeType),
    /// A number and a name, which the catalog finds.
    Object(ObjectType),
    /// Like no other type: it compares, prints and is read.
    Other,
}

/// The number types, each before those it becomes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberType {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
}

/// The types of points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateTimeType {
    Date,
    Timestamp,
    TimestampTz,
}

/// The types of what the catalog finds by name and by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Regproc,
    Regclass,
    Regtype,
    Regnamespace,
    Regrole,
}

/// Whether values are made of values of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    /// They are not.
    Scalar,
    /// They are not, but `pg_type` has it that they consist of `"char"`: `name`.
    Characters,
    /// An array of these elements.
    Array(DataType),
    /// A blank-separated list, counted from 0.
    Vector(DataType),
    /// An array of access privileges, which have no type here and are text.
    AclItems,
}

/// What may stand in parentheses behind a type's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modifier {
    /// Nothing.
    None,
    /// Characters.
    Length,
    /// Digits, and those behind the point.
    PrecisionAndScale,
    /// Digits of a second's fraction.
    Fraction,
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
    Unknown = b'X',
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

/// What orders a type in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorClass {
    /// Nothing: it has no default operator class.
    None,
    /// The operator class of another type, whose values it is made of.
    Of(DataType),
    /// Its own.
    Own {
        /// `pg_opclass.oid`.
        oid: u32,
        /// `pg_opclass.opcname`.
        name: &'static str,
        /// `pg_opclass.opcfamily`: number and name.
        family: (u32, &'static str),
    },
}

/// What `min` and `max` of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extremes {
    /// There are none.
    None,
    /// Of the type.
    Same,
    /// Those of another type, which it becomes.
    Of(DataType),
}

// Facts that contradict each other do not compile.
const _: () = {
    let mut at = 0;
    while at < DataType::ALL.len() {
        let data_type = DataType::ALL[at];
        let facts = data_type.facts();
        if data_type.is_storable() {
            assert!(
                !matches!(facts.operator_class, OperatorClass::None),
                "a type that tables can have columns of has an operator class"
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
