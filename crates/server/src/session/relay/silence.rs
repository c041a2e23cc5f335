//! Limits on the silence of a client that its own node watches: of one in a transaction
//! block at home, and of one in none, because the leader does not hear of what is read here.
//! The leader watches the client that is in a block there.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use coeval_sql::Error;
use coeval_sql::instance::{Deadline, TimeLimit};

use super::Relay;
use crate::shared::Shared;

/// What limits a client's silence.
pub(super) enum Silence {
    /// The client is not silent, or it is not known yet.
    Unknown,
    /// Nothing does.
    Unlimited,
    /// This moment, and this setting.
    Until(Pin<Box<dyn Future<Output = ()> + Send>>, TimeLimit),
}

impl Relay {
    /// Records that the client has sent a message.
    pub(in crate::session) fn hear(&mut self) {
        self.silence = Silence::Unknown;
    }

    /// The error that ends the session when its client has been silent for too long.
    pub(super) fn poll_silence(
        &mut self,
        shared: &Shared,
        context: &mut Context<'_>,
    ) -> Option<Error> {
        let is_silent = self.is_admitted
            && self.input.buffer.is_empty()
            && self.client.is_empty()
            && self.tracker.is_at_rest();
        if !is_silent {
            self.silence = Silence::Unknown;
            return None;
        }
        if let Silence::Unknown = self.silence {
            self.silence = match self.patience_with_client(shared) {
                None => Silence::Unlimited,
                Some(Deadline { at, limit }) => {
                    Silence::Until(Box::pin(coeval_env::sleep_until(at)), limit)
                }
            };
        }
        let Silence::Until(late, limit) = &mut self.silence else {
            return None;
        };
        match late.as_mut().poll(context) {
            Poll::Ready(()) => Some(limit.error()),
            Poll::Pending => None,
        }
    }

    fn patience_with_client(&mut self, shared: &Shared) -> Option<Deadline> {
        if let Some(session) = self.reads.session_in_block() {
            return session.patience();
        }
        // Below that version the leader watches.
        if !shared.carries_blocks.load(Ordering::Relaxed) {
            return None;
        }
        let timeout = match self.reads.idle_timeout() {
            Some(known) => known,
            None => {
                let found = self.timeout(shared, "idle_session_timeout");
                self.reads.keep_idle_timeout(found);
                found
            }
        }?;
        Some(Deadline {
            at: coeval_env::now() + timeout,
            limit: TimeLimit::IdleSession,
        })
    }
}
