//! Histories: the transactions that clients executed and the answers that they received,
//! with times.
//!
//! A history is the only input of a judge. It is a set of transactions, each as its client
//! observed it: the session that ran it, when the client sent its first statement, when it
//! received the answer to COMMIT, the outcome, and every operation with its answer.
//!
//! ```text
//! process 0   |--- append 1 to x ---|                     committed
//! process 1              |--- read x: [1], append 2 to x ---|  committed
//! process 2                        |--- read x: (no answer)     unknown: the
//!                                                              connection broke
//! ```
//!
//! Judges can check histories of two kinds of objects without access to the database's
//! internals:
//!
//! - A **list**, to which transactions append elements and which they read as a whole.
//!   Every read shows the order of all earlier appends, so versions order themselves.
//! - A **register**, which transactions write blindly and read. A read shows one version,
//!   and the judge has to infer the order of versions.
//!
//! # Requirements on a recorder
//!
//! - An element is appended to a list at most once, and a value written to a register at
//!   most once: then a value that was read identifies its writer. A retry of an aborted
//!   transaction uses new elements and values.
//! - `started` is taken before the client sends the first statement, `finished` after it
//!   has received the answer to COMMIT, both from one clock. Then a transaction that
//!   finished before another started did precede it.
//! - The transactions of one process do not overlap.
//! - If the client received no outcome, it is [`Outcome::Unknown`], and `finished` is none:
//!   the transaction may take effect at any later time. A read without an answer is `None`.
//!
//! # Files
//!
//! [`read`] and [`write`](fn@write) support three formats ([`Format`]): the events of
//! Jepsen and Elle as EDN ([`edn`], [`events`]), JSON lines ([`lines`]), and CSV, one
//! operation on a register a line ([`csv`]). The readers reject malformed input with line
//! and column ([`ReadError`]). [`stream()`] hands on one transaction after another, for
//! judges that need no more of a history than that.
//!
//! Source: the operations and the event format are those of Elle (Kingsbury and Alvaro,
//! "Elle: Inferring Isolation Anomalies from Experimental Observations", PVLDB 2020) and of
//! Jepsen, which Elle belongs to.

pub mod csv;
pub mod edn;
mod error;
pub mod events;
pub mod lines;
mod stream;
mod value;

use std::io;

pub use csv::Names;
pub use error::ReadError;
pub use stream::{StreamError, stream};

/// The transactions that clients executed, with their answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions, in no particular order.
    pub transactions: Vec<Transaction>,
}

/// One transaction as its client observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The session: a logical client that executes one transaction after another, so that
    /// its transactions do not overlap.
    pub process: u64,
    /// Nanoseconds on a clock that all processes share, taken before the client sent the
    /// first statement.
    pub started: u64,
    /// Nanoseconds, taken after the client received the answer to COMMIT (or the error);
    /// `None` when it never received one.
    pub finished: Option<u64>,
    /// The outcome, as far as the client knows it.
    pub outcome: Outcome,
    /// Whether the transaction was declared READ ONLY.
    pub read_only: bool,
    /// The operations, in execution order.
    pub operations: Vec<Operation>,
}

/// Outcome of a transaction, as far as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The transaction committed.
    Committed,
    /// The transaction did not commit, and will not.
    Aborted,
    /// The transaction may have committed, or may commit later.
    Unknown,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Appends an element to a list.
    Append {
        /// The list's key.
        key: u64,
        /// The element, appended to this list only once in a history.
        element: i64,
    },
    /// Reads a whole list.
    ReadList {
        /// The list's key.
        key: u64,
        /// The elements that were read; `None` when the client received no answer.
        elements: Option<Vec<i64>>,
    },
    /// Writes a register without reading it.
    Write {
        /// The register's key.
        key: u64,
        /// The value, written to this register only once in a history.
        value: i64,
    },
    /// Reads a register.
    Read {
        /// The register's key.
        key: u64,
        /// The state that was read; `None` when the client received no answer.
        value: Option<Register>,
    },
}

/// The state of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    /// Initial state: no transaction has written the register.
    Absent,
    /// The value of the last write.
    Value(i64),
}

/// The file format of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Jepsen's and Elle's events: maps in EDN, as a sequence or in one vector.
    Edn,
    /// JSON, one line per transaction (or per event).
    JsonLines,
    /// One operation on a register per line.
    Csv,
}

impl Format {
    /// The format for a file name's extension: `.edn`, `.jsonl`, `.ndjson`, `.json`,
    /// `.csv`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "edn" => Some(Self::Edn),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Reads a history in a given format.
///
/// # Errors
/// When the text is not in the format, or does not form a history; with the position.
pub fn read(text: &[u8], format: Format) -> Result<History, ReadError> {
    match format {
        Format::Edn => edn::read(text),
        Format::JsonLines => lines::read(text),
        Format::Csv => csv::read(text),
    }
}

/// Writes a history in a format that [`read`] accepts.
///
/// # Errors
/// Any error of the writer `to`; [`io::ErrorKind::InvalidInput`] when the format cannot
/// express a transaction: [`csv`] has single operations on registers only.
pub fn write(history: &History, format: Format, to: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Format::Edn => edn::write(history, to),
        Format::JsonLines => lines::write(history, to),
        Format::Csv => csv::write(history, to),
    }
}

impl Transaction {
    /// Whether the client received the confirmation that the transaction committed.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    /// Whether this transaction finished before the other started: then it precedes it in
    /// real time. A transaction of unknown outcome never finished.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        self.acknowledged_at()
            .is_some_and(|finished| finished < other.started)
    }

    /// When the client learned that the transaction had committed; `None` if it never did.
    #[must_use]
    pub fn acknowledged_at(&self) -> Option<u64> {
        self.finished.filter(|_| self.is_committed())
    }

    /// What is wrong with the times, if they contradict each other or the outcome.
    fn contradiction(&self) -> Option<&'static str> {
        match self.finished {
            Some(finished) if finished < self.started => Some("finished before it started"),
            None if self.is_committed() => {
                Some("committed, and without finished: when was its client told?")
            }
            _ => None,
        }
    }

    /// Whether the transaction appends or writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.operations.iter().any(Operation::is_write)
    }
}

impl Operation {
    /// The key of the object that the operation accesses.
    #[must_use]
    pub fn key(&self) -> u64 {
        match self {
            Self::Append { key, .. }
            | Self::ReadList { key, .. }
            | Self::Write { key, .. }
            | Self::Read { key, .. } => *key,
        }
    }

    /// Whether the operation changes its object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Write { .. })
    }
}
