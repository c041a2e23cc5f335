//! Histories: what clients asked for and what they were told, with times.
//!
//! A history is all that a judge of transactions gets to see. It is a bag of
//! transactions, each as its client saw it: which session ran it, when its first
//! statement left, when the answer to COMMIT came, what became of it, and every
//! operation with what it answered.
//!
//! ```text
//! process 0   |--- append 1 to x ---|                     committed
//! process 1              |--- read x: [1], append 2 to x ---|  committed
//! process 2                        |--- read x: (not learnt)   unknown: the
//!                                                              connection broke
//! ```
//!
//! The two kinds of object are those whose histories can be judged without a look
//! inside the database:
//!
//! - A **list**, to which elements are appended and which is read whole. Every read
//!   shows the order of all appends before it, so versions order themselves.
//! - A **register**, which is written blindly and read. A read shows one version,
//!   and the order of versions has to be inferred.
//!
//! # What a recorder owes
//!
//! - An element is appended to a list once, and a value written to a register once:
//!   what is read then says whose it is. A second attempt of an aborted transaction
//!   uses new elements and values.
//! - `started` is taken before the first statement leaves, `finished` after the
//!   answer to COMMIT is there, both from one clock. Then a transaction that
//!   finished before another started did precede it.
//! - The transactions of one process do not overlap.
//! - An outcome that the client was never told is [`Outcome::Unknown`], with
//!   `finished` none: it may take effect at any later time. A read whose answer was
//!   never told is `None`.
//!
//! # Files
//!
//! [`read`] and [`write`](fn@write) know two formats ([`Format`]): the events of Jepsen
//! and Elle as EDN ([`edn`], [`events`]), and lines of JSON ([`lines`]). What cannot
//! be read is refused with line and column ([`ReadError`]).
//!
//! Source: the operations and the event format are those of Elle (Kingsbury and
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations",
//! PVLDB 2020) and of Jepsen, for which it was made.

pub mod edn;
mod error;
pub mod events;
pub mod lines;
mod value;

use std::io;

pub use error::ReadError;

/// What clients did and were told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// In no particular order.
    pub transactions: Vec<Transaction>,
}

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The session: a logical client that does one thing after another. Its
    /// transactions do not overlap.
    pub process: u64,
    /// Nanoseconds on a clock that all processes share, before the first statement
    /// left.
    pub started: u64,
    /// Nanoseconds, after the answer to COMMIT (or of the failure) was there; `None`
    /// when none ever came.
    pub finished: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it was declared READ ONLY.
    pub read_only: bool,
    /// What it did, in its order.
    pub operations: Vec<Operation>,
}

/// What became of a transaction, as far as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// It did not, and will not.
    Aborted,
    /// It may have committed, or may yet.
    Unknown,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Adds an element at the end of a list.
    Append {
        /// Which list.
        key: u64,
        /// Appended to this list only once in a history.
        element: i64,
    },
    /// Reads a list whole.
    ReadList {
        /// Which list.
        key: u64,
        /// What was there; `None` when the answer was not learnt.
        elements: Option<Vec<i64>>,
    },
    /// Writes a register without a look at it.
    Write {
        /// Which register.
        key: u64,
        /// Written to this register only once in a history.
        value: i64,
    },
    /// Reads a register.
    Read {
        /// Which register.
        key: u64,
        /// What was there; `None` when the answer was not learnt.
        value: Option<Register>,
    },
}

/// The state of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// Never written: the initial state.
    Absent,
    /// What a write left.
    Value(i64),
}

/// How a history stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Events of Jepsen and Elle: maps in EDN, as a sequence or in one vector.
    Edn,
    /// JSON, a line for each transaction (or for each event).
    JsonLines,
}

impl Format {
    /// The format that a file's name speaks of: `.edn`, `.jsonl`, `.ndjson`, `.json`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "edn" => Some(Self::Edn),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

/// Reads a history.
///
/// # Errors
/// When the text is not in the format, or is and makes no history; says where.
pub fn read(text: &[u8], format: Format) -> Result<History, ReadError> {
    match format {
        Format::Edn => edn::read(text),
        Format::JsonLines => lines::read(text),
    }
}

/// Writes a history so that [`read`] reads it.
///
/// # Errors
/// Those of the writer.
pub fn write(history: &History, format: Format, to: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Format::Edn => edn::write(history, to),
        Format::JsonLines => lines::write(history, to),
    }
}

impl Transaction {
    /// Whether the client was told that it committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// Whether it finished before the other started: then it precedes it in real
    /// time. A transaction of unknown outcome never finished.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        self.acknowledged_at()
            .is_some_and(|finished| finished < other.started)
    }

    /// When the client knew that it had committed; `None` when it never did.
    #[must_use]
    pub fn acknowledged_at(&self) -> Option<u64> {
        self.finished.filter(|_| self.is_committed())
    }

    /// Whether it appends or writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.operations.iter().any(Operation::is_write)
    }
}

impl Operation {
    /// The object concerned.
    #[must_use]
    pub fn key(&self) -> u64 {
        match self {
            Self::Append { key, .. }
            | Self::ReadList { key, .. }
            | Self::Write { key, .. }
            | Self::Read { key, .. } => *key,
        }
    }

    /// Whether it changes its object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Write { .. })
    }
}
