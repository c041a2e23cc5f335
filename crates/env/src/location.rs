//! Locations: a host and a port, where the host is an address or a name.
//!
//! ```text
//!   192.0.2.7:7001   [2001:db8::7]:7001   db1.example.com:7001   localhost:7001
//! ```
//!
//! A location shows what it was read from. A name is looked up each time it is used
//! ([`resolve`](crate::resolve)), so a machine may move. `localhost` is this machine, whatever
//! a resolver says, with the address of IPv4 before that of IPv6. A name whose last part is a
//! number is refused, since it is a mistyped address.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// The most characters of a host name.
const MAX_NAME: usize = 253;
/// The most characters of one of its parts.
const MAX_LABEL: usize = 63;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location(Kind);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Address(SocketAddr),
    Name { host: Arc<str>, port: u16 },
}

/// A text is no location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationError(String);

impl fmt::Display for LocationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:?} is not a host and a port, as db1.example.com:7001, 192.0.2.7:7001 or \
             [2001:db8::7]:7001",
            self.0
        )
    }
}

impl std::error::Error for LocationError {}

/// Whether a text can be the name of a host.
fn is_name(host: &str) -> bool {
    let labels = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(is_allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    labels.len() <= MAX_NAME
        && labels.split('.').all(is_label)
        && labels
            .rsplit('.')
            .next()
            .is_some_and(|last| !is_number(last))
}

impl Location {
    /// A host by its name or address (an IPv6 address without brackets), and a port.
    pub fn new(host: &str, port: u16) -> Result<Self, LocationError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Self::from((address, port)));
        }
        match is_name(host) {
            true => Ok(Self(Kind::Name {
                host: host.into(),
                port,
            })),
            false => Err(LocationError(host.to_owned())),
        }
    }

    /// The address, if the host is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Address(address) => Some(*address),
            Kind::Name { .. } => None,
        }
    }

    /// The host's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Address(_) => None,
            Kind::Name { host, .. } => Some(host),
        }
    }

    /// The host, as a name or an address.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.0 {
            Kind::Address(address) => address.ip().to_string(),
            Kind::Name { host, .. } => host.to_string(),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.0 {
            Kind::Address(address) => address.port(),
            Kind::Name { port, .. } => *port,
        }
    }

    /// Whether only this machine can reach it: a loopback address, or `localhost`. The
    /// addresses of another name are not known before it is looked up.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.0 {
            Kind::Address(address) => address.ip().is_loopback(),
            Kind::Name { host, .. } => is_localhost(host),
        }
    }

    /// The addresses that are known without looking a name up.
    pub(crate) fn known(&self) -> Option<Vec<SocketAddr>> {
        let Kind::Name { host, port } = &self.0 else {
            return self.address().map(|address| vec![address]);
        };
        is_localhost(host).then(|| {
            vec![
                SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
                SocketAddr::from((Ipv6Addr::LOCALHOST, *port)),
            ]
        })
    }
}

fn is_localhost(host: &str) -> bool {
    host.strip_suffix('.')
        .unwrap_or(host)
        .eq_ignore_ascii_case("localhost")
}

/// The error of a name that has no address.
pub(crate) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let wrong = || LocationError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match (is_port && is_name(host), port.parse()) {
            (true, Ok(port)) => Self::new(host, port),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Address(address) => address.fmt(formatter),
            Kind::Name { host, port } => write!(formatter, "{host}:{port}"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<SocketAddr> for Location {
    fn from(address: SocketAddr) -> Self {
        Self(Kind::Address(address))
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Location {
    fn from(address: (I, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_shows_what_it_was_read_from() {
        for (text, host, port, is_loopback) in [
            ("192.0.2.7:7001", "192.0.2.7", 7001, false),
            ("127.0.0.9:0", "127.0.0.9", 0, true),
            ("[2001:db8::7]:7001", "2001:db8::7", 7001, false),
            ("[::1]:1", "::1", 1, true),
            ("db1.example.com:7001", "db1.example.com", 7001, false),
            ("Db_1:65535", "Db_1", 65535, false),
            ("db-1.:7001", "db-1.", 7001, false),
            ("localhost:7001", "localhost", 7001, true),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.to_string(), text);
            assert_eq!((&*location.host(), location.port()), (host, port));
            assert_eq!(location.is_loopback(), is_loopback, "{text}");
            assert_eq!(Location::new(host, port), Ok(location), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        let long = format!("{}:1", ["a"; 128].join("."));
        let label = format!("{}:1", "a".repeat(64));
        for wrong in [
            "",
            "db1",
            ":7001",
            "db1:",
            "db1:+1",
            "db1:65536",
            "10.0.0.256:1",
            "127.1:1",
            "db..1:1",
            "2001:db8::7:1",
            "-db:1",
            "db-:1",
            "d b:1",
            "db'1:1",
            "dbä:1",
            "[db1]:1",
            &long,
            &label,
        ] {
            let refused = wrong.parse::<Location>().unwrap_err().to_string();
            assert!(refused.contains("as db1.example.com:7001"), "{refused}");
        }
    }

    #[test]
    fn this_machine_is_known_without_a_resolver() {
        let known = |text: &str| text.parse::<Location>().unwrap().known();
        let both = ["127.0.0.1:7001", "[::1]:7001"].map(|text| text.parse().unwrap());
        assert_eq!(known("LOCALHOST:7001"), Some(both.to_vec()));
        assert_eq!(known("[::1]:7001"), Some(both[1..].to_vec()));
        assert_eq!(known("db1:7001"), None);
    }
}
