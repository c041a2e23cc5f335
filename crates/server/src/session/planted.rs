//! Planted bugs of a server's sessions, for tests of the checkers.

use std::time::Duration;

use coeval_sql::instance::TimeLimit;
use coeval_sql::session::Session;
use coeval_sql::{Error, SqlState};
use coeval_types::{Timestamp, planted};

use super::Ended;
use super::output::Output;

/// Reports a commit as rolled back when its sync takes more than a tenth of a second.
pub(super) async fn take_slow_for_failed(
    output: &mut Output,
    newest_seen: Timestamp,
) -> Result<(), Ended> {
    if !planted!(SlowIsFailed) {
        return Ok(());
    }
    let durable = std::future::poll_fn(|context| output.engine.poll_durable(newest_seen, context));
    let waited = coeval_env::timeout(Duration::from_millis(100), durable).await;
    if waited.is_ok() {
        return Ok(());
    }
    let error = Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the transaction is undone: its sync takes too long",
    );
    output.say_last(&error).await;
    Err(Ended::Fatal(error))
}

/// Keeps a session whose transaction a time limit has ended, without that transaction.
pub(super) fn outlives(session: &mut Session, limit: TimeLimit) -> bool {
    let outlives = planted!(SessionOutlivesTimeout) && limit == TimeLimit::IdleInTransaction;
    if outlives {
        session.forget_transaction();
    }
    outlives
}

/// Commits the open transaction of a session that ends because the server stops.
pub(super) async fn commit_on_stop(session: &mut Session, error: &Error) {
    if planted!(CommitOnStop) && error.state() == SqlState::ADMIN_SHUTDOWN {
        session.commit_whatever_there_is().await;
    }
}

/// Commits the open transaction of a client whose connection breaks.
pub(super) async fn commit_on_disconnect(session: &mut Session, ended: &Ended) {
    if planted!(CommitOnDisconnect) && matches!(ended, Ended::Gone) {
        session.commit_whatever_there_is().await;
    }
}
