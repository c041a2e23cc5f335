//! Failures of a workload's transaction: every outcome other than a commit.

use std::borrow::Cow;
use std::time::Duration;

use coeval_txn::{Cause, Error};
use coeval_types::Remedy;
use tokio_postgres::error::SqlState;

/// Outcome of a transaction other than a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The workload chose to roll back: TPC-C rolls back one new order in a hundred.
    Rollback,
    /// The database aborted the transaction.
    Aborted {
        /// The cause as one word: a SQLSTATE over the wire, otherwise a name such as
        /// `write_write`.
        cause: Cow<'static, str>,
        /// Error message for people; empty if a retry may succeed.
        message: String,
        /// Whether a retry may succeed.
        retry: bool,
    },
    /// The outcome is unknown: the connection was lost during a commit, or the server
    /// reported an unknown outcome.
    Unknown {
        /// The cause as one word, as in [`Failure::Aborted`].
        cause: Cow<'static, str>,
        /// Error message for people.
        message: String,
    },
    /// The transaction read data that violates the workload's own invariants.
    Wrong(String),
}

impl Failure {
    /// Whether the failure shows that the server is broken: the data read violates an
    /// invariant, or the answer was an internal error or one of its disk (SQLSTATE
    /// classes XX and 58).
    #[must_use]
    pub fn is_the_servers(&self) -> bool {
        match self {
            Self::Wrong(_) => true,
            Self::Aborted { cause, .. } | Self::Unknown { cause, .. } => {
                cause.starts_with("XX") || cause.starts_with("58")
            }
            Self::Rollback => false,
        }
    }

    /// Failure of a transaction whose connection was lost before the commit.
    pub(super) fn lost(message: &dyn std::fmt::Display) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed("connection"),
            message: message.to_string(),
            retry: true,
        }
    }

    /// Failure of a transaction that got no answer within the timeout.
    pub(super) fn silent(limit: Duration) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed(SILENT),
            message: format!("no answer within {limit:?}"),
            retry: true,
        }
    }

    /// Failure of a commit without an answer within the timeout: it may have succeeded,
    /// or may yet.
    pub(super) fn silent_commit(limit: Duration) -> Self {
        Self::Unknown {
            cause: Cow::Borrowed(SILENT),
            message: format!("no answer to a commit within {limit:?}"),
        }
    }

    /// Marks a duplicate-key failure as retryable, for a key that another transaction has
    /// inserted concurrently.
    #[must_use]
    pub fn or_retry_duplicate(self) -> Self {
        match self {
            Self::Aborted { cause, message, .. } if cause == DUPLICATE || cause == "23505" => {
                Self::Aborted {
                    cause,
                    message,
                    retry: true,
                }
            }
            other => other,
        }
    }

    /// Failure of an insert whose key already exists.
    pub(super) fn duplicate(table: &str) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed(DUPLICATE),
            message: format!("a row of {table} has the key already"),
            retry: false,
        }
    }

    /// Failure of a transaction for an error of the transaction contract.
    #[must_use]
    pub fn aborted(error: &Error) -> Self {
        let retry = error.remedy() == Remedy::Retry;
        Self::Aborted {
            cause: Cow::Borrowed(cause(error)),
            message: if retry {
                String::new()
            } else {
                error.to_string()
            },
            retry,
        }
    }

    /// Failure of a transaction for an error of a statement.
    pub(super) fn statement(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            None => Self::lost(error),
            Some(said) => {
                let retry = is_retryable(said.code());
                Self::Aborted {
                    cause: Cow::Owned(said.code().code().to_owned()),
                    message: if retry {
                        String::new()
                    } else {
                        said.message().to_owned()
                    },
                    retry,
                }
            }
        }
    }

    /// Failure of a transaction for an error of its commit: the outcome is unknown unless
    /// the server reported an abort.
    pub(super) fn commit(error: &tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return Self::Unknown {
                cause: Cow::Borrowed("connection"),
                message: error.to_string(),
            };
        };
        let code = said.code().code();
        // By SQLSTATE class: errors caused by a client, a constraint, a conflict or a
        // limit mean an abort. 40003 and 08007 report an unknown outcome; after an
        // operator's intervention, a system error or an internal error the outcome has to
        // be assumed unknown.
        let undone = ["22", "23", "25", "40", "42", "53", "54", "55"]
            .iter()
            .any(|class| code.starts_with(class));
        if undone && *said.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            || *said.code() == SqlState::QUERY_CANCELED
        {
            Self::statement(error)
        } else {
            Self::Unknown {
                cause: Cow::Owned(code.to_owned()),
                message: said.message().to_owned(),
            }
        }
    }
}

const DUPLICATE: &str = "duplicate_key";
const SILENT: &str = "no_answer";

fn is_retryable(code: &SqlState) -> bool {
    [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        // The server is starting, stopping, or has too many clients.
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(code)
}

/// A one-word cause for each error of the contract.
fn cause(error: &Error) -> &'static str {
    match error {
        Error::Conflict(conflict) => match conflict.cause {
            Cause::WriteWrite => "write_write",
            Cause::ReadChanged => "read_changed",
            Cause::RangeChanged => "range_changed",
            Cause::RingOverflow => "ring_overflow",
            Cause::LockOrder => "lock_order",
            Cause::Schema => "schema",
        },
        Error::Deadlock { .. } => "deadlock",
        Error::LockTimeout(_) => "lock_timeout",
        Error::LockNotAvailable(_) => "lock_not_available",
        Error::SchemaChanged(_) => "schema",
        Error::SnapshotTooOld => "snapshot_too_old",
        Error::Canceled => "canceled",
        Error::ReadOnly => "read_only",
        Error::RowTooLarge { .. } | Error::WriteSetTooLarge { .. } => "too_large",
        Error::TooManyTransactions { .. } => "too_many_transactions",
        Error::OutOfMemory => "out_of_memory",
        Error::DiskFull(_) => "disk_full",
        Error::Io(_) => "io_error",
        Error::Unknown(_) => "unknown_name",
        Error::Stopped(_) => "stopped",
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rollback => formatter.write_str("rolled back, as it wanted to"),
            Self::Aborted { cause, message, .. } => write!(formatter, "aborted: {cause} {message}"),
            Self::Unknown { cause, message } => {
                write!(formatter, "outcome unknown: {cause} {message}")
            }
            Self::Wrong(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}
