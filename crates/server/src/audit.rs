//! The audit log: who logged in, or tried to, and who changed the schema, roles or
//! privileges.
//!
//! Its lines are log lines with the target `audit`, so `log_level` can keep them
//! when all else is silent (`error,audit=info`), and with `log_format = json` they
//! are records:
//!
//! ```text
//! INFO audit: login role="ada" database="bank" address=10.1.2.3 tls=true method="scram-sha-256" outcome="ok"
//! INFO audit: login role="eve" … outcome="28P01" reason="the password does not match"
//! INFO audit: definition role="ada" … kind="ALTER ROLE" statement="alter role bob password …" outcome="ok"
//! ```
//!
//! An outcome is `ok` or a SQLSTATE. A definition that is `ok` may still be rolled
//! back by its transaction.
//!
//! Invariants: no password and nothing one could be guessed from is in a line; text
//! from clients is escaped, so that none of it can pass for a line of its own.

use std::net::SocketAddr;

use coeval_sql::Error;
use coeval_sql::session::Portal;
use tracing::info;

/// The longest beginning of a statement that is logged, in bytes.
const LONGEST: usize = 1024;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// From where.
    pub(crate) peer: SocketAddr,
    /// Whether through TLS.
    pub(crate) tls: bool,
    /// As whom.
    pub(crate) user: String,
    /// To which database.
    pub(crate) database: String,
}

impl Client {
    /// Somebody who has not said who they are.
    pub(crate) const fn new(peer: SocketAddr, tls: bool) -> Self {
        Self {
            peer,
            tls,
            user: String::new(),
            database: String::new(),
        }
    }
}

/// Somebody was let in; or was not, for this reason, and with more about it than
/// they are told.
pub(crate) fn login(client: &Client, method: &str, outcome: Result<(), (&Error, &str)>) {
    let (outcome, reason) = match outcome {
        Ok(()) => ("ok", ""),
        Err((error, "")) => (error.state().0, error.report().message.as_str()),
        Err((error, detail)) => (error.state().0, detail),
    };
    info!(
        target: "audit",
        role = ?client.user,
        database = ?client.database,
        address = %client.peer.ip(),
        tls = client.tls,
        method,
        outcome,
        reason = ?reason,
        "login"
    );
}

/// A statement has run; if it is a definition, that is noted. `role` is as whom it
/// ran.
pub(crate) fn ran<T>(client: &Client, role: &str, portal: &Portal, outcome: &Result<T, Error>) {
    let statement = portal.statement();
    let Some(kind) = statement.definition() else {
        return;
    };
    let text = coeval_sql::catalog::truncate_name(statement.text(), LONGEST);
    let outcome = match outcome {
        Ok(_) => "ok",
        Err(error) => error.state().0,
    };
    info!(
        target: "audit",
        user = ?client.user,
        role = ?role,
        database = ?client.database,
        address = %client.peer.ip(),
        kind,
        statement = ?text,
        outcome,
        "definition"
    );
}
