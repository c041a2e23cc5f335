//! The home session: opened in the state that the leader's session has, and kept there.

use std::sync::Arc;

use coeval_sql::Error;
use coeval_sql::session::Session;
use tracing::debug;

use super::Not;
use super::stamp::PATIENCE;
use crate::access::Method;
use crate::audit::Client;
use crate::metrics::AtLeader;
use crate::reader::Reader;
use crate::registry::SessionRequest;
use crate::session::authenticate::Admitted;
use crate::session::conversation::{Conversation, Moves};
use crate::session::output::Output;
use crate::session::relay::Relay;
use crate::session::transport::WriteHalf;
use crate::session::{greet, resume};
use crate::shared::Shared;

/// Most pieces that a home session follows; one that has missed more begins anew, in the
/// state that the relay keeps.
const MAX_PIECES: usize = 256;

/// The home session, with the reader that it reads.
pub(super) struct Home {
    pub(super) reader: Arc<Reader>,
    pub(super) conversation: Conversation,
}

impl Relay {
    /// Keeps what the leader's session has told.
    pub(in crate::session) fn told(&mut self, piece: &[u8]) {
        self.reads.note_marked(piece);
        if let Err(error) = self.handover.apply(piece) {
            debug!(%error, "what a session carries is not understood");
        }
        if self.reads.home.is_some() {
            self.reads.pieces.push(piece.to_vec());
        }
        if self.reads.pieces.len() > MAX_PIECES && !self.reads.is_in_block() {
            self.reads.home = None;
            self.reads.pieces.clear();
        }
        self.reads.forget_settings();
    }

    /// Prepares for another leader, which tells the session's role anew. A block that is here
    /// goes on.
    pub(in crate::session) fn meet_leader(&mut self) {
        if self.origin.vouched.is_none() {
            self.handover.forget_login();
        }
        self.handover.forget_cursors();
        let in_block = self.reads.is_in_block();
        let before = std::mem::take(&mut self.reads);
        self.reads.block = before.block;
        if in_block {
            self.reads.home = before.home;
            self.reads.is_outlived = true;
        }
    }

    /// The messages that the next node gets with the session are part of its state now. A
    /// block that can move does so.
    pub(in crate::session) fn leave_home(&mut self) {
        self.lose_fixed_block();
        self.reads.leave();
        let before = std::mem::take(&mut self.reads);
        self.reads.block = before.block;
    }

    /// Brings the home session to the state of the leader's, and opens it before that if
    /// there is none that reads this reader.
    pub(super) async fn follow(
        &mut self,
        shared: &Arc<Shared>,
        reader: &Arc<Reader>,
    ) -> Result<(), Not> {
        let same = |home: &Home| Arc::ptr_eq(&home.reader, reader);
        if !self.reads.home.as_deref().is_some_and(same) {
            self.reads.home = None;
            self.reads.pieces.clear();
            // Both look up roles, in a state that the leader is asked for.
            let opening = coeval_env::timeout(PATIENCE, self.open_home(shared, reader));
            match opening.await {
                Ok(Ok(home)) => {
                    self.reads.home = Some(Box::new(home));
                    self.reads.listing = None;
                }
                Ok(Err(error)) => {
                    debug!(%error, "a session does not read on its client's node");
                    return Err(Not::Leader(AtLeader::State));
                }
                Err(coeval_env::Elapsed) => return Err(Not::Leader(AtLeader::Lost)),
            }
        }
        if !self.reads.pieces.is_empty()
            && let Some(home) = &mut self.reads.home
        {
            let session = &mut home.conversation.session;
            let following = coeval_env::timeout(PATIENCE, session.follow(&self.reads.pieces));
            if !matches!(following.await, Ok(Ok(()))) {
                debug!("a session on its client's node does not follow the leader's");
                self.reads.home = None;
            } else {
                follows_leader(session);
            }
            self.reads.pieces.clear();
        }
        match &self.reads.home {
            Some(_) => Ok(()),
            None => Err(Not::Leader(AtLeader::State)),
        }
    }

    /// Opens the home session, in the state that the leader's session has.
    async fn open_home(
        &mut self,
        shared: &Arc<Shared>,
        reader: &Arc<Reader>,
    ) -> Result<Home, Error> {
        let state = || Error::internal("the leader has not told who has logged in");
        let login = self.handover.login().ok_or_else(state)?;
        let mut request = self.origin.request.clone();
        let mut client = Client::new(self.origin.peer, self.origin.tls);
        client.user = resume::user(&request)?;
        client.database = request
            .take("database")
            .filter(|database| !database.is_empty())
            .unwrap_or_else(|| client.user.clone());
        // These parameters are no settings; login has handled them.
        let _ = (request.take("user"), request.take("replication"));
        let admitted = Admitted {
            login,
            place: SessionRequest {
                role: login.role,
                limit: None,
                privileged: login.superuser,
            },
            method: Method::Trust,
            as_visitor: false,
            settings: Arc::clone(&self.origin.settings),
        };
        let place = (&self.entry, &self.signal);
        let options = greet::options(shared, &mut request, &client, &admitted, place)?;
        let database = Arc::clone(&reader.database);
        let handover = self.handover.clone();
        let (session, refused) = Session::resume(database, options, handover, false).await?;
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        let mut output = Output::new(
            WriteHalf::Lent,
            Arc::clone(&reader.engine),
            Arc::clone(&self.signal),
            shared.settings.output_buffer_bytes,
            shared.settings.max_result_bytes,
            Arc::clone(&self.sheet),
        );
        output.show_on(session.activity());
        let signal = Arc::clone(&self.signal);
        let limits = shared.limits();
        let mut conversation = Conversation::new(session, output, signal, limits, client);
        conversation.moves = Moves::Home;
        follows_leader(&mut conversation.session);
        conversation.session.rest();
        Ok(Home {
            reader: Arc::clone(reader),
            conversation,
        })
    }
}

/// The session has the leader's state, of which the leader has told the client.
fn follows_leader(session: &mut Session) {
    session.note_changes_here();
    session.take_parameter_changes();
}
