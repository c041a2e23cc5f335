//! Startup packets: the first packets of a connection, which have no type byte.
//!
//! A client may first ask for encryption, then either starts a session or asks the server
//! to cancel another session's statement.

use crate::reader::Reader;
use crate::{Error, Limits};

/// Bytes of the length field before the contents.
pub const HEADER: usize = 4;

const SSL_REQUEST: u32 = 1234 << 16 | 5679;
const GSS_ENCRYPTION_REQUEST: u32 = 1234 << 16 | 5680;
const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;

/// The type under which errors name such a packet, which has no type byte.
const KIND: u8 = b'0';

/// A version of the protocol that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// 3.0, since PostgreSQL 7.4.
    V3_0,
    /// 3.2, since PostgreSQL 18: longer cancel keys.
    V3_2,
}

impl Protocol {
    /// The version number on the wire.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::V3_0 => 3 << 16,
            Self::V3_2 => 3 << 16 | 2,
        }
    }
}

/// A client's request to start a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<'buffer> {
    /// The protocol of the session: the newest that both sides speak.
    pub protocol: Protocol,
    /// Whether the server must send NegotiateProtocolVersion, because the client asked for
    /// another minor version or for protocol options.
    pub negotiate: bool,
    /// The protocol options that the client asked for. The server supports none.
    pub options: Vec<&'buffer str>,
    /// The parameters, user and database among them, in the order sent.
    pub parameters: Vec<(&'buffer str, &'buffer str)>,
}

impl Start<'_> {
    /// The last value given for a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().rev();
        found.find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// A startup packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'buffer> {
    /// A request for TLS. The server answers with one byte; another packet follows.
    SslRequest,
    /// A request for GSSAPI encryption, answered in the same way.
    GssEncryptionRequest,
    /// A request to cancel another session's statement, if the secret is right. The server
    /// never answers it.
    Cancel {
        /// Process id of the other session, from its key data.
        process_id: i32,
        /// Secret of the other session, from its key data.
        secret: &'buffer [u8],
    },
    /// A request to start a session.
    Start(Start<'buffer>),
}

/// The contents of the packet at the start of `bytes`, if it is complete.
pub fn cut(bytes: &[u8]) -> Result<Option<&[u8]>, Error> {
    let Some(length) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(size) if (8..=Limits::STARTUP).contains(&size) => Ok(bytes.get(HEADER..size)),
        _ => Err(Error::StartupLength(length)),
    }
}

impl<'buffer> Packet<'buffer> {
    /// Decodes the contents of one packet.
    pub fn decode(contents: &'buffer [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(KIND, contents);
        let number = reader.u32().map_err(malformed)?;
        let plain = |reader: Reader<'_>, packet| reader.end().map(|()| packet).map_err(malformed);
        match number {
            SSL_REQUEST => plain(reader, Self::SslRequest),
            GSS_ENCRYPTION_REQUEST => plain(reader, Self::GssEncryptionRequest),
            CANCEL_REQUEST => {
                let process_id = reader.i32().map_err(malformed)?;
                let secret = reader.remaining();
                if !(4..=256).contains(&secret.len()) {
                    return Err(Error::Startup("invalid length of cancel key"));
                }
                Ok(Self::Cancel { process_id, secret })
            }
            number => {
                let (major, minor) = ((number >> 16) as u16, (number & 0xffff) as u16);
                if major != 3 {
                    return Err(Error::Version { major, minor });
                }
                start(minor, reader).map(Self::Start)
            }
        }
    }
}

fn start<'buffer>(minor: u16, mut reader: Reader<'buffer>) -> Result<Start<'buffer>, Error> {
    let mut start = Start {
        protocol: if minor < 2 {
            Protocol::V3_0
        } else {
            Protocol::V3_2
        },
        negotiate: !matches!(minor, 0 | 2),
        options: Vec::new(),
        parameters: Vec::new(),
    };
    loop {
        let name = reader.string().map_err(unterminated)?;
        if name.is_empty() {
            break;
        }
        let value = reader.string().map_err(unterminated)?;
        if name.starts_with("_pq_.") {
            start.options.push(name);
            start.negotiate = true;
        } else {
            start.parameters.push((name, value));
        }
    }
    if !reader.is_empty() {
        return Err(Error::Startup("expected terminator as last byte"));
    }
    Ok(start)
}

fn malformed(_: Error) -> Error {
    Error::Startup("its length does not fit its request code")
}

fn unterminated(error: Error) -> Error {
    match error {
        Error::InvalidUtf8(_) => Error::Startup("a parameter is not UTF-8"),
        _ => Error::Startup("a parameter has no end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u32, rest: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes(), rest].concat()
    }

    #[test]
    fn reads_a_session_start() {
        let contents = packet(3 << 16, b"user\0ada\0database\0bank\0\0");
        let Ok(Packet::Start(start)) = Packet::decode(&contents) else {
            panic!("a good packet")
        };
        assert_eq!(start.parameter("user"), Some("ada"));
        assert_eq!(start.parameter("database"), Some("bank"));
        assert_eq!(start.parameter("nothing"), None);
        assert!(!start.negotiate);
    }

    #[test]
    fn negotiates_down_to_what_both_speak() {
        for (minor, protocol, negotiate) in [
            (0, Protocol::V3_0, false),
            (1, Protocol::V3_0, true),
            (2, Protocol::V3_2, false),
            (9999, Protocol::V3_2, true),
        ] {
            let contents = packet(3 << 16 | minor, b"user\0ada\0\0");
            let Ok(Packet::Start(start)) = Packet::decode(&contents) else {
                panic!("minor versions are negotiable")
            };
            assert_eq!((start.protocol, start.negotiate), (protocol, negotiate));
        }
        let contents = packet(2 << 16, b"user\0ada\0\0");
        let refused = Error::Version { major: 2, minor: 0 };
        assert_eq!(Packet::decode(&contents), Err(refused));
    }

    #[test]
    fn unknown_protocol_options_are_named_in_the_negotiation() {
        let contents = packet(3 << 16, b"_pq_.fast\0on\0user\0ada\0\0");
        let Ok(Packet::Start(start)) = Packet::decode(&contents) else {
            panic!("options are negotiable")
        };
        assert_eq!(start.options, ["_pq_.fast"]);
        assert!(start.negotiate);
        assert_eq!(start.parameters, [("user", "ada")]);
    }

    #[test]
    fn malformed_packets_are_refused() {
        for rest in [
            &b""[..],
            b"user",
            b"user\0",
            b"user\0ada",
            b"user\0ada\0",
            b"user\0ada\0\0more",
            b"us\xffer\0ada\0\0",
        ] {
            let refused = Packet::decode(&packet(3 << 16, rest)).unwrap_err();
            assert!(matches!(refused, Error::Startup(_)), "{rest:?}: {refused}");
            assert!(refused.ends_connection());
        }
        for number in [SSL_REQUEST, GSS_ENCRYPTION_REQUEST] {
            assert!(Packet::decode(&packet(number, b"x")).is_err());
        }
        assert!(Packet::decode(&packet(CANCEL_REQUEST, b"\0\0\0\x01abc")).is_err());
        assert!(Packet::decode(&packet(CANCEL_REQUEST, &[7; 4 + 257])).is_err());
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_at_once() {
        for length in [0, 4, 7, 10_001, -1, i32::MAX, i32::MIN] {
            let refused = Error::StartupLength(length);
            assert_eq!(cut(&length.to_be_bytes()), Err(refused));
        }
        assert_eq!(cut(b"\0\0\0\x08\0\0"), Ok(None));
        assert!(cut(b"GET / HTTP/1.1\r\n").is_err());
    }
}
