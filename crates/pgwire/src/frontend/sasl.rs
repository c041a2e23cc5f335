//! SASLInitialResponse: the client's first answer to a request for SASL authentication.

use crate::Error;
use crate::frame::kind;
use crate::reader::Reader;

/// SASLInitialResponse: the chosen mechanism, and its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitial<'buffer> {
    /// The mechanism that the client chose.
    pub mechanism: &'buffer str,
    /// The mechanism's first message; `None` if the client sends none yet.
    pub message: Option<&'buffer [u8]>,
}

impl<'buffer> SaslInitial<'buffer> {
    /// Decodes the contents of a message of the type [`kind::PASSWORD`].
    pub fn decode(contents: &'buffer [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(kind::PASSWORD, contents);
        let mechanism = reader.string()?;
        let message = match reader.i32()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| Error::ParameterLength(length))?;
                Some(reader.bytes(length)?)
            }
        };
        reader.end()?;
        Ok(Self { mechanism, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mechanism_and_message() {
        let read = SaslInitial::decode(b"SCRAM-SHA-256\0\0\0\0\x03n,,").unwrap();
        assert_eq!(read.mechanism, "SCRAM-SHA-256");
        assert_eq!(read.message, Some(&b"n,,"[..]));
        let read = SaslInitial::decode(b"X\0\xff\xff\xff\xff").unwrap();
        assert_eq!(read.message, None);
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        for bad in [
            &b""[..],
            b"SCRAM",
            b"SCRAM\0",
            b"SCRAM\0\0\0\0\x04n,,",
            b"SCRAM\0\0\0\0\x02n,,",
            b"SCRAM\0\xff\xff\xff\xfe",
            b"SCRAM\0\x7f\xff\xff\xff",
            b"\xff\0\0\0\0\0",
        ] {
            assert!(SaslInitial::decode(bad).is_err(), "{bad:?}");
        }
    }
}
