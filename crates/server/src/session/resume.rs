//! Moves of sessions between nodes: a session that runs here becomes a relay to the new
//! leader, and a relayed session continues here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coeval_pgwire::backend::cold;
use coeval_sql::Error;
use coeval_sql::access::LoginSetting;
use coeval_sql::session::{Session, SessionHandover};
use coeval_types::{Remedy, Timestamp};
use tracing::debug;

use super::authenticate::{Admitted, Refusal, known};
use super::conversation::{Conversation, Moves};
use super::first::Request;
use super::greet::{self, Arrival, new_output, options};
use super::input::Input;
use super::opening::{Origin, Resumed, Vouched};
use super::output::Output;
use super::relay::{self, Relay};
use super::signal::Signal;
use super::{Here, SessionLocation, report};
use crate::audit::Client;
use crate::metrics::Sheet;
use crate::registry::Entry;
use crate::serving_term::ServingTerm;
use crate::shared::Shared;

/// Turns a session that has run here into a relay to the next leader.
pub(super) fn elsewhere(
    shared: &Shared,
    mut conversation: Conversation,
    input: Input,
    entry: Entry,
    origin: Box<Origin>,
) -> Relay {
    let mut told = Vec::new();
    let tracker = conversation.leave(&mut told);
    let mut handover = conversation.session.handover();
    let commit = conversation.session.last_commit();
    let is_understood = shared.tells_reads.load(Ordering::Relaxed);
    if is_understood && conversation.output.knows_durable(commit) {
        handover.keep_commit(commit);
    }
    let Conversation {
        session,
        output,
        signal,
        sheet,
        ..
    } = conversation;
    // Dropping the session aborts its transaction and releases its locks.
    drop(session);
    signal.has_left();
    let (output, mut rest) = output.into_rest();
    rest.append(&mut told);
    let line = relay::Line {
        input,
        output,
        rest,
    };
    let mut relay = Relay::new(shared, origin, (entry, signal), line, &sheet);
    relay.go_on(handover, tracker);
    relay
}

/// Continues a relayed session on this node. Returns its new place, or `None` when it was
/// refused.
pub(super) async fn here(
    shared: &Arc<Shared>,
    serving_term: Arc<ServingTerm>,
    mut relay: Box<Relay>,
) -> Option<SessionLocation> {
    relay.signal.has_left();
    let mut client = Client::new(relay.origin.peer, relay.origin.tls);
    let mut request = relay.origin.request.clone();
    let resumed = async {
        let word = (relay.origin.vouched, &relay.origin.settings);
        let admitted = readmit(&serving_term, &mut request, &mut client, word).await?;
        let mut session = resume(
            (shared, &serving_term),
            request,
            (&client, &admitted),
            (&relay.entry, &relay.signal),
            relay.handover.clone(),
            relay.tracker.in_transaction(),
        )
        .await?;
        let block = relay.reads.take_block();
        session.follow(block.as_slice()).await?;
        Ok((admitted, session))
    };
    let resumed: Result<_, Error> = resumed.await;
    let (admitted, mut session) = match resumed {
        Ok(resumed) => resumed,
        Err(error) if error.remedy() == Remedy::Fatal => {
            // This serving term has ended as well.
            coeval_env::sleep(relay::BETWEEN).await;
            return Some(SessionLocation::Elsewhere(relay, None));
        }
        Err(error) => {
            relay.say_last(&error).await;
            return None;
        }
    };
    relay.entry.belongs_to(admitted.place.role);
    let (signal, sheet) = (Arc::clone(&relay.signal), Arc::clone(&relay.sheet));
    let owed = relay.tracker.owed();
    let (input, write, rest, origin, entry) = relay.into_parts();
    let mut output = new_output(shared, &serving_term, write, &signal, &sheet);
    output.begin_with(rest);
    tell_parameters(&mut session, &mut output);
    output.show_on(session.activity());
    let mut conversation = Conversation::new(session, output, signal, shared.limits(), client);
    conversation.moves = Moves::Away;
    conversation.owed = owed;
    conversation.look_again(shared, &serving_term);
    // The client gets its changed parameters at once, before its next statement.
    if conversation.output.flush(Timestamp::ZERO).await.is_err() {
        return None;
    }
    Some(SessionLocation::Here(Box::new(Here {
        entry,
        input,
        conversation,
        origin: Some(origin),
    })))
}

/// Continues the session of another node's client on this node.
pub(super) async fn for_another(
    shared: &Arc<Shared>,
    serving_term: &Arc<ServingTerm>,
    arrival: Arrival,
    resumed: Resumed,
    sheet: &Arc<Sheet>,
) -> Option<Here> {
    let Arrival {
        mut client,
        mut request,
        mut buffer,
        read,
        write,
        number,
        vouched,
        settings,
        ..
    } = arrival;
    let signal = Arc::new(Signal::default());
    let mut output = new_output(shared, serving_term, write, &signal, sheet);
    let mut handover = SessionHandover::default();
    for piece in &resumed.pieces {
        if let Err(error) = handover.apply(piece) {
            debug!(%error, "what a session carries is not understood");
        }
    }
    buffer.set_limits(relay::limits_of_node(shared));
    let input = Input::new(read, buffer, Arc::clone(sheet));
    let (number, secret) = number?;
    let opened = async {
        let word = (vouched, &settings);
        let admitted = readmit(serving_term, &mut request, &mut client, word).await?;
        let number = (number, &*secret);
        let place = &admitted.place;
        let entry = shared
            .registry
            .enter_from_elsewhere(&signal, place, number)?;
        let session = resume(
            (shared, serving_term),
            request,
            (&client, &admitted),
            (&entry, &signal),
            handover,
            resumed.in_transaction,
        )
        .await?;
        Ok((entry, session))
    };
    let (entry, mut session) = match opened.await {
        Ok(opened) => opened,
        Err(error) => {
            let error: Error = error;
            // If the serving term has ended, the end of the stream informs the other
            // node.
            if error.remedy() != Remedy::Fatal {
                report::fatal(&mut output.buffer, &error);
                let _ = output.flush(Timestamp::ZERO).await;
                output.close().await;
            }
            return None;
        }
    };
    tell_parameters(&mut session, &mut output);
    output.flush(Timestamp::ZERO).await.ok()?;
    session.note_changes();
    output.show_on(session.activity());
    let mut conversation = Conversation::new(session, output, signal, shared.limits(), client);
    conversation.moves = Moves::Back;
    conversation.tells_reads = Some(Arc::clone(&shared.tells_reads));
    conversation.carries_blocks = Some(Arc::clone(&shared.carries_blocks));
    conversation.look_again(shared, serving_term);
    Some(Here {
        entry,
        input,
        conversation,
        origin: None,
    })
}

/// Looks up, in the state that this leader has, the role of a client that was let in before.
async fn readmit(
    serving_term: &ServingTerm,
    request: &mut Request,
    client: &mut Client,
    (vouched, settings): (Option<Vouched>, &Arc<[LoginSetting]>),
) -> Result<Admitted, Error> {
    greet::take_names(request, client)?;
    let admitted = known(&serving_term.database, &client.user, vouched, settings);
    admitted.await.map_err(error)
}

async fn resume(
    (shared, serving_term): (&Shared, &ServingTerm),
    mut request: Request,
    (client, admitted): (&Client, &Admitted),
    place: (&Entry, &Arc<Signal>),
    handover: SessionHandover,
    in_transaction: bool,
) -> Result<Session, Error> {
    let options = options(shared, &mut request, client, admitted, place)?;
    let database = Arc::clone(&serving_term.database);
    let (session, refused) = Session::resume(database, options, handover, in_transaction).await?;
    for error in refused {
        debug!(%error, "a setting of a session is not taken over");
    }
    Ok(session)
}

pub(super) fn user(request: &Request) -> Result<String, Error> {
    let found = request.parameters.iter().rfind(|(name, _)| name == "user");
    let missing = || report::violation("a session without a user");
    let (_, user) = found.ok_or_else(missing)?;
    let most = coeval_sql::catalog::MAX_NAME_BYTES;
    Ok(coeval_sql::catalog::truncate_name(user, most).to_owned())
}

pub(super) fn error(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Error(error, _) => error,
        Refusal::Gone => report::violation("the client has gone"),
    }
}

/// Writes the parameters whose values may differ from those that the client has.
fn tell_parameters(session: &mut Session, output: &mut Output) {
    for (name, value) in session.take_parameter_changes() {
        // A value too long for a message is not reported.
        let _ = cold::parameter_status(&mut output.buffer, &name, &value);
    }
}
