//! Errors of statements: SQLSTATEs, messages and positions, as PostgreSQL reports them.
//!
//! Every error carries a SQLSTATE, which drivers evaluate, and a message for people.
//! Messages use PostgreSQL's wording wherever PostgreSQL has one for the same error, so
//! that users who search for the text find help that applies here too.
//!
//! ```text
//! ERROR:  duplicate key value violates unique constraint "account_pkey"    23505
//! DETAIL:  Key (id)=(1) already exists.
//! ```
//!
//! An [`Error`] is one pointer wide, because functions return results far more often than
//! errors.

use std::fmt;

use coeval_types::Remedy;

use crate::route::Reason;

/// A SQLSTATE: five characters, of which the first two are the class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl fmt::Debug for SqlState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: Self = Self($code);)*
        }
    };
}

states! {
    /// Success: the SQLSTATE of notices.
    SUCCESSFUL_COMPLETION = "00000";
    /// A feature that this database does not support; the message names it.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A subquery used as an expression returned more than one row.
    CARDINALITY_VIOLATION = "21000";
    /// A string is too long for its type.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number is out of its type's range.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// A null was given where a value is required.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// A string is not a valid date or time.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time is out of its type's range.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// An offset from UTC is too large.
    INVALID_TIME_ZONE_DISPLACEMENT = "22009";
    /// An interval is too long.
    INTERVAL_FIELD_OVERFLOW = "22015";
    /// An expression divides by zero.
    DIVISION_BY_ZERO = "22012";
    /// The length argument of `substring` is negative.
    SUBSTRING_ERROR = "22011";
    /// The offset of a window's frame is negative.
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = "22013";
    /// The argument of `ntile` is not positive.
    INVALID_ARGUMENT_FOR_NTILE = "22014";
    /// The argument of `nth_value` is not positive.
    INVALID_ARGUMENT_FOR_NTH_VALUE = "22016";
    /// An argument of a function is out of its domain.
    INVALID_PARAMETER_VALUE = "22023";
    /// The logarithm of zero or of a negative number.
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    /// A power whose result is not a real number.
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    /// The query has a negative LIMIT.
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
    /// The query has a negative OFFSET.
    INVALID_ROW_COUNT_IN_OFFSET_CLAUSE = "2201X";
    /// A regular expression that is not valid.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// A sequence has no number left.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// A byte sequence that is not UTF-8, or contains a NUL.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// An escape sequence in LIKE that is not valid.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// An array subscript that is out of range.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// A character that the encoding cannot have.
    UNTRANSLATABLE_CHARACTER = "22P05";
    /// A string is not valid text of its type.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// Bytes are not a valid binary value of their type.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// COPY read a line that is not valid.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// A null in a column that is NOT NULL.
    NOT_NULL_VIOLATION = "23502";
    /// A duplicate key in a unique index.
    UNIQUE_VIOLATION = "23505";
    /// A row for which a CHECK constraint is false.
    CHECK_VIOLATION = "23514";
    /// A statement that must not run inside a transaction block.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A write in a read-only transaction.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// COMMIT, ROLLBACK or SAVEPOINT outside of a transaction block.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// A statement in a transaction that has failed.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// A prepared statement of that name does not exist.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// Another object depends on the object to be dropped.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// A portal of that name does not exist.
    INVALID_CURSOR_NAME = "34000";
    /// A database of that name does not exist.
    INVALID_CATALOG_NAME = "3D000";
    /// A savepoint of that name does not exist.
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    /// A schema of that name does not exist.
    INVALID_SCHEMA_NAME = "3F000";
    /// The transaction conflicts with another one at its isolation level.
    SERIALIZATION_FAILURE = "40001";
    /// Transactions waited for each other in a cycle.
    DEADLOCK_DETECTED = "40P01";
    /// A syntax error in the statement.
    SYNTAX_ERROR = "42601";
    /// The role lacks a privilege for the statement.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// A cast that is not defined for the two types.
    CANNOT_COERCE = "42846";
    /// A column used outside of GROUP BY and aggregates.
    GROUPING_ERROR = "42803";
    /// A query refers to itself where it must not.
    INVALID_RECURSION = "42P19";
    /// A window function where none is allowed.
    WINDOWING_ERROR = "42P20";
    /// An identifier is not valid.
    INVALID_NAME = "42602";
    /// An identifier is too long.
    NAME_TOO_LONG = "42622";
    /// An expression's type does not match its context.
    DATATYPE_MISMATCH = "42804";
    /// A polymorphic type could not be determined.
    INDETERMINATE_DATATYPE = "42P18";
    /// A column that does not exist.
    UNDEFINED_COLUMN = "42703";
    /// A function or operator that does not exist.
    UNDEFINED_FUNCTION = "42883";
    /// A table that does not exist.
    UNDEFINED_TABLE = "42P01";
    /// A parameter that does not exist.
    UNDEFINED_PARAMETER = "42P02";
    /// An object of another kind that does not exist.
    UNDEFINED_OBJECT = "42704";
    /// A column is named twice.
    DUPLICATE_COLUMN = "42701";
    /// A portal of that name already exists.
    DUPLICATE_CURSOR = "42P03";
    /// A schema of that name already exists.
    DUPLICATE_SCHEMA = "42P06";
    /// A prepared statement of that name already exists.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// A table of that name already exists.
    DUPLICATE_TABLE = "42P07";
    /// A table alias is used twice.
    DUPLICATE_ALIAS = "42712";
    /// An object of another kind and of that name already exists.
    DUPLICATE_OBJECT = "42710";
    /// A column name matches more than one column.
    AMBIGUOUS_COLUMN = "42702";
    /// A function call matches more than one function.
    AMBIGUOUS_FUNCTION = "42725";
    /// A column reference where none is allowed.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A table's definition is not valid.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A column's definition is not valid.
    INVALID_COLUMN_DEFINITION = "42611";
    /// The definition of an object that is no table is not valid.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// A value for a column that is always generated.
    GENERATED_ALWAYS = "428C9";
    /// The statement names an object of the wrong kind.
    WRONG_OBJECT_TYPE = "42809";
    /// A setting cannot be changed at run time.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// A lock was not available in time.
    LOCK_NOT_AVAILABLE = "55P03";
    /// An object is not in the state that the command needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// Another session uses the object.
    OBJECT_IN_USE = "55006";
    /// A protocol message that is not valid in the session's state.
    PROTOCOL_VIOLATION = "08P01";
    /// The memory budget, or a statement's share of it, is used up.
    OUT_OF_MEMORY = "53200";
    /// More sessions or transactions than there can be.
    TOO_MANY_CONNECTIONS = "53300";
    /// The disk is full.
    DISK_FULL = "53100";
    /// A size or number exceeds a limit of the program.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement is too deep or too long.
    STATEMENT_TOO_COMPLEX = "54001";
    /// A function has more arguments than the limit.
    TOO_MANY_ARGUMENTS = "54023";
    /// A table has more columns than the limit.
    TOO_MANY_COLUMNS = "54011";
    /// Row versions that the transaction's snapshot needs were removed.
    SNAPSHOT_TOO_OLD = "72000";
    /// The statement was canceled on request.
    QUERY_CANCELED = "57014";
    /// A client in a transaction exceeded its idle timeout.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// A transaction exceeded `transaction_timeout`.
    TRANSACTION_TIMEOUT = "25P04";
    /// A client outside of a transaction exceeded its idle timeout.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// The server is stopping.
    ADMIN_SHUTDOWN = "57P01";
    /// An I/O error of the disk.
    IO_ERROR = "58030";
    /// An internal error, that is a bug in this program.
    INTERNAL_ERROR = "XX000";
}

/// The error of a statement.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Report>);

/// The fields of an [`Error`], as the protocol sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// SQLSTATE, which drivers evaluate.
    pub state: SqlState,
    /// Primary message, for people.
    pub message: String,
    /// Detail line: more about the error.
    pub detail: Option<String>,
    /// Hint line: advice on how to fix the error.
    pub hint: Option<String>,
    /// Position of the error in the statement, in characters from 1.
    pub position: Option<u32>,
    /// Context line: the operation that failed, such as the line of a COPY.
    pub context: Option<String>,
    /// Schema of the table concerned.
    pub schema: Option<String>,
    /// Name of the table concerned.
    pub table: Option<String>,
    /// Name of the column concerned.
    pub column: Option<String>,
    /// Name of the violated constraint.
    pub constraint: Option<String>,
    /// The reaction that the error calls for.
    pub remedy: Remedy,
    /// Why the leader has to execute the statement, which a follower has refused.
    pub of_leader: Option<Reason>,
    /// The engine's error about a conflict or a lock, from which the session generates
    /// the detail line with names from the catalog.
    engine: Option<coeval_txn::Error>,
    /// OID of the table whose row values the detail line contains.
    shows_rows_of: Option<u32>,
}

impl Error {
    /// Creates an error that the client has to fix: [`Remedy::Fix`].
    #[must_use]
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            remedy: Remedy::Fix,
            of_leader: None,
            engine: None,
            shows_rows_of: None,
        }))
    }

    /// SQLSTATE 0A000, `feature_not_supported`: `feature` completes "… is not supported".
    #[must_use]
    pub fn unsupported(feature: impl fmt::Display) -> Self {
        Self::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{feature} is not supported"),
        )
    }

    /// SQLSTATE 25006, `read_only_sql_transaction`: a follower does not execute the
    /// statement. The node of the client has the leader execute it, so that no client sees
    /// this error.
    #[must_use]
    pub fn of_leader(reason: Reason) -> Self {
        let message = format!("only the leader executes the statement: {}", reason.words());
        let mut error = Self::new(SqlState::READ_ONLY_SQL_TRANSACTION, message);
        error.0.of_leader = Some(reason);
        error
    }

    /// SQLSTATE 42601, `syntax_error`: the statement is not valid SQL.
    #[must_use]
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
    }

    /// SQLSTATE 54001, `statement_too_complex`: the statement is nested too deeply.
    #[must_use]
    pub fn too_complex() -> Self {
        Self::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            "the statement is nested too deeply",
        )
        .with_hint("Split the statement, or write long chains of OR as IN (…).")
    }

    /// SQLSTATE XX000, `internal_error`: a bug in this program, detected before it did
    /// harm.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// SQLSTATE 57014, `query_canceled`: the statement was canceled on request.
    #[must_use]
    pub fn canceled() -> Self {
        Self::new(
            SqlState::QUERY_CANCELED,
            "canceling statement due to user request",
        )
        .with_remedy(Remedy::Retry)
    }

    /// SQLSTATE 53200, `out_of_memory`: a statement used up its share of the memory.
    #[must_use]
    pub fn work_memory(limit: usize) -> Self {
        Self::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .with_detail(format!(
                "Sorting, grouping and collecting rows of one statement may take {} kB.",
                limit / 1024
            ))
            .with_hint("Raise work_mem, or ask for fewer rows.")
    }

    /// SQLSTATE 53200, `out_of_memory`: the memory budget of all statements is used up.
    #[must_use]
    pub fn no_room(purpose: &str, bytes: u64, left: u64) -> Self {
        Self::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .with_detail(format!(
                "{purpose} takes up to {} kB, and {} kB of the memory limit are left.",
                bytes.div_ceil(1024),
                left / 1024
            ))
            .with_hint(
                "Ask for less at once, load rows with COPY, try again when others are done, \
                 or raise the server's setting memory_limit_megabytes.",
            )
    }

    /// Adds the detail line.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the position in the statement, unless it is set already.
    #[must_use]
    pub fn at(mut self, position: Option<u32>) -> Self {
        if self.0.position.is_none() {
            self.0.position = position;
        }
        self
    }

    /// Sets the context line, unless it is set already.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        if self.0.context.is_none() {
            self.0.context = Some(context.into());
        }
        self
    }

    /// Sets the context line, behind one that is set already: what is around what failed.
    #[must_use]
    pub fn within(mut self, context: impl Into<String>) -> Self {
        let outer = context.into();
        self.0.context = Some(match self.0.context.take() {
            Some(inner) => format!("{inner}\n{outer}"),
            None => outer,
        });
        self
    }

    /// Changes the reaction that the error calls for.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.0.remedy = remedy;
        self
    }

    /// Sets the name of the table concerned.
    #[must_use]
    pub fn with_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Sets the name of the column concerned.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Sets the name of the violated constraint.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// The fields of the error.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// SQLSTATE of the error, which drivers evaluate.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Adds a detail line that contains row values of the table with this OID. Only roles
    /// that may read the table receive it.
    #[must_use]
    pub(crate) fn with_rows_in_detail(self, table: u32, detail: impl Into<String>) -> Self {
        let mut error = self.with_detail(detail);
        error.0.shows_rows_of = Some(table);
        error
    }

    /// Removes the detail line if it contains row values of a table that the role may not
    /// read, according to `may_read`.
    pub(crate) fn hiding_rows(mut self, may_read: impl FnOnce(u32) -> bool) -> Self {
        if let Some(table) = self.0.shows_rows_of.take()
            && !may_read(table)
        {
            self.0.detail = None;
        }
        self
    }

    /// The engine's error, if this error is about a conflict or a lock.
    pub(crate) fn engine_error(&self) -> Option<&coeval_txn::Error> {
        self.0.engine.as_ref()
    }

    /// Replaces the primary message.
    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// The reaction that the error calls for.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        self.0.remedy
    }

    /// Whether the error ends the session, and not only the statement.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        matches!(
            self.state(),
            SqlState::TRANSACTION_TIMEOUT
                | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                | SqlState::IDLE_SESSION_TIMEOUT
        )
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.0.message, self.0.state.0)
    }
}

impl std::error::Error for Error {}

impl From<coeval_txn::Error> for Error {
    fn from(error: coeval_txn::Error) -> Self {
        use coeval_txn::Error as Txn;
        let remedy = error.remedy();
        let mut converted = match &error {
            Txn::Conflict(conflict) => Self::new(
                SqlState::SERIALIZATION_FAILURE,
                match conflict.cause {
                    coeval_txn::Cause::WriteWrite => {
                        "could not serialize access due to concurrent update"
                    }
                    _ => "could not serialize access due to read/write dependencies among transactions",
                },
            )
            .with_detail(format!(
                "Reason: {}{}.",
                conflict.cause.describe(),
                match conflict.other {
                    Some(other) => format!(" (transaction {other})"),
                    None => String::new(),
                }
            ))
            .with_hint("The transaction might succeed if retried."),
            Txn::Deadlock { circle, .. } => {
                let circle: Vec<String> = circle.iter().map(ToString::to_string).collect();
                Self::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(format!(
                    "Transactions that wait for each other: {}.",
                    circle.join(", ")
                ))
            }
            Txn::LockTimeout(_) => Self::new(
                SqlState::LOCK_NOT_AVAILABLE,
                "canceling statement due to lock timeout",
            ),
            Txn::LockNotAvailable(_) => Self::new(
                SqlState::LOCK_NOT_AVAILABLE,
                "could not obtain lock on row",
            ),
            Txn::SchemaChanged(_) => Self::new(
                SqlState::SERIALIZATION_FAILURE,
                "the definition of a table changed while the statement ran",
            )
            .with_hint("The transaction might succeed if retried."),
            Txn::SnapshotTooOld => Self::new(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old")
                .with_detail(
                    "It was the oldest there was, and the old row versions that were kept \
                     took more than their share of memory.",
                )
                .with_hint(
                    "Retry with a shorter transaction, or raise the server's settings \
                     memory_limit_megabytes or old_versions_percent.",
                ),
            Txn::Canceled => Self::canceled(),
            Txn::ReadOnly => Self::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute a write in a read-only transaction",
            ),
            Txn::RowTooLarge { .. } => {
                Self::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())
                    .with_hint("Keep longer values elsewhere, or split them into several rows.")
            }
            Txn::TooManyTransactions { .. } => {
                Self::new(SqlState::TOO_MANY_CONNECTIONS, error.to_string()).with_hint(
                    "End sessions that are idle in a transaction, see pg_stat_activity, or have \
                     idle_in_transaction_session_timeout end them.",
                )
            }
            Txn::WriteSetTooLarge { .. } => {
                Self::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())
                    .with_hint(
                        "A single row takes at most 1 MiB in the log: keep longer values \
                         elsewhere. A transaction of very many rows can be split into \
                         smaller ones.",
                    )
            }
            Txn::OutOfMemory => Self::new(SqlState::OUT_OF_MEMORY, "out of memory")
                .with_detail("The database has used up its memory budget, but for a reserve.")
                .with_hint(
                    "Delete rows or drop tables, which goes on, or raise the server's \
                     setting memory_limit_megabytes.",
                ),
            Txn::DiskFull(reason) => Self::new(SqlState::DISK_FULL, reason)
                .with_hint(
                    "Reads go on, and as long as the reserve lasts DELETE, TRUNCATE, DROP and \
                     CHECKPOINT do. Free some space on the disk of the data directory.",
                ),
            Txn::Io(reason) => Self::new(SqlState::IO_ERROR, reason),
            Txn::Unknown(_) => Self::internal(error.to_string()),
            Txn::Stopped(reason) => Self::new(
                SqlState::IO_ERROR,
                format!("the database has stopped: {reason}"),
            ),
        };
        if matches!(
            error,
            Txn::Conflict(_)
                | Txn::Deadlock { .. }
                | Txn::LockTimeout(_)
                | Txn::LockNotAvailable(_)
                | Txn::SchemaChanged(_)
        ) {
            converted.0.engine = Some(error);
        }
        converted.with_remedy(remedy)
    }
}

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;
