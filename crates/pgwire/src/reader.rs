//! A cursor over the contents of one message, which decodes its fields in order.

use crate::Error;

/// The unread contents of one message. Every method fails rather than read beyond them.
pub(crate) struct Reader<'buffer> {
    kind: u8,
    rest: &'buffer [u8],
}

impl<'buffer> Reader<'buffer> {
    pub(crate) const fn new(kind: u8, contents: &'buffer [u8]) -> Self {
        Self {
            kind,
            rest: contents,
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'buffer [u8], Error> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(Error::Truncated(self.kind))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Error::Truncated(self.kind))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads an unsigned count of two bytes.
    pub(crate) fn count(&mut self) -> Result<usize, Error> {
        self.array().map(u16::from_be_bytes).map(usize::from)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a string and its terminating zero byte.
    pub(crate) fn string(&mut self) -> Result<&'buffer str, Error> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Error::UnterminatedString(self.kind))?;
        let (head, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        utf8(head)
    }

    pub(crate) const fn remaining(&self) -> &'buffer [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails unless the message ends here.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Error::TrailingBytes(self.kind))
        }
    }
}

/// Checks that text is UTF-8. It may contain zero bytes.
fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|error| Error::InvalidUtf8(bytes[error.valid_up_to()]))
}

/// Checks that text can be stored: UTF-8 without a zero byte.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Error> {
    if bytes.contains(&0) {
        return Err(Error::NulInText);
    }
    utf8(bytes)
}
