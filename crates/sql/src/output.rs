//! Results: the columns, rows, notices and command tags that a statement returns, and the
//! sink that takes them.
//!
//! A session does not know the wire protocol. It writes rows to a [`Sink`], which encodes
//! them and holds them back until they are durable.

use std::task::{Context, Poll};

use coeval_txn::ResponseDependencies;

use crate::error::{Error, Report, SqlState};
use crate::value::{ColumnType, Style, Value};

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Type of the column. The protocol sends its `data_type.oid()`, `data_type.length()`
    /// and modifier.
    pub column_type: ColumnType,
    /// OID of the table of which the column is a plain copy, or 0.
    pub table_oid: u32,
    /// Number of the column in that table, from 1, or 0.
    pub attribute: i16,
}

/// Encoding of a value for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The text format of the value's type.
    #[default]
    Text,
    /// The binary format of the value's type.
    Binary,
}

/// Severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information for developers.
    Debug,
    /// Information for the server's log.
    Log,
    /// Information that the client has requested.
    Info,
    /// Information that may be helpful to the client.
    Notice,
    /// A warning of a likely mistake.
    Warning,
}

impl Severity {
    /// Name of the severity in the protocol.
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

/// A message of a statement that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Severity of the notice.
    pub severity: Severity,
    /// Text of the notice, in the parts of an error.
    pub report: Report,
}

impl Notice {
    /// Creates a notice of this severity.
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

/// One row of a result, ready to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct OutputRow<'row> {
    pub(crate) columns: &'row [Column],
    /// Format of each column.
    pub(crate) formats: &'row [Format],
    /// Value of each column.
    pub(crate) values: &'row [Value],
    pub(crate) style: &'row Style,
}

impl OutputRow<'_> {
    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the row has no columns, as that of `SELECT` without a list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Values of the row.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        self.values
    }

    /// Appends one column's value to `out`, in the column's format. Returns false, and
    /// appends nothing, when the value is null.
    pub fn write(&self, column: usize, out: &mut Vec<u8>) -> bool {
        let column_type = self.columns[column].column_type;
        let start = out.len();
        let present = match self.formats[column] {
            Format::Text => self.values[column].write_text(column_type, self.style, out),
            Format::Binary => self.values[column].write_binary(column_type, self.style, out),
        };
        // In the binary format of other types, text is a part of the value.
        if self.formats[column] == Format::Text || column_type.data_type.is_string() {
            self.style.encoding.encode(out, start);
        }
        present
    }
}

/// Receiver of a statement's results.
///
/// No result that a sink has received may leave the process before its dependencies
/// ([`Session::dependencies`](crate::Session::dependencies)) are durable and confirmed.
pub trait Sink: Send {
    /// Receives the columns of the rows that follow, with the format of each. Called once
    /// for each portal that returns rows, before its first row. A client of the extended
    /// protocol has asked for the columns before, and need not receive them again.
    fn columns(&mut self, columns: &[Column], formats: &[Format]);

    /// Receives one row.
    fn row(&mut self, row: OutputRow<'_>);

    /// The error if the sink cannot send a row or line that it has received: the
    /// statement then fails with that error. The session calls this before it commits
    /// with the statement, and [`Sink::poll_drain`] checks it first.
    fn refused(&mut self) -> Option<Error> {
        None
    }

    /// Discards the results since the execution began, except notices, because the
    /// statement restarts after a conflict. Only called when [`Sink::poll_drain`] was
    /// not.
    fn restart(&mut self);

    /// Receives a notice for the client.
    fn notice(&mut self, notice: Notice);

    /// Receives the start of COPY TO in text format, with this number of columns.
    fn copy_out(&mut self, columns: usize);

    /// Receives one line of COPY TO.
    fn copy_data(&mut self, data: &[u8]);

    /// Back-pressure: ready when the sink can take more. The session calls this between
    /// chunks of a large result. The results so far depend on `response_dependencies`, which must be
    /// durable and confirmed before the sink sends any of them.
    fn poll_drain(
        &mut self,
        dependencies: ResponseDependencies,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>>;
}

/// Command tag: the command that was completed, as the protocol reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTag {
    /// Name of the command, such as `SELECT` or `CREATE TABLE`.
    pub command: &'static str,
    /// Number of rows returned or changed, if the command counts them.
    pub rows: Option<u64>,
}

impl CommandTag {
    /// Creates the tag of a command that counts no rows.
    #[must_use]
    pub const fn new(command: &'static str) -> Self {
        Self {
            command,
            rows: None,
        }
    }

    /// Creates the tag of a command that counts rows.
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
            // PostgreSQL once returned the OID of the new row in place of the zero.
            Some(rows) if self.command == "INSERT" => write!(formatter, "INSERT 0 {rows}"),
            Some(rows) => write!(formatter, "{} {rows}", self.command),
        }
    }
}

/// How an execution of a portal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The portal ran to its end.
    Complete(CommandTag),
    /// The portal reached the row limit. Executing it again continues from there.
    Suspended,
    /// The query string was empty, so there was nothing to execute.
    Empty,
    /// COPY FROM STDIN waits for data: the caller calls [`Session::copy_data`] and then
    /// [`Session::copy_done`] or [`Session::copy_fail`].
    ///
    /// [`Session::copy_data`]: crate::Session::copy_data
    /// [`Session::copy_done`]: crate::Session::copy_done
    /// [`Session::copy_fail`]: crate::Session::copy_fail
    CopyIn {
        /// Number of columns of a line, all of them in text format.
        columns: usize,
    },
}

/// Transaction status of a session, for ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// The session is outside of a transaction block.
    Idle,
    /// The session is in a transaction block.
    InTransaction,
    /// The session is in a transaction block that has failed and waits for its end.
    Failed,
}

impl TransactionStatus {
    /// The status byte of ReadyForQuery.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}
