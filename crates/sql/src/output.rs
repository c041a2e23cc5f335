//! Results: the columns, rows, notices and command tags that a statement returns, and the
//! sink that takes them.
//!
//! A session knows nothing of the wire. It hands rows to a [`Sink`], which
//! encodes them as it likes and keeps them back until they are durable.

use std::task::{Context, Poll};

use coeval_txn::Basis;

use crate::error::{Error, Report, SqlState};
use crate::value::{ColumnType, Style, Value};

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type. The protocol wants `data_type.oid()`, `data_type.length()` and
    /// the modifier.
    pub column_type: ColumnType,
    /// The table the column is taken from as it is, or 0.
    pub table_oid: u32,
    /// The column's number in that table, from 1, or 0.
    pub attribute: i16,
}

/// How a value is written for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// In the type's binary form.
    Binary,
}

/// How grave a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For those who look for it.
    Debug,
    /// For the record.
    Log,
    /// Asked for.
    Info,
    /// Good to know.
    Notice,
    /// Probably not what was meant.
    Warning,
}

impl Severity {
    /// As it goes to the client.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Log => "LOG",
            Self::Info => "INFO",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }
}

/// Something a statement has to say that is not a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How grave.
    pub severity: Severity,
    /// What it says, in the parts of an error.
    pub report: Report,
}

impl Notice {
    /// A notice of this severity.
    #[must_use]
    pub fn new(severity: Severity, state: SqlState, message: impl Into<String>) -> Self {
        Self {
            severity,
            report: Error::new(state, message).report().clone(),
        }
    }

    /// Adds the detail line.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.report.detail = Some(detail.into());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.report.hint = Some(hint.into());
        self
    }
}

/// One row of a result, ready to be written.
#[derive(Clone, Copy, Debug)]
pub struct OutputRow<'row> {
    pub(crate) columns: &'row [Column],
    /// One for each column.
    pub(crate) formats: &'row [Format],
    /// One for each column.
    pub(crate) values: &'row [Value],
    pub(crate) style: &'row Style,
}

impl OutputRow<'_> {
    /// How many columns it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it has none, as `SELECT` without a list has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        self.values
    }

    /// Appends one column's value to `out`, in the format it is wanted in. Returns
    /// false, having appended nothing, when it is null.
    pub fn write(&self, column: usize, out: &mut Vec<u8>) -> bool {
        let column_type = self.columns[column].column_type;
        match self.formats[column] {
            Format::Text => self.values[column].write_text(column_type, self.style, out),
            Format::Binary => self.values[column].write_binary(column_type, self.style, out),
        }
    }
}

/// Takes what a statement produces.
///
/// Nothing a sink was handed may leave the process before what it rests on
/// ([`Session::basis`](crate::Session::basis)) is durable and confirmed.
pub trait Sink: Send {
    /// The columns of the rows that follow, and the format each is wanted in.
    /// Called once for each portal that returns rows, before its first row. In the
    /// extended protocol clients have asked before, and this says nothing new.
    fn columns(&mut self, columns: &[Column], formats: &[Format]);

    /// One row.
    fn row(&mut self, row: OutputRow<'_>);

    /// Why a row or line that it was given cannot be sent, if so: the statement fails
    /// with that. Asked before a commit with the statement, and by [`Sink::poll_drain`]
    /// before everything else.
    fn refused(&mut self) -> Option<Error> {
        None
    }

    /// Forgets what came since the execution began, notices excepted: the statement
    /// met a conflict and starts anew. Only called when [`Sink::poll_drain`] was not.
    fn restart(&mut self);

    /// Something to tell the client.
    fn notice(&mut self, notice: Notice);

    /// COPY TO begins, with this many columns, in text.
    fn copy_out(&mut self, columns: usize);

    /// One line of COPY TO.
    fn copy_data(&mut self, data: &[u8]);

    /// Asked between chunks of a large result: ready when there is room for more.
    /// What was produced so far rests on `basis`, which must hold before any of it is
    /// sent.
    fn poll_drain(&mut self, basis: Basis, context: &mut Context<'_>) -> Poll<Result<(), Error>>;
}

/// What a command did, in the words of PostgreSQL's command tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTag {
    /// Which command, as `SELECT` or `CREATE TABLE`.
    pub command: &'static str,
    /// How many rows it returned or changed, if it counts them.
    pub rows: Option<u64>,
}

impl CommandTag {
    /// The tag of a command that counts no rows.
    #[must_use]
    pub const fn new(command: &'static str) -> Self {
        Self {
            command,
            rows: None,
        }
    }

    /// The tag of a command that counts rows.
    #[must_use]
    pub const fn with_rows(command: &'static str, rows: u64) -> Self {
        Self {
            command,
            rows: Some(rows),
        }
    }
}

impl std::fmt::Display for CommandTag {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rows {
            None => formatter.write_str(self.command),
            // The zero is where PostgreSQL once returned the new row's identity.
            Some(rows) if self.command == "INSERT" => write!(formatter, "INSERT 0 {rows}"),
            Some(rows) => write!(formatter, "{} {rows}", self.command),
        }
    }
}

/// How far an execution came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// To the end.
    Complete(CommandTag),
    /// To the row limit. Executing the portal again goes on from there.
    Suspended,
    /// There was nothing to do: an empty query string.
    Empty,
    /// COPY FROM STDIN waits for data: call [`Session::copy_data`] and then
    /// [`Session::copy_done`] or [`Session::copy_fail`].
    ///
    /// [`Session::copy_data`]: crate::Session::copy_data
    /// [`Session::copy_done`]: crate::Session::copy_done
    /// [`Session::copy_fail`]: crate::Session::copy_fail
    CopyIn {
        /// How many columns a line has. All in text format.
        columns: usize,
    },
}

/// Where a session stands, as ReadyForQuery says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// In no transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a transaction block that has failed and waits for its end.
    Failed,
}

impl TransactionStatus {
    /// The byte of ReadyForQuery.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}
