//! The handshake: the connecting node sends a hello, the accepting node answers.
//!
//! ```text
//!   hello   magic 8 | oldest 2 | newest 2 | length 2 | 0 2
//!           | cluster 16 | sender 8 | addressee 8
//!           | purpose 1 | port 2 | address 16 | newcomer 8
//!           | announcement 37 | length 1, name … | … | checksum 4
//!   answer  magic 8 | version 2 | refusal 1 | 0 1 | length 2 | 0 2
//!           | cluster 16 | sender 8 | words …, or announcement 37 | checksum 4
//!
//!   announcement   reads 4 | directory 16 | founds 1 | founders 16
//! ```
//!
//! Numbers are little-endian; a length counts the bytes after the first 16, the checksum
//! (CRC-32C, of everything before it) included. Oldest and newest are the versions that the
//! sender speaks. The accepting node chooses the newest version that both speak. Port and
//! address say where the sender listens for other nodes: IPv6, or IPv4 mapped into it; an
//! address of zeros means the one that the connection comes from. A sender whose host has a
//! *name* sends zeros, and the name after the announcement. A *newcomer*, which has
//! joined with an empty directory and was not admitted yet, sends a number other than 0.
//!
//! Version 1 had neither purpose nor address, and is no longer supported. Since version 5
//! both sides *announce* what cluster version they read, the identity of their data
//! directory, whether they are founding the cluster, and the digest of the founders that
//! they have written down. A sender of version 4 announces nothing, and a reader of version 4
//! skips what follows the newcomer, and the words of an acceptance: so a node of this
//! build speaks version 4 with it, as that build does. The announcement is what the
//! cluster version waits for: nothing of a later cluster version is sent to a node that
//! has not announced that it reads it.
//!
//! All versions keep the first 16 bytes, the order of the fields above, and the checksum at
//! the end; a later version may add fields before it. So a sender without a common version
//! gets a refusal that it can read.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use coeval_env::Location;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::identity::{Announcement, ClusterId, DirectoryId, Identity, Members, NodeId};
use crate::refusal::{MAX_WORDS, Reason, Refusal};

/// The first bytes of every connection between nodes.
pub const MAGIC: [u8; 8] = *b"COEVPEER";
/// The protocol versions that this build speaks.
pub const VERSIONS: RangeInclusive<u16> = 4..=5;
/// The version from which on both sides announce themselves.
pub const ANNOUNCED: u16 = 5;

const HEAD_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
const HELLO_BYTES: usize = 16 + 8 + 8 + CHECKSUM_BYTES;
const ANSWER_BYTES: usize = 16 + 8 + CHECKSUM_BYTES;
/// Maximum number of bytes after a head.
const MAX_BYTES: usize = ANSWER_BYTES + MAX_WORDS;

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side does not speak this protocol.
    #[error("the other side does not speak the protocol of Coeval's nodes")]
    Magic,
    /// The length is one that no version has.
    #[error("a length of {0} bytes, which no handshake has")]
    Length(usize),
    /// The checksum of a message does not match its bytes.
    #[error("the handshake is damaged")]
    Checksum,
    /// The other side accepted with a version that was not offered.
    #[error("the other side chose version {0} of the protocol, which was not offered")]
    Version(u16),
    /// The connection ended within the handshake.
    #[error("the connection ended within the handshake")]
    Ended,
    /// Reading or writing the connection failed.
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Io(error),
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Frames, from the connecting to the accepting node.
    Frames,
    /// Bytes, in both directions.
    Stream,
    /// A purpose that this version does not know.
    Other(u8),
}

impl Purpose {
    fn encode(self) -> u8 {
        match self {
            Self::Frames => 0,
            Self::Stream => 1,
            Self::Other(byte) => byte,
        }
    }

    fn decode(byte: u8) -> Self {
        match byte {
            0 => Self::Frames,
            1 => Self::Stream,
            other => Self::Other(other),
        }
    }
}

/// The first message of a connection, from the connecting node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions that the sender speaks.
    pub versions: RangeInclusive<u16>,
    /// The sender's identity.
    pub from: Identity,
    /// The node that the sender means to reach.
    pub to: NodeId,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// Where the sender listens for other nodes. Port 0 means nowhere. A reader of version 4
    /// reads a name as the address of zeros.
    pub listens: Location,
    /// The random number of a newcomer that was not admitted yet, chosen at each start.
    pub newcomer: Option<NonZeroU64>,
    /// What the sender announces of itself; `None` from a sender of version 4.
    pub announced: Option<Announcement>,
}

/// The accepting node's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The accepting node's identity.
    pub from: Identity,
    /// What the accepting node announces of itself, with an acceptance of version 5.
    pub announced: Option<Announcement>,
    /// The version of the connection, or the reason of the refusal.
    pub verdict: Result<u16, Refusal>,
}

/// Reads a number at the beginning.
fn take<const BYTES: usize>(bytes: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (&taken, rest) = bytes.split_first_chunk::<BYTES>()?;
    *bytes = rest;
    Some(taken)
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() - HEAD_BYTES + CHECKSUM_BYTES;
    bytes[12..14].copy_from_slice(&(length as u16).to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads a head and the body after it: at most some hundred bytes.
async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    least: usize,
) -> Result<(u16, u16, Vec<u8>), HandshakeError> {
    let mut head = [0; HEAD_BYTES];
    // A peer of another protocol may send less than a head, and wait.
    let (magic, numbers) = head.split_at_mut(MAGIC.len());
    stream.read_exact(magic).await?;
    if magic != MAGIC {
        return Err(HandshakeError::Magic);
    }
    stream.read_exact(numbers).await?;
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let length = usize::from(number(12));
    if !(least..=MAX_BYTES).contains(&length) {
        return Err(HandshakeError::Length(length));
    }
    let mut bytes = head.to_vec();
    bytes.resize(HEAD_BYTES + length, 0);
    stream.read_exact(&mut bytes[HEAD_BYTES..]).await?;
    let (signed, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32c::crc32c(signed).to_le_bytes() != checksum {
        return Err(HandshakeError::Checksum);
    }
    let numbers = (number(8), number(10));
    bytes.truncate(HEAD_BYTES + length - CHECKSUM_BYTES);
    bytes.drain(..HEAD_BYTES);
    Ok((numbers.0, numbers.1, bytes))
}

fn identity(rest: &mut &[u8]) -> Option<Identity> {
    Some(Identity {
        cluster: ClusterId(u128::from_le_bytes(take(rest)?)),
        node: NodeId(u64::from_le_bytes(take(rest)?)),
    })
}

fn put_identity(bytes: &mut Vec<u8>, identity: &Identity) {
    bytes.extend_from_slice(&identity.cluster.0.to_le_bytes());
    bytes.extend_from_slice(&identity.node.0.to_le_bytes());
}

fn put_announcement(bytes: &mut Vec<u8>, announced: &Announcement) {
    let id = |id: Option<DirectoryId>| id.map_or(0, |id| id.0).to_le_bytes();
    bytes.extend_from_slice(&announced.reads.to_le_bytes());
    bytes.extend_from_slice(&id(announced.directory));
    bytes.push(u8::from(announced.founds));
    bytes.extend_from_slice(&announced.founders.unwrap_or(0).to_le_bytes());
}

fn announcement(rest: &mut &[u8]) -> Option<Announcement> {
    let id = |bytes| Some(u128::from_le_bytes(bytes)).filter(|id| *id != 0);
    Some(Announcement {
        reads: u32::from_le_bytes(take(rest)?),
        directory: id(take(rest)?).map(DirectoryId),
        founds: take::<1>(rest)? != [0],
        founders: id(take(rest)?),
    })
}

/// The name of the host where the sender of a hello listens.
fn name<'bytes>(rest: &mut &'bytes [u8]) -> Option<&'bytes str> {
    let [length] = take(rest)?;
    let name = rest.get(..usize::from(length))?;
    std::str::from_utf8(name).ok()
}

impl Hello {
    /// Encodes the hello.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.versions.start().to_le_bytes());
        bytes.extend_from_slice(&self.versions.end().to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        put_identity(&mut bytes, &self.from);
        bytes.extend_from_slice(&self.to.0.to_le_bytes());
        bytes.push(self.purpose.encode());
        bytes.extend_from_slice(&self.listens.port().to_le_bytes());
        let address = match self.listens.address().map(|address| address.ip()) {
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped(),
            Some(IpAddr::V6(address)) => address,
            None => Ipv6Addr::UNSPECIFIED,
        };
        bytes.extend_from_slice(&address.octets());
        let newcomer = self.newcomer.map_or(0, NonZeroU64::get);
        bytes.extend_from_slice(&newcomer.to_le_bytes());
        let name = self.listens.name();
        let name = name.filter(|_| *self.versions.end() >= ANNOUNCED);
        let nothing = name.map(|_| Announcement::NOTHING);
        if let Some(announced) = self.announced.or(nothing) {
            put_announcement(&mut bytes, &announced);
        }
        if let Some(name) = name {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        seal(bytes)
    }

    /// Reads a hello. Its version may be one that this build does not speak.
    pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Self, HandshakeError> {
        let (oldest, newest, body) = read(stream, HELLO_BYTES).await?;
        let mut rest = &body[..];
        let short = || HandshakeError::Length(body.len());
        let from = identity(&mut rest).ok_or_else(short)?;
        let to = take(&mut rest).ok_or_else(short)?;
        // A sender of version 1 sends no more fields. `judge` refuses it.
        let [purpose] = take(&mut rest).unwrap_or_default();
        let port = u16::from_le_bytes(take(&mut rest).unwrap_or_default());
        let address = Ipv6Addr::from(take::<16>(&mut rest).unwrap_or_default());
        let newcomer = u64::from_le_bytes(take(&mut rest).unwrap_or_default());
        let announced = Some(newest).filter(|newest| *newest >= ANNOUNCED);
        let announced = announced.and_then(|_| announcement(&mut rest));
        let name = announced.and_then(|_| name(&mut rest));
        let named = name.and_then(|name| Location::new(name, port).ok());
        let named = named.filter(|named| named.name().is_some());
        Ok(Self {
            versions: oldest..=newest,
            from,
            to: NodeId(u64::from_le_bytes(to)),
            purpose: Purpose::decode(purpose),
            listens: named.unwrap_or_else(|| (address.to_canonical(), port).into()),
            newcomer: NonZeroU64::new(newcomer),
            announced,
        })
    }

    /// Decides whether the sender is accepted, and with which version. The caller verifies
    /// the sender's certificate.
    pub fn judge(&self, own: &Identity, members: &Members) -> Result<u16, Refusal> {
        let refuse = |reason, words: String| Err(Refusal::new(reason, words));
        let version = *self.versions.end().min(VERSIONS.end());
        if !self.versions.contains(&version) || !VERSIONS.contains(&version) {
            let words = format!(
                "no version of the protocol in common: node {} speaks {}, node {} speaks {}",
                self.from.node,
                show(&self.versions),
                own.node,
                show(&VERSIONS),
            );
            return refuse(Reason::Version, words);
        }
        let node = self.from.node;
        if self.from.cluster != own.cluster {
            let words = format!(
                "node {} is of cluster {}, node {node} of cluster {}",
                own.node, own.cluster, self.from.cluster
            );
            return refuse(Reason::Cluster, words);
        }
        if node == own.node {
            let words = format!(
                "{node} is the id of the node that was asked; every node has an id of its own"
            );
            return refuse(Reason::OwnId, words);
        }
        if self.to != own.node {
            let words = format!("this is node {}, not node {}", own.node, self.to);
            return refuse(Reason::Addressee, words);
        }
        if members.removed.contains(&node) {
            let words = format!(
                "node {node} has been removed from the cluster; a node that comes back takes a \
                 new id"
            );
            return refuse(Reason::Removed, words);
        }
        if !members.addresses.contains_key(&node) && !members.expected.contains(&node) {
            return Err(self.unknown(own));
        }
        if self.newcomer.is_some() && members.voters.contains(&node) {
            let words = format!(
                "node {node} votes in this cluster, and has joined it with an empty directory: \
                 what it had acknowledged is lost; have it removed, and add its machine under \
                 an id that was never used"
            );
            return refuse(Reason::Forgotten, words);
        }
        members.judge(node, own.node, self.announced.as_ref())?;
        if let Purpose::Other(purpose) = self.purpose {
            let words = format!("node {} knows no purpose {purpose}", own.node);
            return refuse(Reason::Other, words);
        }
        Ok(version)
    }

    /// The refusal of a sender that is no member.
    pub(crate) fn unknown(&self, own: &Identity) -> Refusal {
        let words = format!(
            "node {} knows no member with the id {}",
            own.node, self.from.node
        );
        Refusal::new(Reason::Unknown, words)
    }
}

fn show(versions: &RangeInclusive<u16>) -> String {
    match (versions.start(), versions.end()) {
        (oldest, newest) if oldest == newest => oldest.to_string(),
        (oldest, newest) => format!("{oldest} to {newest}"),
    }
}

impl Answer {
    /// Encodes the answer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (version, code, words) = match &self.verdict {
            Ok(version) => (*version, 0, ""),
            Err(refusal) => (0, refusal.reason.encode(), refusal.words()),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&[code, 0, 0, 0, 0, 0]);
        put_identity(&mut bytes, &self.from);
        bytes.extend_from_slice(words.as_bytes());
        if let (Ok(version), Some(announced)) = (&self.verdict, &self.announced)
            && *version >= ANNOUNCED
        {
            put_announcement(&mut bytes, announced);
        }
        seal(bytes)
    }

    /// Reads an answer.
    pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Self, HandshakeError> {
        let (version, code, body) = read(stream, ANSWER_BYTES).await?;
        let mut rest = &body[..];
        let from = identity(&mut rest).ok_or(HandshakeError::Length(body.len()))?;
        let verdict = match Reason::decode(code.to_le_bytes()[0]) {
            None if VERSIONS.contains(&version) => Ok(version),
            None => return Err(HandshakeError::Version(version)),
            Some(reason) => Err(Refusal::heard(reason, &String::from_utf8_lossy(rest))),
        };
        let is_announced = verdict.as_ref().is_ok_and(|version| *version >= ANNOUNCED);
        let announced = Some(&mut rest).filter(|_| is_announced);
        Ok(Self {
            from,
            announced: announced.and_then(announcement),
            verdict,
        })
    }
}

/// Sends a hello, and waits for the answer.
pub async fn greet<S>(stream: &mut S, hello: &Hello) -> Result<Answer, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(&hello.encode()).await?;
    stream.flush().await?;
    Answer::read(stream).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            versions: VERSIONS,
            from: identity_of(3),
            to: NodeId(1),
            purpose: Purpose::Stream,
            listens: ([10, 0, 0, 3], 7003).into(),
            newcomer: None,
            announced: Some(announced()),
        }
    }

    fn announced() -> Announcement {
        Announcement {
            reads: 2,
            directory: Some(DirectoryId(33)),
            founds: false,
            founders: Some(11),
        }
    }

    /// A hello as a build that speaks no more than version 4 sends it.
    fn old_hello() -> Hello {
        Hello {
            versions: 4..=4,
            announced: None,
            ..hello()
        }
    }

    fn identity_of(node: u64) -> Identity {
        Identity {
            cluster: ClusterId(0xc0e7a1),
            node: NodeId(node),
        }
    }

    fn members() -> Members {
        let address = SocketAddr::from(([127, 0, 0, 1], 7000));
        Members {
            addresses: (1..=3).map(|node| (NodeId(node), address.into())).collect(),
            expected: BTreeSet::from([NodeId(5)]),
            removed: BTreeSet::from([NodeId(4)]),
            voters: BTreeSet::from([NodeId(3)]),
            ..Members::default()
        }
    }

    /// Reading from a slice never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("a slice keeps nobody waiting"),
        }
    }

    #[test]
    fn each_refusal_has_its_reason_and_says_it() {
        let own = identity_of(1);
        assert_eq!(hello().judge(&own, &members()), Ok(5));
        assert_eq!(old_hello().judge(&own, &members()), Ok(4));
        let expected = Hello {
            from: identity_of(5),
            ..hello()
        };
        assert_eq!(expected.judge(&own, &members()), Ok(5));
        let versions = |versions| Hello {
            versions,
            ..hello()
        };
        assert_eq!(versions(0..=9).judge(&own, &members()), Ok(5));
        let from = |node| Hello {
            from: identity_of(node),
            ..hello()
        };
        let mut other_cluster = hello();
        other_cluster.from.cluster = ClusterId(2);
        let other_purpose = Hello {
            purpose: Purpose::Other(9),
            ..hello()
        };
        let newcomer = |node| Hello {
            from: identity_of(node),
            newcomer: NonZeroU64::new(7),
            ..hello()
        };
        assert_eq!(newcomer(2).judge(&own, &members()), Ok(5));
        let other_addressee = Hello {
            to: NodeId(2),
            ..hello()
        };
        for (hello, reason, words) in [
            (
                versions(6..=7),
                Reason::Version,
                "node 3 speaks 6 to 7, node 1 speaks 4 to 5",
            ),
            (versions(0..=0), Reason::Version, "node 3 speaks 0"),
            (versions(RangeInclusive::new(6, 1)), Reason::Version, ""),
            (
                other_cluster,
                Reason::Cluster,
                "node 3 of cluster 00000000000000000000000000000002",
            ),
            (
                newcomer(3),
                Reason::Forgotten,
                "what it had acknowledged is lost",
            ),
            (from(1), Reason::OwnId, "every node has an id of its own"),
            (
                other_addressee,
                Reason::Addressee,
                "this is node 1, not node 2",
            ),
            (from(4), Reason::Removed, "takes a new id"),
            (from(9), Reason::Unknown, "no member with the id 9"),
            (other_purpose, Reason::Other, "knows no purpose 9"),
        ] {
            let refusal = hello.judge(&own, &members()).unwrap_err();
            assert_eq!(refusal.reason, reason);
            assert!(refusal.words().contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_member_is_known_by_its_directory_and_by_what_it_reads() {
        let own = identity_of(1);
        let named = |id, version| Members {
            directories: [(NodeId(3), DirectoryId(id))].into(),
            version,
            ..members()
        };
        let said = |announced| Hello {
            announced: Some(announced),
            ..hello()
        };
        assert_eq!(hello().judge(&own, &named(33, 2)), Ok(5));
        let founds = Announcement {
            founds: true,
            ..announced()
        };
        // Its directory is known: it has crashed before it had founded.
        assert_eq!(said(founds).judge(&own, &named(33, 2)), Ok(5));
        let founding = Members {
            founds: true,
            ..members()
        };
        assert_eq!(said(founds).judge(&own, &founding), Ok(5));
        let founded = Members {
            founders: [(NodeId(3), DirectoryId(33))].into(),
            ..members()
        };
        assert_eq!(said(founds).judge(&own, &founded), Ok(5));
        // The log has come to name the directory of a founder that was left out.
        let adopted = Members {
            vouched: [NodeId(3)].into(),
            ..named(33, 2)
        };
        assert_eq!(hello().judge(&own, &adopted), Ok(5));
        for (hello, members, reason, words) in [
            (
                hello(),
                named(34, 2),
                Reason::Directory,
                "another directory",
            ),
            (
                old_hello(),
                named(33, 2),
                Reason::Reads,
                "node 3 says that it reads up to 1: it runs a build that reads no more",
            ),
            (
                hello(),
                named(33, 3),
                Reason::Reads,
                "node 3 says that it reads up to 2: its cluster_version_limit is 2, or",
            ),
            (
                hello(),
                Members {
                    vouched: [NodeId(3)].into(),
                    ..members()
                },
                Reason::Founded,
                "left out when the cluster was founded (--cluster-without 3)",
            ),
            (
                hello(),
                Members {
                    is_removed: true,
                    ..members()
                },
                Reason::Other,
                "node 1 has been removed from the cluster",
            ),
            (
                said(founds),
                members(),
                Reason::Founded,
                "what it had acknowledged is lost",
            ),
        ] {
            let refusal = hello.judge(&own, &members).unwrap_err();
            assert_eq!(refusal.reason, reason);
            assert!(refusal.words().contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_node_of_version_four_hears_what_it_has_always_heard() {
        let old = old_hello().encode();
        let new = hello().encode();
        let fields = 16 + HELLO_BYTES - CHECKSUM_BYTES + 1 + 2 + 16 + 8;
        assert_eq!(old.len(), fields + CHECKSUM_BYTES);
        assert_eq!(old[16..fields], new[16..fields]);
        let answer = |version| Answer {
            from: identity_of(1),
            announced: Some(announced()),
            verdict: Ok(version),
        };
        let (old, new) = (answer(4).encode(), answer(5).encode());
        assert_eq!(old.len(), HEAD_BYTES + ANSWER_BYTES);
        assert_eq!(new.len(), old.len() + 37);
        assert_eq!(now(Answer::read(&mut &old[..])).unwrap().announced, None);
    }

    #[test]
    fn both_read_back_what_they_say_and_find_every_flipped_bit() {
        let bytes = hello().encode();
        assert_eq!(now(Hello::read(&mut &bytes[..])).unwrap(), hello());
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(now(Hello::read(&mut &flipped[..])).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            let torn = now(Hello::read(&mut &bytes[..end]));
            assert!(matches!(torn, Err(HandshakeError::Ended)), "{torn:?}");
        }
        let refusal = Refusal::new(Reason::Removed, "gone");
        for verdict in [Ok(4), Ok(5), Err(refusal)] {
            let answer = Answer {
                from: identity_of(1),
                announced: verdict
                    .as_ref()
                    .ok()
                    .filter(|version| **version == 5)
                    .map(|_| announced()),
                verdict,
            };
            let bytes = answer.encode();
            assert_eq!(now(Answer::read(&mut &bytes[..])).unwrap(), answer);
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(now(Answer::read(&mut &flipped[..])).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_later_version_may_say_more() {
        let mut bytes = hello().encode();
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        bytes.extend_from_slice(b"and more");
        let bytes = seal(bytes);
        assert_eq!(now(Hello::read(&mut &bytes[..])).unwrap(), hello());
    }

    #[test]
    fn an_earlier_version_may_say_less_and_is_told_so() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[1, 0, 1, 0, 0, 0, 0, 0]);
        put_identity(&mut bytes, &identity_of(3));
        bytes.extend_from_slice(&1u64.to_le_bytes());
        let hello = now(Hello::read(&mut &seal(bytes)[..])).unwrap();
        let refusal = hello.judge(&identity_of(1), &members()).unwrap_err();
        assert_eq!(refusal.reason, Reason::Version);
    }

    #[test]
    fn addresses_of_both_kinds_come_back() {
        for listens in ["10.1.2.3:7001", "[2001:db8::1]:7001", "0.0.0.0:1", "[::]:0"] {
            let hello = Hello {
                listens: listens.parse().unwrap(),
                ..hello()
            };
            let read = now(Hello::read(&mut &hello.encode()[..])).unwrap();
            assert_eq!(read, hello, "{listens}");
        }
    }

    #[test]
    fn a_name_comes_back_and_an_earlier_version_reads_an_open_address() {
        let long = ["a".repeat(63).as_str(); 4].join(".")[2..].to_owned();
        for host in ["db1", "db1.example.com.", &long] {
            let hello = Hello {
                listens: Location::new(host, 7003).unwrap(),
                ..hello()
            };
            let mut bytes = hello.encode();
            let read = now(Hello::read(&mut &bytes[..])).unwrap();
            assert_eq!(read, hello);
            // As a build reads it that knows nothing after the newcomer.
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            bytes[10..12].copy_from_slice(&4u16.to_le_bytes());
            let read = now(Hello::read(&mut &seal(bytes)[..])).unwrap();
            assert_eq!(read.listens.to_string(), "[::]:7003");
            // A node that announces nothing else says where it listens.
            let silent = Hello {
                announced: None,
                ..hello
            };
            let read = now(Hello::read(&mut &silent.encode()[..])).unwrap();
            assert_eq!(read.listens, silent.listens);
            assert_eq!(read.announced, Some(Announcement::NOTHING));
        }
    }

    #[test]
    fn strangers_are_known_by_their_first_bytes() {
        for stranger in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
        ] {
            let error = now(Hello::read(&mut &stranger[..])).unwrap_err();
            assert!(matches!(error, HandshakeError::Magic), "{error}");
        }
        let mut lie = hello().encode();
        lie[12..14].copy_from_slice(&u16::MAX.to_le_bytes());
        let error = now(Hello::read(&mut &lie[..])).unwrap_err();
        assert!(matches!(error, HandshakeError::Length(65535)), "{error}");
    }

    #[test]
    fn a_version_that_was_not_offered_is_not_spoken() {
        let answer = Answer {
            from: identity_of(1),
            announced: None,
            verdict: Ok(6),
        };
        let error = now(Answer::read(&mut &answer.encode()[..])).unwrap_err();
        assert!(matches!(error, HandshakeError::Version(6)), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(rest: Vec<u8>) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&rest);
            let _ = now(Hello::read(&mut &bytes[..]));
            let _ = now(Answer::read(&mut &bytes[..]));
        }
    }
}
