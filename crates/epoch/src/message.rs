//! What nodes say to each other: one frame for each node and batch, with all that there is to
//! say.
//!
//! Frames may be lost, repeated, delayed and reordered. Whatever is not answered is said again
//! at a later tick, and whatever is said twice has one effect.
//!
//! | part | from | to | meaning |
//! | --- | --- | --- | --- |
//! | items | front end | back end | numbered operations of transactions, and aborts |
//! | taken | back end | front end | everything up to this number is here, these were refused |
//! | get, got, too old | front end, back end | | values of keys at a timestamp |
//! | want | front end | manager | a client waits for an epoch to close |
//! | switch | manager | front ends | draw nothing more up to this epoch; draw in that one |
//! | drained | front ends | manager | nothing is under way up to this epoch |
//! | collect, collected | manager, back end | | operations of transactions without a front end |
//! | seal, sealed | manager, back end | | write the closing record, with these decisions |
//! | closed | manager | all | the epochs up to this one are closed |
//! | greet, standing | manager, back end | | where are you? |
//! | join, return | front end, back end | manager | this is a new incarnation |
//! | enlist | a node | manager | this one holds nothing, and may have copies |
//! | copy, copied | back ends | | versions of a partition, for a copy that is being made |
//! | caught | back end | manager | the copy is whole, and on the disk |
//! | lost | manager | front end | no epoch is closed, for want of a copy of these partitions |
//! | configuration, behind | any | any | this is the newest; send me the newest |
//!
//! The barrier's messages (switch, drained, closed) go along a tree of front ends if the
//! configuration says so.

use std::sync::Arc;

use coeval_council::{NodeId, Term};

use crate::configuration::Configuration;
use crate::operation::{Found, Key, Operation, Write};
use crate::timestamp::{Epoch, EpochTimestamp, FrontEndId};

/// Everything that one node says to another at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The sender.
    pub from: NodeId,
    /// The start of the sender's program.
    pub incarnation: u64,
    /// The receiver.
    pub to: NodeId,
    /// The version of the sender's configuration.
    pub version: u64,
    /// The newest term of a manager that the sender has heard of.
    pub term: Term,
    /// What it says.
    pub parts: Vec<Part>,
}

/// A transaction's operations on one back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The transaction.
    pub at: EpochTimestamp,
    /// Number of different keys that the whole transaction writes.
    pub size: u32,
    /// The operations.
    pub writes: Arc<Vec<Write>>,
}

/// An item of the stream from a front end to a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Store these operations.
    Put(Piece),
    /// Take the transaction back, and let none of it in any more.
    Abort(EpochTimestamp),
}

impl Item {
    /// The transaction.
    #[must_use]
    pub const fn at(&self) -> EpochTimestamp {
        match self {
            Self::Put(piece) => piece.at,
            Self::Abort(at) => *at,
        }
    }
}

/// Why a back end refuses a transaction's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The epoch's closing record is written.
    #[error("the epoch is closed")]
    EpochClosed,
    /// A key, a value or a request is too long.
    #[error("a key, a value or the whole request is too long")]
    TooLong,
    /// What a back end may hold of epochs that are not closed is used up.
    #[error("out of memory: a back end holds the limit open_bytes of epochs that are not closed")]
    NoRoom,
    /// The disk of a back end is full.
    #[error("the disk of a node with a copy is full: writes are refused until there is room")]
    DiskFull,
    /// A back end holds as much as its setting `memory_bytes` lets it.
    #[error(
        "out of memory: a node with a copy holds memory_bytes of versions; delete some, or raise it"
    )]
    OutOfMemory,
}

/// What epochs are for, when reads and writes take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// Transactions of both kinds start at any time (§4.2.2 of the text).
    Unified,
    /// Only write-only transactions start.
    Writes,
    /// Only read-only transactions start.
    Reads,
}

/// How a manager decides orphans, for one back end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Orphans that are whole, with what this back end must have of each.
    pub kept: Vec<Piece>,
    /// Orphans that are not, and go.
    pub dropped: Vec<EpochTimestamp>,
}

/// Where a back end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackEndStanding {
    /// Its closing records reach up to this epoch, those that are being written included.
    pub sealed: Epoch,
    /// The newest epoch that it knows to be closed.
    pub closed: Epoch,
}

/// Some of a partition's versions up to the end of an epoch, key by key in the order of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyChunk {
    /// The partition.
    pub partition: usize,
    /// The epoch up to whose end it is copied.
    pub through: Epoch,
    /// The key after which it begins; `None` for the first.
    pub after: Option<Key>,
    /// The versions.
    pub versions: Vec<(Key, EpochTimestamp, Operation)>,
    /// The key after which the next one begins; `None` when this is the last.
    pub next: Option<Key>,
    /// Versions that are older, and hidden by newer ones, may be missing.
    pub horizon: EpochTimestamp,
}

/// One thing that is said. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Numbered items of a front end's stream, and the number up to which it has the answers.
    Items(FrontEndId, u64, Vec<(u64, Item)>),
    /// The number up to which the stream of this incarnation has come, and the refused numbers.
    Taken(FrontEndId, u64, u64, Vec<(u64, Refusal)>),
    /// A read: its number, its timestamp, its keys.
    Get(FrontEndId, u64, EpochTimestamp, Vec<Key>),
    /// What a read found, key by key.
    Got(FrontEndId, u64, Vec<(Key, Found)>),
    /// Versions at a read's timestamp are collected; the oldest timestamp that can be read.
    TooOld(FrontEndId, u64, EpochTimestamp),
    /// A front end waits: the epoch in which it draws and the newest that it knows closed.
    Want(Epoch, Epoch),
    /// Draw up to there no more; and from now on in this epoch of this kind.
    Switch(Epoch, Option<(Epoch, EpochKind)>),
    /// All front ends below have drained up to there, and none of them reads below this.
    Drained(FrontEndId, Epoch, EpochTimestamp),
    /// Say what you have of orphans after a closed epoch, and up to another.
    Collect(Epoch, Epoch),
    /// What a back end has of orphans up to there.
    Collected(Epoch, Vec<Piece>),
    /// Write the closing record.
    Seal(Epoch, Resolution),
    /// It is on the disk.
    Sealed(Epoch),
    /// Closed up to there; draw in this epoch; versions are collected below this.
    Closed(Epoch, Option<(Epoch, EpochKind)>, EpochTimestamp),
    /// A new manager asks where a back end stands.
    Greet,
    /// The answer.
    Standing(BackEndStanding),
    /// A front end has started.
    Join(FrontEndId),
    /// A back end has started again, with its log, in which this is the newest sealed epoch.
    Return(Epoch),
    /// A configuration.
    Configuration(Arc<Configuration>),
    /// The sender's configuration is older than the receiver's.
    Behind,
    /// A back end that is no member may have copies.
    Enlist,
    /// Send versions of a partition up to the end of an epoch, of the keys after this one.
    Copy(usize, Epoch, Option<Key>),
    /// The answer.
    Copied(Box<CopyChunk>),
    /// The copy of a partition that was to be made up to this epoch is whole.
    Caught(usize, Epoch),
    /// These partitions have no copy on a node that lives: no epoch is closed.
    Lost(Vec<usize>),
}
