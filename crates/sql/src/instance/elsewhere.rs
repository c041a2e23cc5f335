//! Sessions elsewhere: those of clients of other nodes, for `pg_cancel_backend` and
//! `pg_terminate_backend`.
//!
//! A client of a follower that only reads has its session there, and the leader, which
//! executes these functions, does not know it. A function cannot wait. So before it executes
//! a statement that calls one of the functions, the session asks the other nodes for the
//! sessions that the leader does not have, and a call looks its number up in their answers. The
//! number says which node would have the session: no other is asked.
//!
//! If a number is not known before the statement runs (`expression::interrupts`), the statement
//! begins as if the leader had all sessions. A call that needs the others' answers fails; then the
//! session asks all nodes, and executes the statement anew. Calls that were made already are not
//! made again ([`Tried`]). A statement that could not be executed anew asks first.
//!
//! ```text
//!   select pg_cancel_backend(2097153)          on the leader, node 1, which lacks it
//!     ask node 2 ──▶ its sessions: number, role, stay
//!     2097153 is one of them, of role 16384: may the caller?  ──▶ node 2: cancel
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result, SqlState};

/// What a session does to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interruption {
    /// Cancels the statement that runs, if any.
    Cancel,
    /// Ends the session, and cancels its statement.
    Terminate,
}

/// The sessions that other nodes are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Any.
    Any,
    /// Those with these process ids.
    These(Vec<i32>),
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
    /// Whether no node was asked yet.
    is_unasked: bool,
    tried: Option<Arc<Tried>>,
}

/// The calls of a statement that was begun before the other nodes were asked.
#[derive(Debug, Default)]
struct Tried {
    /// Whether one needs their answers.
    lacks: AtomicBool,
    /// The results of the others.
    done: Mutex<BTreeMap<(i32, Interruption), bool>>,
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

    /// For a statement that begins before the other nodes are asked.
    pub(crate) fn unasked() -> Self {
        Self {
            is_unasked: true,
            tried: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// Whether a call has failed because no node was asked.
    pub(crate) fn lacks(&self) -> bool {
        let tried = self.tried.as_ref().filter(|_| self.is_unasked);
        tried.is_some_and(|tried| tried.lacks.load(Ordering::Relaxed))
    }

    /// What the other nodes have told since, for the same statement.
    pub(crate) fn asked(&self, told: Self) -> Self {
        Self {
            tried: self.tried.clone(),
            ..told
        }
    }

    /// The result of a call, if the statement has made it already.
    pub(crate) fn done(&self, process_id: i32, how: Interruption) -> Option<bool> {
        let done = &self.tried.as_ref()?.done;
        let done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get(&(process_id, how)).copied()
    }

    /// Records the result of a call.
    pub(crate) fn note(&self, process_id: i32, how: Interruption, is_there: bool) {
        if let Some(tried) = &self.tried {
            let mut done = tried.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.insert((process_id, how), is_there);
        }
    }

    /// Records that a node whose sessions have these process ids has not answered.
    pub fn is_silent(&mut self, node: u64, process_ids: Range<i32>) {
        self.silent.push((node, process_ids));
    }

    /// The session of this process id, if there is one.
    ///
    /// # Errors
    /// 57P03 if the node that would have it has not answered, or was not asked.
    pub(crate) fn find(&self, process_id: i32) -> Result<Option<SessionElsewhere>> {
        if let Some(tried) = self.tried.as_ref().filter(|_| self.is_unasked) {
            tried.lacks.store(true, Ordering::Relaxed);
            let message = format!("no other node was asked whether it has session {process_id}");
            return Err(Error::new(SqlState("57P03"), message)
                .with_hint("Call the function with this number, and with no other."));
        }
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
    fn what_was_done_before_the_nodes_were_asked_is_not_done_again() {
        use Interruption::{Cancel, Terminate};
        let first = SessionsElsewhere::unasked();
        assert_eq!((first.lacks(), first.done(7, Cancel)), (false, None));
        first.note(7, Cancel, true);
        assert_eq!(first.find(12).unwrap_err().state().0, "57P03");
        assert!(first.lacks());
        let second = first.asked(SessionsElsewhere::default());
        assert_eq!(second.find(12).unwrap(), None);
        assert!(!second.lacks());
        assert_eq!(second.done(7, Cancel), Some(true));
        assert_eq!(second.done(7, Terminate), None);
        // A statement that was not begun before makes each of its calls.
        let asked = SessionsElsewhere::default();
        asked.note(7, Cancel, true);
        assert_eq!(asked.done(7, Cancel), None);
    }

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
