//! Planted bugs of a server's sessions.

use std::time::Duration;

use coeval_sql::instance::TimeLimit;
use coeval_sql::session::Session;
use coeval_sql::{Error, SqlState};
use coeval_types::{Timestamp, planted};

use super::Ended;
use super::output::Output;

/// A commit of which the sync takes more than a tenth of a second is told to have been
/// undone.
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

/// A session whose transaction a time limit has ended goes on without one.
pub(super) fn outlives(session: &mut Session, limit: TimeLimit) -> bool {
    let outlives = planted!(SessionOutlivesTimeout) && limit == TimeLimit::IdleInTransaction;
    if outlives {
        session.forget_transaction();
    }
    outlives
}

/// A session that ends because the server stops commits what its client had done.
pub(super) async fn commit_on_stop(session: &mut Session, error: &Error) {
    if planted!(CommitOnStop) && error.state() == SqlState::ADMIN_SHUTDOWN {
        session.commit_whatever_there_is().await;
    }
}

/// The server commits what a client had done whose connection breaks.
pub(super) async fn commit_on_disconnect(session: &mut Session, ended: &Ended) {
    if planted!(CommitOnDisconnect) && matches!(ended, Ended::Gone) {
        session.commit_whatever_there_is().await;
    }
}
