//! Sessions elsewhere: those of clients of other nodes, for `pg_cancel_backend` and
//! `pg_terminate_backend`.
//!
//! A client of a follower that only reads has its session there, and the leader, which
//! executes these functions, does not know it. A function cannot wait. So the session asks
//! the other nodes for their sessions before it executes a statement that calls one of the
//! functions, and a call looks its number up in their answers.
//!
//! ```text
//!   select pg_cancel_backend(2097153)          on the leader, node 1
//!     ask nodes 2 and 3 ──▶ their sessions: number, role, stay
//!     2097153 is one of node 2, of role 16384: may the caller?  ──▶ node 2: cancel
//! ```
//!
//! As in PostgreSQL, *true* says that the session was there and that the interruption is on
//! its way. A later session that gets the same number has another stay, so it is not meant.
//!
//! Invariant: a node that has not answered is not taken for one without sessions; a call with
//! a number of its sessions fails.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;

use crate::error::{Error, Result, SqlState};

/// What a session does to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Cancels the statement that runs, if any.
    Cancel,
    /// Ends the session, and cancels its statement.
    Terminate,
}

/// A session of another node's client, as that node has told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionElsewhere {
    /// Process id of the session, as `pg_backend_pid()` returns it.
    pub process_id: i32,
    /// OID of the role that has logged in.
    pub role: u32,
    /// Distinguishes successive sessions of the node that have the same process id.
    pub stay: u64,
}

/// The sessions of other nodes' clients.
#[derive(Clone, Debug, Default)]
pub struct SessionsElsewhere {
    by_process_id: BTreeMap<i32, SessionElsewhere>,
    /// Nodes that have not answered, and the process ids of their sessions.
    silent: Vec<(u64, Range<i32>)>,
}

/// Future of the sessions of other nodes' clients.
pub type Finding = Pin<Box<dyn Future<Output = SessionsElsewhere> + Send>>;

impl SessionsElsewhere {
    /// Adds the sessions that a node has told.
    pub fn add(&mut self, told: impl IntoIterator<Item = SessionElsewhere>) {
        let told = told.into_iter();
        let told = told.map(|session| (session.process_id, session));
        self.by_process_id.extend(told);
    }

    /// Records that a node whose sessions have these process ids has not answered.
    pub fn is_silent(&mut self, node: u64, process_ids: Range<i32>) {
        self.silent.push((node, process_ids));
    }

    /// The session of this process id, if there is one.
    ///
    /// # Errors
    /// 57P03 if the node that would have it has not answered.
    pub(crate) fn find(&self, process_id: i32) -> Result<Option<SessionElsewhere>> {
        let of = |silent: &&(u64, Range<i32>)| silent.1.contains(&process_id);
        if let Some((node, _)) = self.silent.iter().find(of) {
            let message = format!("node {node} does not answer whether it has the session");
            return Err(Error::new(SqlState("57P03"), message)
                .with_hint("Call the function again, or connect to that node."));
        }
        Ok(self.by_process_id.get(&process_id).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_not_taken_for_an_empty_one() {
        let session = SessionElsewhere {
            process_id: 12,
            role: 10,
            stay: 1,
        };
        let mut all = SessionsElsewhere::default();
        all.add([session]);
        all.is_silent(3, 20..30);
        assert_eq!(all.find(12).unwrap(), Some(session));
        for absent in [11, 19, 30, 0, -1] {
            assert_eq!(all.find(absent).unwrap(), None);
        }
        for unknown in [20, 29] {
            let error = all.find(unknown).unwrap_err();
            assert_eq!(error.state().0, "57P03");
            assert!(error.report().message.contains("node 3"));
        }
    }
}
