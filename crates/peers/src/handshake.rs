//! The handshake: the connecting node sends a hello, the accepting node answers.
//!
//! ```text
//!   hello   magic 8 | oldest 2 | newest 2 | length 2 | 0 2
//!           | cluster 16 | sender 8 | addressee 8
//!           | purpose 1 | port 2 | address 16 | newcomer 8
//!           | announcement 37 | length 1, name … | protocol 1 | … | checksum 4
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
//! *name* sends zeros, and the name after the announcement. A node of a cluster whose protocol
//! is not `leader` sends its number after the name, however short that is. A *newcomer*, which has
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
use coeval_types::Protocol;
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
    /// The protocol of the sender's cluster; `None` for one that this build does not know.
    pub protocol: Option<Protocol>,
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
    let (name, after) = rest.split_at_checked(usize::from(length))?;
    *rest = after;
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
        let protocol = self.protocol.unwrap_or_default();
        let is_usual = protocol == Protocol::default();
        let name = name.or((!is_usual).then_some(""));
        let nothing = name.map(|_| Announcement::NOTHING);
        if let Some(announced) = self.announced.or(nothing) {
            put_announcement(&mut bytes, &announced);
        }
        if let Some(name) = name {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        if !is_usual {
            bytes.push(protocol.code());
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
        let protocol = name.and_then(|_| take(&mut rest));
        let [protocol] = protocol.unwrap_or([Protocol::default().code()]);
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
            protocol: Protocol::of_code(protocol),
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
        if self.protocol != Some(members.protocol) {
            let theirs = self
                .protocol
                .map_or("one that it does not know", Protocol::name);
            let words = format!(
                "node {} is of a cluster of the protocol {}, node {node} of one of {theirs}; a \
                 cluster has the protocol with which it was founded",
                own.node, members.protocol
            );
            return refuse(Reason::Protocol, words);
        }
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
mod tests;
