//! The types there are, by their PostgreSQL names and numbers.

use std::fmt;

use crate::{Error, Result, SqlState};

macro_rules! data_types {
    ($($(#[$doc:meta])* $variant:ident = $oid:literal, $name:literal, $sql:literal, $length:literal;)*) => {
        /// A type, without its modifier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DataType {
            $($(#[$doc])* $variant,)*
        }

        impl DataType {
            /// Every type, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its number in `pg_type`.
            #[must_use]
            pub const fn oid(self) -> u32 {
                match self { $(Self::$variant => $oid,)* }
            }

            /// Its name in `pg_type`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its name in SQL, as `format_type` prints it.
            #[must_use]
            pub const fn sql_name(self) -> &'static str {
                match self { $(Self::$variant => $sql,)* }
            }

            /// Its length in bytes in the protocol's row description; -1 when
            /// values differ in length.
            #[must_use]
            pub const fn length(self) -> i16 {
                match self { $(Self::$variant => $length,)* }
            }
        }
    };
}

data_types! {
    /// True or false.
    Bool = 16, "bool", "boolean", 1;
    /// One byte, in the system catalogs.
    InternalChar = 18, "char", "\"char\"", 1;
    /// An identifier, at most 63 bytes.
    Name = 19, "name", "name", 64;
    /// 64-bit integer.
    Int8 = 20, "int8", "bigint", 8;
    /// 16-bit integer.
    Int2 = 21, "int2", "smallint", 2;
    /// A list of column numbers, in the system catalogs.
    Int2Vector = 22, "int2vector", "int2vector", -1;
    /// 32-bit integer.
    Int4 = 23, "int4", "integer", 4;
    /// A function's number, printed as its name.
    Regproc = 24, "regproc", "regproc", 4;
    /// A string of any length.
    Text = 25, "text", "text", -1;
    /// An object's number in the system catalogs.
    Oid = 26, "oid", "oid", 4;
    /// A list of object numbers, in the system catalogs.
    OidVector = 30, "oidvector", "oidvector", -1;
    /// Single-precision floating point.
    Float4 = 700, "float4", "real", 4;
    /// Double-precision floating point.
    Float8 = 701, "float8", "double precision", 8;
    /// A literal whose type the context has yet to say.
    Unknown = 705, "unknown", "unknown", -2;
    /// A string of fixed length, padded with blanks.
    Char = 1042, "bpchar", "character", -1;
    /// A string of limited length.
    VarChar = 1043, "varchar", "character varying", -1;
    /// A day.
    Date = 1082, "date", "date", 4;
    /// A date and time of day, in no particular time zone.
    Timestamp = 1114, "timestamp", "timestamp without time zone", 8;
    /// A moment.
    TimestampTz = 1184, "timestamptz", "timestamp with time zone", 8;
    /// A decimal number of any size.
    Numeric = 1700, "numeric", "numeric", -1;
    /// A relation's number, printed as its name.
    Regclass = 2205, "regclass", "regclass", 4;
    /// A type's number, printed as its name.
    Regtype = 2206, "regtype", "regtype", 4;
    /// A schema's number, printed as its name.
    Regnamespace = 4089, "regnamespace", "regnamespace", 4;
    /// A role's number, printed as its name.
    Regrole = 4096, "regrole", "regrole", 4;
    /// What a function returns that returns nothing.
    Void = 2278, "void", "void", 4;
    /// Array of `boolean`.
    BoolArray = 1000, "_bool", "boolean[]", -1;
    /// Array of `"char"`.
    InternalCharArray = 1002, "_char", "\"char\"[]", -1;
    /// Array of `name`.
    NameArray = 1003, "_name", "name[]", -1;
    /// Array of `smallint`.
    Int2Array = 1005, "_int2", "smallint[]", -1;
    /// Array of `integer`.
    Int4Array = 1007, "_int4", "integer[]", -1;
    /// Array of `text`.
    TextArray = 1009, "_text", "text[]", -1;
    /// Array of `char(n)`.
    CharArray = 1014, "_bpchar", "character[]", -1;
    /// Array of `varchar`.
    VarCharArray = 1015, "_varchar", "character varying[]", -1;
    /// Array of `bigint`.
    Int8Array = 1016, "_int8", "bigint[]", -1;
    /// Array of `real`.
    Float4Array = 1021, "_float4", "real[]", -1;
    /// Array of `double precision`.
    Float8Array = 1022, "_float8", "double precision[]", -1;
    /// Array of `oid`.
    OidArray = 1028, "_oid", "oid[]", -1;
    /// Array of access privileges: always null here.
    AclItemArray = 1034, "_aclitem", "aclitem[]", -1;
    /// Array of `timestamp`.
    TimestampArray = 1115, "_timestamp", "timestamp without time zone[]", -1;
    /// Array of `date`.
    DateArray = 1182, "_date", "date[]", -1;
    /// Array of `timestamptz`.
    TimestampTzArray = 1185, "_timestamptz", "timestamp with time zone[]", -1;
    /// Array of `numeric`.
    NumericArray = 1231, "_numeric", "numeric[]", -1;
    /// Array of `regtype`.
    RegtypeArray = 2211, "_regtype", "regtype[]", -1;
}

impl DataType {
    const ARRAYS: &'static [(Self, Self)] = &[
        (Self::Bool, Self::BoolArray),
        (Self::InternalChar, Self::InternalCharArray),
        (Self::Name, Self::NameArray),
        (Self::Int2, Self::Int2Array),
        (Self::Int4, Self::Int4Array),
        (Self::Text, Self::TextArray),
        (Self::Char, Self::CharArray),
        (Self::VarChar, Self::VarCharArray),
        (Self::Int8, Self::Int8Array),
        (Self::Float4, Self::Float4Array),
        (Self::Float8, Self::Float8Array),
        (Self::Oid, Self::OidArray),
        (Self::Timestamp, Self::TimestampArray),
        (Self::Date, Self::DateArray),
        (Self::TimestampTz, Self::TimestampTzArray),
        (Self::Numeric, Self::NumericArray),
        (Self::Regtype, Self::RegtypeArray),
    ];

    /// The type with this number in `pg_type`.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|each| each.oid() == oid)
    }

    /// The type of an array's elements; `None` when it is no array.
    #[must_use]
    pub fn element(self) -> Option<Self> {
        match self {
            Self::Int2Vector => Some(Self::Int2),
            Self::OidVector => Some(Self::Oid),
            Self::AclItemArray => Some(Self::Text),
            _ => Self::ARRAYS
                .iter()
                .find(|(_, array)| *array == self)
                .map(|(element, _)| *element),
        }
    }

    /// The array type with elements of this type, if there is one.
    #[must_use]
    pub fn array(self) -> Option<Self> {
        Self::ARRAYS
            .iter()
            .find(|(element, _)| *element == self)
            .map(|(_, array)| *array)
    }

    /// Whether its values are points in time.
    #[must_use]
    pub const fn is_moment(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp | Self::TimestampTz)
    }

    /// Whether it is one of the string types, `unknown` not included.
    #[must_use]
    pub const fn is_string(self) -> bool {
        matches!(self, Self::Text | Self::VarChar | Self::Char | Self::Name)
    }

    /// Whether it is a number.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(
            self,
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Float4 | Self::Float8 | Self::Numeric
        )
    }

    /// Whether tables can have columns of it. The rest is for the system
    /// catalogs only.
    #[must_use]
    pub const fn is_storable(self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Int2
                | Self::Int4
                | Self::Int8
                | Self::Float4
                | Self::Float8
                | Self::Numeric
                | Self::Text
                | Self::Char
                | Self::VarChar
                | Self::Date
                | Self::Timestamp
                | Self::TimestampTz
        )
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
    /// Its modifier.
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

/// Most characters that `char(n)` and `varchar(n)` can be declared with.
const MAX_STRING_LENGTH: u64 = 10_485_760;
/// Most digits that `numeric(p, s)` can be declared with.
const MAX_NUMERIC_PRECISION: u64 = 1000;

impl ColumnType {
    /// `char(length)` or `varchar(length)`.
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

    /// `numeric(precision, scale)`.
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

    /// Declared characters of a string type.
    #[must_use]
    pub fn length(self) -> Option<usize> {
        match self.data_type {
            DataType::Char | DataType::VarChar if self.modifier >= 4 => {
                Some((self.modifier - 4) as usize)
            }
            _ => None,
        }
    }

    /// Declared precision and scale of a numeric.
    #[must_use]
    pub fn precision_and_scale(self) -> Option<(u32, u32)> {
        match self.data_type {
            DataType::Numeric if self.modifier >= 4 => {
                let packed = (self.modifier - 4) as u32;
                Some((packed >> 16, packed & 0x7ff))
            }
            _ => None,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.sql_name())
    }
}

/// As `format_type` prints it.
impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.data_type {
            DataType::Char if self.modifier < 0 => formatter.write_str("bpchar"),
            DataType::Char | DataType::VarChar if self.modifier >= 4 => {
                write!(formatter, "{}({})", self.data_type, self.modifier - 4)
            }
            DataType::Numeric => match self.precision_and_scale() {
                Some((precision, scale)) => write!(formatter, "numeric({precision},{scale})"),
                None => formatter.write_str("numeric"),
            },
            DataType::Timestamp if self.modifier >= 0 => {
                write!(formatter, "timestamp({}) without time zone", self.modifier)
            }
            DataType::TimestampTz if self.modifier >= 0 => {
                write!(formatter, "timestamp({}) with time zone", self.modifier)
            }
            other => formatter.write_str(other.sql_name()),
        }
    }
}
