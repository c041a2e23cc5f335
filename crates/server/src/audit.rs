//! The audit log: records logins, failed attempts, and changes of the schema, roles or
//! privileges, each with the role.
//!
//! Its lines are log lines with the target `audit`, so `log_level` can keep them while it
//! silences all other lines (`error,audit=info`), and with `log_format = json` they are
//! JSON records:
//!
//! ```text
//! INFO audit: login role="ada" database="bank" address=10.1.2.3 tls=true method="scram-sha-256" outcome="ok"
//! INFO audit: login role="eve" … outcome="28P01" reason="the password does not match"
//! INFO audit: definition role="ada" … kind="ALTER ROLE" statement="alter role bob password …" outcome="ok"
//! ```
//!
//! So has the founding of a cluster without the word of other founders, for which the
//! administrator vouches: once at each founder, when that takes effect, and not at every start
//! with the flag.
//!
//! ```text
//! WARN audit: founds without node=1 without={3}
//! ```
//!
//! An outcome is `ok` or a SQLSTATE. A definition that is `ok` may still be rolled
//! back by its transaction.
//!
//! Failed logins have at most a hundred lines at once and ten a second; a line says how many
//! had none.
//!
//! Invariants: no line has a password or anything that a password could be guessed from;
//! the logger escapes text from clients, so that a client cannot forge a line.

mod limiter;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use coeval_peers::NodeId;
use coeval_sql::Error;
use coeval_sql::session::Portal;
use tracing::{info, warn};

use self::limiter::Limiter;

/// Maximum length of the logged beginning of a statement, in bytes.
const LONGEST: usize = 1024;

/// The client of a connection, as the audit log names it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// Whether the connection uses TLS.
    pub(crate) tls: bool,
    /// The role name that the client logged in with.
    pub(crate) user: String,
    /// The database that the client asked for.
    pub(crate) database: String,
}

impl Client {
    /// A client that has not named its role yet.
    pub(crate) const fn new(peer: SocketAddr, tls: bool) -> Self {
        Self {
            peer,
            tls,
            user: String::new(),
            database: String::new(),
        }
    }
}

/// The audit log of logins.
#[derive(Debug)]
pub(crate) struct Logins {
    failures: Limiter,
}

impl Logins {
    pub(crate) fn new() -> Self {
        Self {
            failures: Limiter::new(),
        }
    }

    /// Logs a login, with a remark about it.
    pub(crate) fn admitted(&self, client: &Client, method: &str, remark: &str) {
        report_suppressed(self.failures.take_suppressed());
        login(client, method, "ok", remark);
    }

    /// Logs a failed login, with the error that the client got and a detail that only the
    /// log gets, unless there are too many of them.
    pub(crate) fn refused(&self, client: &Client, error: &Error, detail: &str) {
        let now = coeval_env::now();
        let Some(suppressed) = self.failures.admit(!client.user.is_empty(), now) else {
            return;
        };
        report_suppressed(suppressed);
        let reason = match detail {
            "" => error.report().message.as_str(),
            detail => detail,
        };
        login(client, "", error.state().0, reason);
    }
}

fn report_suppressed(count: u64) {
    if count > 0 {
        info!(target: "audit", count, "failed logins without a line of their own");
    }
}

fn login(client: &Client, method: &str, outcome: &str, reason: &str) {
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

/// Logs that a node has founded its cluster without the word of founders for which an
/// administrator vouches.
pub(crate) fn founds_without(node: u64, without: &BTreeSet<NodeId>) {
    let without: BTreeSet<u64> = without.iter().map(|node| node.0).collect();
    warn!(
        target: "audit",
        node,
        ?without,
        "founds without: the administrator vouches that these nodes hold no log of the cluster"
    );
}

/// Logs a statement after it has run, if it is a definition. `role` is the role that it
/// ran as.
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
