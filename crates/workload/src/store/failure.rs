//! How a transaction can end other than by a commit.

use std::borrow::Cow;
use std::time::Duration;

use coeval_txn::{Cause, Error};
use coeval_types::Remedy;
use tokio_postgres::error::SqlState;

/// How a transaction ended, if not by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It wanted to: TPC-C rolls one new order in a hundred back.
    Rollback,
    /// It was undone.
    Aborted {
        /// Why, in a word: a SQLSTATE over the wire, else a name as `write_write`.
        cause: Cow<'static, str>,
        /// What was said, for people; empty where it is worth trying again.
        message: String,
        /// Whether trying again is worth while.
        retry: bool,
    },
    /// Nobody knows: the connection was lost over a commit, or the server could not
    /// say.
    Unknown {
        /// Why, as above.
        cause: Cow<'static, str>,
        /// What was said.
        message: String,
    },
    /// What was read is wrong in itself.
    Wrong(String),
}

impl Failure {
    /// Whether it says that the server is broken: what was read is wrong in itself, or the
    /// answer was an internal error or one of its disk (SQLSTATE XX and 58).
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

    /// Undone because the connection was lost, before there was a commit.
    pub(super) fn lost(message: &dyn std::fmt::Display) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed("connection"),
            message: message.to_string(),
            retry: true,
        }
    }

    /// The same, because no answer came in time.
    pub(super) fn silent(limit: Duration) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed(SILENT),
            message: format!("no answer within {limit:?}"),
            retry: true,
        }
    }

    /// No answer to a commit came in time: it may have been done, or may yet be.
    pub(super) fn silent_commit(limit: Duration) -> Self {
        Self::Unknown {
            cause: Cow::Borrowed(SILENT),
            message: format!("no answer to a commit within {limit:?}"),
        }
    }

    /// The same, to be tried again: for a key that another transaction has inserted
    /// meanwhile.
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

    /// What an insert of a key that is there already is.
    pub(super) fn duplicate(table: &str) -> Self {
        Self::Aborted {
            cause: Cow::Borrowed(DUPLICATE),
            message: format!("a row of {table} has the key already"),
            retry: false,
        }
    }

    /// What an error of the contract is for the transaction that met it.
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

    /// What an error of a statement is for the transaction that met it.
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

    /// What an error of a commit is: when the server did not say that the
    /// transaction is undone, nobody knows.
    pub(super) fn commit(error: &tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return Self::Unknown {
                cause: Cow::Borrowed("connection"),
                message: error.to_string(),
            };
        };
        let code = said.code().code();
        // By class: what a client, a constraint, a conflict or a limit has caused is
        // undone. 40003 and 08007 say that it is not known; of an operator's
        // intervention, a system's error or a defect it has to be assumed.
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
        // A server that is starting, stopping, or has too many clients.
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::TOO_MANY_CONNECTIONS,
    ]
    .contains(code)
}

/// A word for each error of the contract.
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
        Error::WriteSetTooLarge { .. } => "too_large",
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
                write!(formatter, "nobody knows how it ended: {cause} {message}")
            }
            Self::Wrong(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}
