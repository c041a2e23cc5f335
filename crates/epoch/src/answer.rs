//! What a client of a front end is told.

use coeval_types::Remedy;

use crate::message::Refusal;
use crate::operation::{Found, Key};
use crate::timestamp::EpochTimestamp;

/// What a role may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Write keys.
    Put,
    /// Read keys.
    Get,
}

impl Right {
    const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }
}

/// Why a request has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A back end refuses the operations.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client has given it up.
    #[error("the client has given the transaction up")]
    GivenUp,
    /// A transaction without operations, or with two for one key.
    #[error("a transaction needs one operation or more, at most one for a key")]
    Form,
    /// Versions below this are collected.
    #[error("versions before {0} are collected")]
    Collected(EpochTimestamp),
    /// No front end has drawn in that epoch yet.
    #[error("no transaction can have the timestamp {0} yet")]
    TooFarAhead(EpochTimestamp),
    /// The only copy of a partition is on a node that is dead.
    #[error("partition {0} has no copy left on a node that answers")]
    Lost(usize),
    /// The client's role may not do it.
    #[error("the client's role may not {}", .0.name())]
    NotAllowed(Right),
    /// The node runs no front end: another one does.
    #[error("the node runs no front end")]
    NoFrontEnd,
    /// As many requests wait as may.
    #[error("as many requests wait as may")]
    Busy,
}

impl Reason {
    /// How the client can react.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::Refused(
                Refusal::EpochClosed | Refusal::NoRoom | Refusal::DiskFull | Refusal::OutOfMemory,
            )
            | Self::Busy
            | Self::NoFrontEnd
            | Self::Lost(_)
            | Self::TooFarAhead(_) => Remedy::Retry,
            Self::Refused(Refusal::TooLong)
            | Self::GivenUp
            | Self::Form
            | Self::Collected(_)
            | Self::NotAllowed(_) => Remedy::Fix,
        }
    }
}

impl Reason {
    /// The SQLSTATE that PostgreSQL has for the like of it.
    #[must_use]
    pub const fn sqlstate(self) -> &'static str {
        match self {
            Self::Refused(Refusal::EpochClosed) => "40001",
            Self::Refused(Refusal::TooLong) => "54000",
            Self::Refused(Refusal::NoRoom | Refusal::OutOfMemory) => "53200",
            Self::Refused(Refusal::DiskFull) => "53100",
            Self::GivenUp => "57014",
            Self::Form | Self::TooFarAhead(_) => "22023",
            Self::Collected(_) => "72000",
            Self::Lost(_) => "58030",
            Self::NotAllowed(_) => "42501",
            Self::NoFrontEnd => "0A000",
            Self::Busy => "53000",
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The transaction is committed at this timestamp, on the disks of all copies.
    Committed(EpochTimestamp),
    /// The request has no effect.
    Aborted(Reason),
    /// The values of all keys at this timestamp.
    Values(EpochTimestamp, Vec<(Key, Found)>),
}
