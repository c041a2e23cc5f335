//! The Bind message: parameter values for a prepared statement, each as text or binary.
//!
//! ```text
//!   portal\0 statement\0
//!   count, formats …              none: all text; one: for all; else one each
//!   count, (length, bytes) …      length -1 is NULL
//!   count, formats …              of the result's columns, same rule
//! ```

use crate::Error;
use crate::reader::{self, Reader};

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The type's text representation.
    #[default]
    Text,
    /// The binary format of PostgreSQL's send functions.
    Binary,
}

impl Format {
    /// The format code on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Format codes of a Bind message: none, one for all values, or one per value. Verified to
/// be 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatCodes<'buffer> {
    codes: &'buffer [[u8; 2]],
}

impl<'buffer> FormatCodes<'buffer> {
    fn read(reader: &mut Reader<'buffer>) -> Result<Self, Error> {
        let count = reader.count()?;
        let (codes, _) = reader.bytes(count * 2)?.as_chunks();
        for code in codes {
            let code = i16::from_be_bytes(*code);
            if !matches!(code, 0 | 1) {
                return Err(Error::FormatCode(code));
            }
        }
        Ok(Self { codes })
    }

    /// Number of format codes given.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether none was given, so that all values are text.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Whether the codes determine a format for each of `count` values.
    #[must_use]
    pub const fn fits(&self, count: usize) -> bool {
        self.codes.len() <= 1 || self.codes.len() == count
    }

    /// The format of the value at this position.
    #[must_use]
    pub fn of(&self, position: usize) -> Format {
        let code = match self.codes {
            [] => return Format::Text,
            [code] => Some(code),
            codes => codes.get(position),
        };
        match code {
            Some([0, 1]) => Format::Binary,
            _ => Format::Text,
        }
    }

    /// The formats as given: none, one, or one per value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Format> + use<'buffer> {
        let every = *self;
        (0..every.len()).map(move |position| every.of(position))
    }
}

/// A parameter value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter<'buffer> {
    /// The SQL value NULL.
    Null,
    /// A value in text format: UTF-8 without a zero byte.
    Text(&'buffer str),
    /// A value in binary format: any bytes. A caller that converts them to text calls
    /// [`check_text`](super::check_text).
    Binary(&'buffer [u8]),
}

/// The contents of a Bind message: values for a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'buffer> {
    /// The portal to create; empty for the unnamed one.
    pub portal: &'buffer str,
    /// The prepared statement; empty for the unnamed one.
    pub statement: &'buffer str,
    /// The formats that the client wants for the result's columns.
    pub result_formats: FormatCodes<'buffer>,
    formats: FormatCodes<'buffer>,
    count: usize,
    /// The encoded values, whose lengths [`Bind::read`] has verified.
    values: &'buffer [u8],
}

impl<'buffer> Bind<'buffer> {
    pub(super) fn read(reader: &mut Reader<'buffer>) -> Result<Self, Error> {
        let portal = reader.string()?;
        let statement = reader.string()?;
        let formats = FormatCodes::read(reader)?;
        let count = reader.count()?;
        if !formats.fits(count) {
            return Err(Error::FormatCount {
                formats: formats.len(),
                parameters: count,
            });
        }
        let values = reader.remaining();
        for position in 0..count {
            let length = reader.i32()?;
            if length == -1 {
                continue;
            }
            let length = usize::try_from(length).map_err(|_| Error::ParameterLength(length))?;
            let value = reader.bytes(length)?;
            if formats.of(position) == Format::Text {
                reader::text(value)?;
            }
        }
        let values = &values[..values.len() - reader.remaining().len()];
        let result_formats = FormatCodes::read(reader)?;
        Ok(Self {
            portal,
            statement,
            result_formats,
            formats,
            count,
            values,
        })
    }

    /// The formats of the values, as given.
    #[must_use]
    pub const fn parameter_formats(&self) -> FormatCodes<'buffer> {
        self.formats
    }

    /// The values, in order.
    #[must_use]
    pub fn parameters(&self) -> Parameters<'buffer> {
        Parameters {
            formats: self.formats,
            position: 0,
            count: self.count,
            values: self.values,
        }
    }
}

/// The values of a [`Bind`], in order.
#[derive(Clone, Debug)]
pub struct Parameters<'buffer> {
    formats: FormatCodes<'buffer>,
    position: usize,
    count: usize,
    values: &'buffer [u8],
}

impl<'buffer> Iterator for Parameters<'buffer> {
    type Item = Parameter<'buffer>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Each lookup succeeds, since `Bind::read` has checked the message.
        if self.position == self.count {
            return None;
        }
        let (length, rest) = self.values.split_first_chunk()?;
        let format = self.formats.of(self.position);
        self.position += 1;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.values = rest;
            return Some(Parameter::Null);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.values = rest;
        Some(match format {
            Format::Text => Parameter::Text(std::str::from_utf8(value).ok()?),
            Format::Binary => Parameter::Binary(value),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count - self.position;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Parameters<'_> {}
