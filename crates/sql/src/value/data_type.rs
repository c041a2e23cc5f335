//! The types there are. What each is called and can do is in [`super::types`].

use std::fmt;

use super::operations::{
    DateTimeType, Family, Modifier, NumberType, ObjectType, Structure, TypeFacts, TypeOperations,
};
use crate::{Error, Result, SqlState};

/// Declares the types, and `for_type!`, which evaluates an expression with the
/// [`TypeOperations`] of a type at hand. Each variant has a marker of its name in
/// [`super::types`].
macro_rules! data_types {
    (($dollar:tt) $($(#[$doc:meta])* $variant:ident,)*) => {
        /// A type, without its modifier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DataType {
            $($(#[$doc])* $variant,)*
        }

        impl DataType {
            /// Every type, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        /// An expression over the operations `$operations` of a type.
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
    /// True or false.
    Bool,
    /// One byte, in the system catalogs.
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
    /// A function's number, printed as its name.
    Regproc,
    /// A string of any length.
    Text,
    /// An object's number in the system catalogs.
    Oid,
    /// A list of object numbers, in the system catalogs.
    OidVector,
    /// Single-precision floating point.
    Float4,
    /// Double-precision floating point.
    Float8,
    /// A literal whose type the context has yet to say.
    Unknown,
    /// A string of fixed length, padded with blanks.
    Char,
    /// A string of limited length.
    VarChar,
    /// A day.
    Date,
    /// A date and time of day, in no particular time zone.
    Timestamp,
    /// A moment.
    TimestampTz,
    /// A decimal number of any size.
    Numeric,
    /// A relation's number, printed as its name.
    Regclass,
    /// A type's number, printed as its name.
    Regtype,
    /// A schema's number, printed as its name.
    Regnamespace,
    /// A role's number, printed as its name.
    Regrole,
    /// What a function returns that returns nothing.
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
    /// Array of access privileges: always null here.
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
}

pub(super) use for_type;

impl DataType {
    /// What it is called, and what the system catalogs say of it.
    #[must_use]
    pub(crate) const fn facts(self) -> &'static TypeFacts {
        for_type!(self, T => &<T as TypeOperations>::FACTS)
    }

    /// Its number in `pg_type`.
    #[must_use]
    pub const fn oid(self) -> u32 {
        self.facts().oid
    }

    /// Its name in `pg_type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Its name in SQL, as `format_type` prints it.
    #[must_use]
    pub const fn sql_name(self) -> &'static str {
        self.facts().sql_name
    }

    /// Its length in bytes in the protocol's row description; -1 when
    /// values differ in length.
    #[must_use]
    pub const fn length(self) -> i16 {
        self.facts().length
    }

    /// The type with this number in `pg_type`.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|each| each.oid() == oid)
    }

    /// The type of an array's elements; `None` when it is no array.
    #[must_use]
    pub const fn element(self) -> Option<Self> {
        match self.facts().structure {
            Structure::Scalar | Structure::Characters => None,
            Structure::Array(element) | Structure::Vector(element) => Some(element),
            Structure::AclItems => Some(Self::Text),
        }
    }

    /// The array type with elements of this type, if there is one.
    #[must_use]
    pub const fn array(self) -> Option<Self> {
        self.facts().array
    }

    /// Whether it is a list of the system catalogs that counts from 0.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self.facts().structure, Structure::Vector(_))
    }

    /// How expressions treat it.
    #[must_use]
    pub(crate) const fn family(self) -> Family {
        self.facts().family
    }

    /// Whether its values are points in time.
    #[must_use]
    pub const fn is_moment(self) -> bool {
        self.date_time().is_some()
    }

    /// Which of the types of points in time it is.
    #[must_use]
    pub(crate) const fn date_time(self) -> Option<DateTimeType> {
        match self.facts().family {
            Family::DateTime(kind) => Some(kind),
            Family::Number(_) | Family::String | Family::Object(_) | Family::Other => None,
        }
    }

    /// Whether it is one of the string types, `unknown` not included.
    #[must_use]
    pub const fn is_string(self) -> bool {
        matches!(self.facts().family, Family::String)
    }

    /// Whether it is a number.
    #[must_use]
    pub const fn is_number(self) -> bool {
        self.number().is_some()
    }

    /// Which of the number types it is.
    #[must_use]
    pub(crate) const fn number(self) -> Option<NumberType> {
        match self.facts().family {
            Family::Number(kind) => Some(kind),
            Family::String | Family::DateTime(_) | Family::Object(_) | Family::Other => None,
        }
    }

    /// Which of the types of objects of the catalog it is: `regclass` and its like.
    #[must_use]
    pub(crate) const fn object(self) -> Option<ObjectType> {
        match self.facts().family {
            Family::Object(kind) => Some(kind),
            Family::Number(_) | Family::String | Family::DateTime(_) | Family::Other => None,
        }
    }

    /// Whether tables can have columns of it. The rest is for the system
    /// catalogs only.
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
        let limited = self.data_type.facts().modifier == Modifier::Length && self.modifier >= 4;
        limited.then(|| (self.modifier - 4) as usize)
    }

    /// Declared precision and scale of a numeric.
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

/// As `format_type` prints it.
impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.data_type.sql_name();
        match self.data_type.facts().modifier {
            // Without one, `character` would be `character(1)`.
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
            Modifier::None | Modifier::Length | Modifier::Fraction => formatter.write_str(name),
        }
    }
}
