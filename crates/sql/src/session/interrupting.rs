//! Finding the sessions that `pg_cancel_backend` and `pg_terminate_backend` name: other nodes are
//! asked for those that this one does not know, as late as the statement allows.

use std::sync::Arc;

use super::Session;
use crate::expression::Interrupts;
use crate::instance::{SessionsElsewhere, Sought};
use crate::value::Value;

/// When other nodes are asked for the sessions that a statement interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// Before it begins.
    First,
    /// Once a call needs that: the statement may be executed anew.
    Later,
    /// They were.
    Asked,
}

impl Session {
    /// Asks the other nodes for the sessions that a statement interrupts and this node does not
    /// know. If that is not known yet, and the statement may be executed anew, it begins
    /// without.
    pub(super) async fn find_sessions(&mut self, interrupts: &Interrupts, parameters: &[Value]) {
        if self.asks == Asks::Asked {
            return;
        }
        self.info.elsewhere = None;
        let around = &self.info.around;
        let is_here = |number| around.activities().find(number).is_some();
        let Some(sought) = interrupts.sought(parameters, is_here) else {
            return;
        };
        self.info.elsewhere = match around.host() {
            None => None,
            Some(_) if self.asks == Asks::Later && sought == Sought::Any => {
                Some(Arc::new(SessionsElsewhere::unasked()))
            }
            Some(host) => {
                let found = host.sessions_elsewhere(sought);
                Some(Arc::new(found.await))
            }
        };
    }

    /// Asks all other nodes for their sessions, if a call of the statement has failed for want
    /// of that. Returns whether it has.
    pub(super) async fn find_lacking_sessions(&mut self) -> bool {
        let tried = self.info.elsewhere.clone();
        let Some(tried) = tried.filter(|tried| self.asks == Asks::Later && tried.lacks()) else {
            return false;
        };
        let Some(host) = self.info.around.host() else {
            return false;
        };
        let found = host.sessions_elsewhere(Sought::Any);
        self.info.elsewhere = Some(Arc::new(tried.asked(found.await)));
        self.asks = Asks::Asked;
        true
    }
}
