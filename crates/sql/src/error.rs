//! What a statement can fail with, in the terms PostgreSQL's clients know.
//!
//! Every error carries a SQLSTATE, because that is what drivers act upon, and a
//! message for people. Messages are worded as PostgreSQL words them wherever it
//! has one for the same mistake, so that what people find when they search for it
//! helps them here too.
//!
//! ```text
//! ERROR:  duplicate key value violates unique constraint "account_pkey"    23505
//! DETAIL:  Key (id)=(1) already exists.
//! ```
//!
//! An [`Error`] is one pointer wide: results are returned far more often than
//! errors are made.

use std::fmt;

use coeval_types::Remedy;

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
    /// Nothing went wrong: notices have it.
    SUCCESSFUL_COMPLETION = "00000";
    /// Something this database does not do (yet). The message names it.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A subquery used as an expression returned more than one row.
    CARDINALITY_VIOLATION = "21000";
    /// A string does not fit its type's length.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number does not fit its type.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// A null where a value has to be.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// A string is not a date or time.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time does not fit its type.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// A division by zero.
    DIVISION_BY_ZERO = "22012";
    /// The length of a substring is negative.
    SUBSTRING_ERROR = "22011";
    /// A function's argument is out of its domain.
    INVALID_PARAMETER_VALUE = "22023";
    /// A logarithm of a number that has none.
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    /// A power that is not a number.
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    /// A LIMIT below zero.
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
    /// An OFFSET below zero.
    INVALID_ROW_COUNT_IN_OFFSET_CLAUSE = "2201X";
    /// A regular expression that is none.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// A byte sequence that is not UTF-8, or holds a NUL.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// An escape sequence in LIKE that is none.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// An array subscript that does not fit.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// A string is not of the type's form.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// Bytes are not of the type's binary form.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// COPY met a line it cannot take.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// A null where the schema forbids it.
    NOT_NULL_VIOLATION = "23502";
    /// A second row with a key that must be unique.
    UNIQUE_VIOLATION = "23505";
    /// BEGIN inside a transaction and the like.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A write in a read-only transaction.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// COMMIT, ROLLBACK or SAVEPOINT outside a transaction.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// A statement in a transaction that has failed.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// A prepared statement of that name does not exist.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// Something else depends on what is to be dropped.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// A portal of that name does not exist.
    INVALID_CURSOR_NAME = "34000";
    /// A database of that name does not exist.
    INVALID_CATALOG_NAME = "3D000";
    /// A savepoint of that name does not exist.
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    /// A schema of that name does not exist.
    INVALID_SCHEMA_NAME = "3F000";
    /// The isolation asked for could not be given this time.
    SERIALIZATION_FAILURE = "40001";
    /// Transactions waited for each other.
    DEADLOCK_DETECTED = "40P01";
    /// The text is not SQL.
    SYNTAX_ERROR = "42601";
    /// Not allowed for this user.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// No cast between the two types.
    CANNOT_COERCE = "42846";
    /// A column outside GROUP BY or an aggregate.
    GROUPING_ERROR = "42803";
    /// Window functions are misplaced.
    WINDOWING_ERROR = "42P20";
    /// A name that is not valid.
    INVALID_NAME = "42602";
    /// A name is too long.
    NAME_TOO_LONG = "42622";
    /// A type does not fit where it stands.
    DATATYPE_MISMATCH = "42804";
    /// A polymorphic type could not be determined.
    INDETERMINATE_DATATYPE = "42P18";
    /// No such column.
    UNDEFINED_COLUMN = "42703";
    /// No such function or operator.
    UNDEFINED_FUNCTION = "42883";
    /// No such table.
    UNDEFINED_TABLE = "42P01";
    /// No such parameter.
    UNDEFINED_PARAMETER = "42P02";
    /// No such object of another kind.
    UNDEFINED_OBJECT = "42704";
    /// A column is named twice.
    DUPLICATE_COLUMN = "42701";
    /// A portal is there already.
    DUPLICATE_CURSOR = "42P03";
    /// A schema is there already.
    DUPLICATE_SCHEMA = "42P06";
    /// A prepared statement is there already.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// A table is there already.
    DUPLICATE_TABLE = "42P07";
    /// A table alias is used twice.
    DUPLICATE_ALIAS = "42712";
    /// Another object is there already.
    DUPLICATE_OBJECT = "42710";
    /// A name that more than one column has.
    AMBIGUOUS_COLUMN = "42702";
    /// A call that more than one function answers.
    AMBIGUOUS_FUNCTION = "42725";
    /// A column reference where none can stand.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A table's definition makes no sense.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A column's definition makes no sense.
    INVALID_COLUMN_DEFINITION = "42611";
    /// An object of another kind was expected.
    WRONG_OBJECT_TYPE = "42809";
    /// A setting cannot be changed now.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// A lock was not to be had in time.
    LOCK_NOT_AVAILABLE = "55P03";
    /// An object is not in the state the command needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// Somebody else is at it.
    OBJECT_IN_USE = "55006";
    /// A message that does not belong here.
    PROTOCOL_VIOLATION = "08P01";
    /// No memory left, or a statement's share of it used up.
    OUT_OF_MEMORY = "53200";
    /// The disk is full.
    DISK_FULL = "53100";
    /// A limit of the program, in size or number.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement is too deep or too long.
    STATEMENT_TOO_COMPLEX = "54001";
    /// More columns than a row can have.
    TOO_MANY_COLUMNS = "54011";
    /// Row versions that a transaction needs are gone.
    SNAPSHOT_TOO_OLD = "72000";
    /// Canceled on request.
    QUERY_CANCELED = "57014";
    /// A client was silent for too long in a transaction.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// A transaction was open for too long.
    TRANSACTION_TIMEOUT = "25P04";
    /// A client was silent for too long.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// The server is stopping.
    ADMIN_SHUTDOWN = "57P01";
    /// The disk failed.
    IO_ERROR = "58030";
    /// A mistake of this program.
    INTERNAL_ERROR = "XX000";
}

/// What a statement failed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Report>);

/// The parts of an [`Error`], as they go to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What drivers act upon.
    pub state: SqlState,
    /// What people read first.
    pub message: String,
    /// More about what happened.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the statement, in characters, from 1.
    pub position: Option<u32>,
    /// What was being done, such as which line of a COPY was read.
    pub context: Option<String>,
    /// The schema of the table concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint violated.
    pub constraint: Option<String>,
    /// What the caller can do.
    pub remedy: Remedy,
    /// What the engine said, of conflicts and locks: it can be said in more words
    /// where the catalog is at hand.
    engine: Option<coeval_txn::Error>,
    /// The number of the table whose rows the detail shows.
    shows_rows_of: Option<u32>,
}

impl Error {
    /// An error of the statement: [`Remedy::Fix`].
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
            engine: None,
            shows_rows_of: None,
        }))
    }

    /// 0A000: `feature` completes "… is not supported".
    #[must_use]
    pub fn unsupported(feature: impl fmt::Display) -> Self {
        Self::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{feature} is not supported"),
        )
    }

    /// 42601.
    #[must_use]
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
    }

    /// 54001, as for a statement nested too deeply.
    #[must_use]
    pub fn too_complex() -> Self {
        Self::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            "the statement is nested too deeply",
        )
        .with_hint("Split the statement, or write long chains of OR as IN (…).")
    }

    /// XX000: a mistake of this program, found before it did harm.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// 57014.
    #[must_use]
    pub fn canceled() -> Self {
        Self::new(
            SqlState::QUERY_CANCELED,
            "canceling statement due to user request",
        )
        .with_remedy(Remedy::Retry)
    }

    /// 53200: a statement used up its share of memory.
    #[must_use]
    pub fn work_memory(limit: usize) -> Self {
        Self::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .with_detail(format!(
                "Sorting, grouping and collecting rows of one statement may take {} kB.",
                limit / 1024
            ))
            .with_hint("Raise work_mem, or ask for fewer rows.")
    }

    /// 53200: the memory that is left for all statements is not enough for one of them.
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

    /// Says where in the statement, unless that is known already.
    #[must_use]
    pub fn at(mut self, position: Option<u32>) -> Self {
        if self.0.position.is_none() {
            self.0.position = position;
        }
        self
    }

    /// Says what was being done, unless that is known already.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        if self.0.context.is_none() {
            self.0.context = Some(context.into());
        }
        self
    }

    /// Changes what the caller can do.
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.0.remedy = remedy;
        self
    }

    /// Names the table concerned.
    #[must_use]
    pub fn with_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Names the column concerned.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Names the constraint violated.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Its parts.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// What drivers act upon.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// What the engine said, if it is about a conflict or a lock.
    /// Adds the detail line, which shows what is in rows of the table with this number:
    /// only for who may read them.
    #[must_use]
    pub(crate) fn with_rows_in_detail(self, table: u32, detail: impl Into<String>) -> Self {
        let mut error = self.with_detail(detail);
        error.0.shows_rows_of = Some(table);
        error
    }

    /// The error for somebody who may read the rows of the tables of which `may_read`
    /// says so.
    pub(crate) fn hiding_rows(mut self, may_read: impl FnOnce(u32) -> bool) -> Self {
        if let Some(table) = self.0.shows_rows_of.take()
            && !may_read(table)
        {
            self.0.detail = None;
        }
        self
    }

    pub(crate) fn engine_error(&self) -> Option<&coeval_txn::Error> {
        self.0.engine.as_ref()
    }

    /// Says something else first.
    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// What the caller can do.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        self.0.remedy
    }

    /// Whether the session ends with it, and not only the statement.
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
                .with_hint("Reads go on. Free some space on the disk of the data directory."),
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

/// The result of most things here.
pub type Result<T> = std::result::Result<T, Error>;
