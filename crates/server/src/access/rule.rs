//! One rule: whom it is about, and what it asks of them.

use std::net::IpAddr;

use super::Applicant;

/// How somebody has to show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Not at all.
    Trust,
    /// With a password, by SCRAM-SHA-256.
    Scram,
    /// They are not let in.
    Reject,
}

impl Method {
    /// As a file has it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
            Self::Reject => "reject",
        }
    }
}

/// Which connections a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Any over TCP.
    Host,
    /// Those with TLS.
    WithTls,
    /// Those without.
    WithoutTls,
    /// Those over a Unix socket, of which there are none.
    Local,
}

/// Which names a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// Any.
    All,
    /// The one that is the user's as well.
    SameUser,
    /// One of a role that the user belongs to.
    SameRole,
    /// A role, and everybody who belongs to it.
    Group(String),
    /// This one.
    Exactly(String),
}

/// Which addresses a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    /// Any.
    All,
    /// This machine's loopback interface.
    Loopback,
    /// Those whose first bits are these.
    Network {
        /// The first bits, the others zero.
        address: IpAddr,
        /// How many.
        bits: u32,
    },
}

impl Addresses {
    /// A network, if its address has so many bits.
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

    /// Whether an address of another machine may be among them.
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

/// The first bits of an address, the others zero.
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

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Where it stands.
    pub(crate) line: usize,
    pub(super) connection: Connection,
    pub(super) databases: Vec<Name>,
    pub(super) users: Vec<Name>,
    pub(super) addresses: Addresses,
    /// What it asks for.
    pub(crate) method: Method,
}

impl Rule {
    /// Whether it is about this one.
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

    /// Whether it may be about somebody on another machine.
    pub(super) fn reaches_others(&self) -> bool {
        self.connection != Connection::Local && self.addresses.reach_others()
    }
}
