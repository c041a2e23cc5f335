//! One rule of an access file: the clients that it matches, and the authentication method
//! that it asks of them.

use std::net::IpAddr;

use super::Applicant;

/// How a client must authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// The client need not authenticate.
    Trust,
    /// The client must prove a password, by SCRAM-SHA-256.
    Scram,
    /// The server refuses the client.
    Reject,
}

impl Method {
    /// The method's name in an access file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
            Self::Reject => "reject",
        }
    }
}

/// The connections that a rule matches, by transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Every connection over TCP.
    Host,
    /// Connections with TLS.
    WithTls,
    /// Connections without TLS.
    WithoutTls,
    /// Connections over a Unix socket; the server has none.
    Local,
}

/// The database or role names that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Every name.
    All,
    /// The database with the same name as the user.
    SameUser,
    /// A database with the name of a role that the user is a member of.
    SameRole,
    /// This role, and every member of it.
    Group(String),
    /// Exactly this name.
    Exactly(String),
}

/// The client addresses that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    /// Every address.
    All,
    /// This machine's loopback interface.
    Loopback,
    /// Addresses with these leading bits.
    Network {
        /// The leading bits; the other bits are zero.
        address: IpAddr,
        /// The number of leading bits that are compared.
        bits: u32,
    },
}

impl Addresses {
    /// The network of these leading bits, if the address is at least that wide.
    pub(super) fn network(address: IpAddr, bits: u32) -> Option<Self> {
        let width = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (bits <= width).then(|| Self::Network {
            address: masked(address, bits),
            bits,
        })
    }

    fn contain(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::All => true,
            Self::Loopback => address.is_loopback(),
            Self::Network {
                address: network,
                bits,
            } => network.is_ipv4() == address.is_ipv4() && masked(address, bits) == network,
        }
    }

    /// Whether these addresses may include one of another machine.
    fn reach_others(self) -> bool {
        match self {
            Self::All => true,
            Self::Loopback => false,
            Self::Network { address, bits } => match address {
                IpAddr::V4(address) => !(address.is_loopback() && bits >= 8),
                IpAddr::V6(address) => !(address.is_loopback() && bits == 128),
            },
        }
    }
}

/// The address with all but its first `bits` bits set to zero.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// A rule of the access file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The rule's line number in the file, from 1.
    pub(crate) line: usize,
    pub(super) connection: Connection,
    pub(super) databases: Vec<Name>,
    pub(super) users: Vec<Name>,
    pub(super) addresses: Addresses,
    /// The authentication method that the rule asks for.
    pub(crate) method: Method,
}

impl Rule {
    /// Whether the rule matches this client.
    pub(super) fn fits(&self, applicant: &Applicant<'_>) -> bool {
        let connection = match self.connection {
            Connection::Host => true,
            Connection::WithTls => applicant.tls,
            Connection::WithoutTls => !applicant.tls,
            Connection::Local => false,
        };
        let belongs = |group: &str| applicant.groups.iter().any(|each| each == group);
        let database = |name: &Name| match name {
            Name::All => true,
            Name::SameUser => applicant.database == applicant.user,
            Name::SameRole => belongs(applicant.database),
            Name::Exactly(name) | Name::Group(name) => name == applicant.database,
        };
        let user = |name: &Name| match name {
            Name::All => true,
            Name::Group(group) => belongs(group),
            Name::Exactly(name) => name == applicant.user,
            Name::SameUser | Name::SameRole => false,
        };
        connection
            && self.addresses.contain(applicant.address)
            && self.databases.iter().any(database)
            && self.users.iter().any(user)
    }

    /// Whether the rule may match a client of another machine.
    pub(super) fn reaches_others(&self) -> bool {
        self.connection != Connection::Local && self.addresses.reach_others()
    }
}
