//! The SQL types. Their names and operations are in [`super::types`].

use std::fmt;

use super::interval::IntervalRange;
use super::operations::{
    DateTimeType, Family, Modifier, NumberType, ObjectType, Structure, TypeFacts, TypeOperations,
};
use crate::{Error, Result, SqlState};

/// Declares [`DataType`], and the macro `for_type!`, which evaluates an expression with
/// the [`TypeOperations`] of a type. Each variant has a marker type of the same name in
/// [`super::types`].
macro_rules! data_types {
    (($dollar:tt) $($(#[$doc:meta])* $variant:ident,)*) => {
        /// A SQL type without its modifier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DataType {
            $($(#[$doc])* $variant,)*
        }

        impl DataType {
            /// All types, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        /// Evaluates an expression with `$operations` bound to the operations of a
        /// type.
        macro_rules! for_type {
            ($dollar data_type:expr, $dollar operations:ident => $dollar result:expr) => {
                match $dollar data_type {
                    $($crate::value::DataType::$variant => {
                        type $dollar operations = $crate::value::types::$variant;
                        $dollar result
                    })*
                }
            };
        }
    };
}

data_types! {
    ($)
    /// `boolean`.
    Bool,
    /// `"char"`: one byte, in the system catalogs.
    InternalChar,
    /// An identifier, at most 63 bytes.
    Name,
    /// 64-bit integer.
    Int8,
    /// 16-bit integer.
    Int2,
    /// A list of column numbers, in the system catalogs.
    Int2Vector,
    /// 32-bit integer.
    Int4,
    /// OID of a function, printed as the function's name.
    Regproc,
    /// A string of any length.
    Text,
    /// OID of an object of the system catalogs.
    Oid,
    /// A list of OIDs, in the system catalogs.
    OidVector,
    /// Single-precision floating point.
    Float4,
    /// Double-precision floating point.
    Float8,
    /// Type of a literal before its context determines its type.
    Unknown,
    /// A string of fixed length, padded with blanks.
    Char,
    /// A string of limited length.
    VarChar,
    /// A day.
    Date,
    /// A date and time of day without a time zone.
    Timestamp,
    /// A point in time, printed in the session's time zone.
    TimestampTz,
    /// A decimal number of arbitrary precision.
    Numeric,
    /// OID of a function, printed as the function's name and the types of its arguments.
    Regprocedure,
    /// OID of an operator, printed as the operator.
    Regoper,
    /// OID of an operator, printed as the operator and the types of its operands.
    Regoperator,
    /// OID of a relation, printed as the relation's name.
    Regclass,
    /// OID of a type, printed as the type's name.
    Regtype,
    /// OID of a schema, printed as the schema's name.
    Regnamespace,
    /// OID of a role, printed as the role's name.
    Regrole,
    /// Result type of a function that returns nothing.
    Void,
    /// Array of `boolean`.
    BoolArray,
    /// Array of `"char"`.
    InternalCharArray,
    /// Array of `name`.
    NameArray,
    /// Array of `smallint`.
    Int2Array,
    /// Array of `integer`.
    Int4Array,
    /// Array of `text`.
    TextArray,
    /// Array of `char(n)`.
    CharArray,
    /// Array of `varchar`.
    VarCharArray,
    /// Array of `bigint`.
    Int8Array,
    /// Array of `real`.
    Float4Array,
    /// Array of `double precision`.
    Float8Array,
    /// Array of `oid`.
    OidArray,
    /// Array of access privileges.
    AclItemArray,
    /// Array of `timestamp`.
    TimestampArray,
    /// Array of `date`.
    DateArray,
    /// Array of `timestamptz`.
    TimestampTzArray,
    /// Array of `numeric`.
    NumericArray,
    /// Array of `regtype`.
    RegtypeArray,
    /// A time of day without a time zone.
    Time,
    /// A time of day with its offset from UTC.
    TimeTz,
    /// A span of time.
    Interval,
    /// Array of `time`.
    TimeArray,
    /// Array of `timetz`.
    TimeTzArray,
    /// Array of `interval`.
    IntervalArray,
    /// Bytes of any value.
    Bytea,
    /// A JSON text, kept as it was written.
    Json,
    /// A universally unique identifier.
    Uuid,
    /// A JSON document in its normal form.
    Jsonb,
    /// A path into a JSON document.
    JsonPath,
    /// Array of `json`.
    JsonArray,
    /// Array of `bytea`.
    ByteaArray,
    /// Array of `uuid`.
    UuidArray,
    /// Array of `jsonb`.
    JsonbArray,
    /// Array of `jsonpath`.
    JsonPathArray,
    /// Place of a row, in system columns.
    Tid,
    /// Number of a transaction, in system columns.
    Xid,
    /// Array of `tid`.
    TidArray,
    /// A row as a value.
    Record,
    /// Array of `record`.
    RecordArray,
}

pub(super) use for_type;

impl DataType {
    /// The type's names and its properties in the system catalogs.
    #[must_use]
    pub(crate) const fn facts(self) -> &'static TypeFacts {
        for_type!(self, T => &<T as TypeOperations>::FACTS)
    }

    /// OID of the type in `pg_type`.
    #[must_use]
    pub const fn oid(self) -> u32 {
        self.facts().oid
    }

    /// Name of the type in `pg_type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Name of the type in SQL, as `format_type` prints it.
    #[must_use]
    pub const fn sql_name(self) -> &'static str {
        self.facts().sql_name
    }

    /// Length in bytes of the type's values in the protocol's row description; -1 if
    /// the length varies.
    #[must_use]
    pub const fn length(self) -> i16 {
        self.facts().length
    }

    /// The type with this OID in `pg_type`.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|each| each.oid() == oid)
    }

    /// Element type of an array type; `None` for other types.
    #[must_use]
    pub const fn element(self) -> Option<Self> {
        match self.facts().structure {
            Structure::Scalar | Structure::Characters => None,
            Structure::Array(element) | Structure::Vector(element) => Some(element),
            Structure::AclItems => Some(Self::Text),
        }
    }

    /// The array type whose elements have this type, if it exists.
    #[must_use]
    pub const fn array(self) -> Option<Self> {
        self.facts().array
    }

    /// Whether the type is a vector of the system catalogs, with subscripts from 0.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self.facts().structure, Structure::Vector(_))
    }

    /// The group of types that expressions treat alike.
    #[must_use]
    pub(crate) const fn family(self) -> Family {
        self.facts().family
    }

    /// Whether the type is one of dates, times and intervals, whose text depends on the
    /// session.
    #[must_use]
    pub const fn is_moment(self) -> bool {
        self.date_time().is_some()
    }

    /// Which type of dates, times and intervals it is; `None` for other types.
    #[must_use]
    pub(crate) const fn date_time(self) -> Option<DateTimeType> {
        match self.facts().family {
            Family::DateTime(kind) => Some(kind),
            Family::Number(_) | Family::String | Family::Object(_) | Family::Other => None,
        }
    }

    /// Whether the type is a string type; `unknown` is not one.
    #[must_use]
    pub const fn is_string(self) -> bool {
        matches!(self.facts().family, Family::String)
    }

    /// Whether the type is numeric.
    #[must_use]
    pub const fn is_number(self) -> bool {
        self.number().is_some()
    }

    /// Which numeric type it is; `None` for other types.
    #[must_use]
    pub(crate) const fn number(self) -> Option<NumberType> {
        match self.facts().family {
            Family::Number(kind) => Some(kind),
            Family::String | Family::DateTime(_) | Family::Object(_) | Family::Other => None,
        }
    }

    /// Which object type (`regclass` and its like) it is; `None` for other types.
    #[must_use]
    pub(crate) const fn object(self) -> Option<ObjectType> {
        match self.facts().family {
            Family::Object(kind) => Some(kind),
            Family::Number(_) | Family::String | Family::DateTime(_) | Family::Other => None,
        }
    }

    /// Whether values of the type can be compared: `json` and `jsonpath`, and arrays of them,
    /// have neither an order nor equality.
    #[must_use]
    pub const fn is_comparable(self) -> bool {
        !matches!(
            self,
            Self::Json | Self::JsonPath | Self::JsonArray | Self::JsonPathArray
        )
    }

    /// Whether a table can have a column of this type. All other types occur in the
    /// system catalogs only.
    #[must_use]
    pub const fn is_storable(self) -> bool {
        for_type!(self, T => <T as TypeOperations>::STORABLE)
    }
}

/// A type with its modifier: `numeric(10,2)`, `varchar(20)`.
///
/// The modifier is PostgreSQL's: -1 for none, length + 4 for strings,
/// `(precision << 16 | scale) + 4` for numerics, digits of a second's fraction
/// for timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub data_type: DataType,
    /// Type modifier.
    pub modifier: i32,
}

impl From<DataType> for ColumnType {
    fn from(data_type: DataType) -> Self {
        Self {
            data_type,
            modifier: -1,
        }
    }
}

/// Maximum declared length of `char(n)` and `varchar(n)`, in characters.
const MAX_STRING_LENGTH: u64 = 10_485_760;
/// Maximum declared precision of `numeric(p, s)`, in digits.
const MAX_NUMERIC_PRECISION: u64 = 1000;

impl ColumnType {
    /// The type `char(length)` or `varchar(length)`.
    pub fn string(data_type: DataType, length: u64) -> Result<Self> {
        let name = if data_type == DataType::Char {
            "char"
        } else {
            "varchar"
        };
        if length == 0 {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("length for type {name} must be at least 1"),
            ));
        }
        if length > MAX_STRING_LENGTH {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("length for type {name} cannot exceed {MAX_STRING_LENGTH}"),
            ));
        }
        Ok(Self {
            data_type,
            modifier: length as i32 + 4,
        })
    }

    /// The type `numeric(precision, scale)`.
    pub fn numeric(precision: u64, scale: i64) -> Result<Self> {
        if !(1..=MAX_NUMERIC_PRECISION).contains(&precision) {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!(
                    "NUMERIC precision {precision} must be between 1 and {MAX_NUMERIC_PRECISION}"
                ),
            ));
        }
        if !(0..=precision as i64).contains(&scale) {
            return Err(Error::unsupported(format_args!(
                "a NUMERIC scale of {scale} with a precision of {precision}"
            )));
        }
        Ok(Self {
            data_type: DataType::Numeric,
            modifier: ((precision as i32) << 16 | scale as i32) + 4,
        })
    }

    /// Declared length of a string type, in characters.
    #[must_use]
    pub fn length(self) -> Option<usize> {
        let limited = self.data_type.facts().modifier == Modifier::Length && self.modifier >= 4;
        limited.then(|| (self.modifier - 4) as usize)
    }

    /// Declared precision and scale of a numeric type.
    #[must_use]
    pub fn precision_and_scale(self) -> Option<(u32, u32)> {
        let modifier = self.data_type.facts().modifier;
        let limited = modifier == Modifier::PrecisionAndScale && self.modifier >= 4;
        limited.then(|| {
            let packed = (self.modifier - 4) as u32;
            (packed >> 16, packed & 0x7ff)
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.sql_name())
    }
}

/// Prints the type as `format_type` does.
impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.data_type.sql_name();
        match self.data_type.facts().modifier {
            // Without a length, `character` means `character(1)`, so the name must be
            // `bpchar`.
            Modifier::Length if self.modifier < 0 && self.data_type == DataType::Char => {
                formatter.write_str(self.data_type.name())
            }
            Modifier::Length if self.modifier >= 4 => {
                write!(formatter, "{name}({})", self.modifier - 4)
            }
            Modifier::PrecisionAndScale => match self.precision_and_scale() {
                Some((precision, scale)) => write!(formatter, "{name}({precision},{scale})"),
                None => formatter.write_str(name),
            },
            Modifier::Fraction if self.modifier >= 0 => match name.split_once(' ') {
                Some((head, tail)) => write!(formatter, "{head}({}) {tail}", self.modifier),
                None => write!(formatter, "{name}({})", self.modifier),
            },
            Modifier::Interval => {
                write!(
                    formatter,
                    "{name}{}",
                    IntervalRange::of_modifier(self.modifier)
                )
            }
            Modifier::None | Modifier::Length | Modifier::Fraction => formatter.write_str(name),
        }
    }
}
