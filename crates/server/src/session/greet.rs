//! From the first byte of a connection to a session: what is wanted, who wants it,
//! whether there is room.

use std::net::SocketAddr;
use std::sync::Arc;

use coeval_pgwire::Limits;
use coeval_pgwire::backend::cold;
use coeval_sql::catalog::MAX_NAME_BYTES;
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Error, SqlState};
use coeval_types::Timestamp;
use tracing::debug;

use super::authenticate::{Admitted, Claim, Line, Refusal, authenticate};
use super::conversation::Conversation;
use super::first::{First, Request, first, say};
use super::input::Input;
use super::output::Output;
use super::report;
use super::signal::Signal;
use crate::audit::{self, Client};
use crate::metrics::Sheet;
use crate::registry::Entry;
use crate::shared::Shared;

/// A session that was let in.
pub(super) struct Greeted {
    pub(super) user: String,
    pub(super) entry: Entry,
    pub(super) input: Input,
    pub(super) conversation: Conversation,
}

/// Lets a client in, or says why not. `None` when there is nothing more to do.
///
/// All of it together may take no longer than the setting for a start allows: who
/// sends a byte now and then is not waited for.
pub(super) async fn greet(
    shared: &Arc<Shared>,
    stream: coeval_env::Stream,
    peer: SocketAddr,
    sheet: &Arc<Sheet>,
) -> Option<Greeted> {
    let patience = shared.startup_timeout();
    let greeted = coeval_env::timeout(patience, let_in(shared, stream, peer, sheet)).await;
    match greeted {
        Ok(greeted) => greeted,
        Err(coeval_env::Elapsed) => {
            debug!(address = %peer.ip(), "a client did not say in time who it is");
            sheet.refused();
            None
        }
    }
}

async fn let_in(
    shared: &Arc<Shared>,
    stream: coeval_env::Stream,
    peer: SocketAddr,
    sheet: &Arc<Sheet>,
) -> Option<Greeted> {
    let (start, tls) = match first(shared, stream).await {
        First::Start(start) => {
            let tls = start.transport.is_tls();
            (start, tls)
        }
        First::Done => return None,
        First::Refused(mut transport, refused) => {
            debug!(error = %refused, "connection refused");
            sheet.refused();
            sheet.error(refused.state());
            let mut out = Vec::new();
            report::fatal(&mut out, &refused);
            say(&mut transport, &out).await;
            return None;
        }
    };
    let signal = Arc::new(Signal::default());
    let (read, write) = start.transport.into_split();
    let mut input = Input::new(read, start.buffer, Arc::clone(sheet));
    let engine = Arc::clone(&shared.engine);
    let high_water = shared.settings.output_buffer_bytes;
    let most = shared.settings.max_result_bytes;
    let sheet = Arc::clone(sheet);
    let mut output = Output::new(write, engine, Arc::clone(&signal), high_water, most, sheet);
    let mut request = start.request;
    let mut client = Client::new(peer, tls);
    let line = Line {
        input: &mut input,
        output: &mut output,
        signal: &signal,
    };
    let binding = start.binding.as_deref();
    let admitted = admit(shared, &mut request, &mut client, binding, line).await;
    let refusal = match admitted {
        Ok(admitted) => {
            let opened = open(shared, request, &client, &admitted, &signal, &mut output);
            match opened {
                Ok((entry, session)) => {
                    audit::login(&client, admitted.method.as_str(), Ok(()));
                    input.buffer.set_limits(Limits {
                        long_message: shared.settings.max_message_bytes,
                        ..Limits::default()
                    });
                    // Nothing has been read from the database yet, so all may be sent.
                    output.flush(Timestamp::ZERO).await.ok()?;
                    output.show_on(session.activity());
                    let limits = shared.limits();
                    return Some(Greeted {
                        user: client.user.clone(),
                        entry,
                        input,
                        conversation: Conversation::new(session, output, signal, limits, client),
                    });
                }
                Err(refused) => Refusal::from(refused),
            }
        }
        Err(refusal) => refusal,
    };
    output.sheet().refused();
    let Refusal::Error(refused, detail) = refusal else {
        return None;
    };
    output.sheet().error(refused.state());
    audit::login(&client, "", Err((&refused, &detail)));
    output.buffer.clear();
    report::fatal(&mut output.buffer, &refused);
    if output.flush(Timestamp::ZERO).await.is_ok() {
        output.close().await;
    }
    None
}

/// Finds out who wants a session.
async fn admit(
    shared: &Shared,
    request: &mut Request,
    client: &mut Client,
    binding: Option<&[u8]>,
    line: Line<'_>,
) -> Result<Admitted, Refusal> {
    let Some(user) = request.take("user").filter(|user| !user.is_empty()) else {
        let missing = "no PostgreSQL user name specified in startup packet";
        return Err(Error::new(SqlState("28000"), missing).into());
    };
    client.user = coeval_sql::catalog::truncate_name(&user, MAX_NAME_BYTES).to_owned();
    client.database = request
        .take("database")
        .filter(|database| !database.is_empty())
        .unwrap_or_else(|| client.user.clone());
    if let Some(replication) = request.take("replication")
        && !matches!(replication.as_str(), "false" | "off" | "no" | "0")
    {
        return Err(Error::unsupported("replication by PostgreSQL's protocol").into());
    }
    if request.negotiate {
        let options: Vec<_> = request.options.iter().map(String::as_str).collect();
        let out = &mut line.output.buffer;
        cold::negotiate_protocol_version(out, request.protocol, &options)
            .map_err(|error| report::from_wire(&error))?;
    }
    let claim = Claim {
        user: &client.user,
        database: &client.database,
        address: client.peer.ip(),
        tls: client.tls,
        binding,
    };
    authenticate(shared, &claim, line).await
}

/// Opens the session of somebody who was let in.
fn open(
    shared: &Arc<Shared>,
    mut request: Request,
    client: &Client,
    admitted: &Admitted,
    signal: &Arc<Signal>,
    output: &mut Output,
) -> Result<(Entry, Session), Error> {
    let place = &admitted.place;
    let entry = shared.registry.enter(signal, request.protocol, place)?;
    let mut options = SessionOptions {
        database: client.database.clone(),
        user: client.user.clone(),
        role: Some(admitted.login),
        application_name: request.take("application_name").unwrap_or_default(),
        process_id: entry.process_id(),
        cancel: signal.cancel_flag(),
        interrupt: Some(signal.clone()),
        client: Some(client.peer),
        defaults: shared.settings.of_sessions(),
        parameters: Vec::new(),
        limits: shared.limits(),
        privileged: place.privileged,
    };
    if let Some(switches) = request.take("options") {
        options.parameters.extend(command_line(&switches)?);
    }
    options.parameters.append(&mut request.parameters);
    let mut session = Session::new(Arc::clone(&shared.database), options)?;

    let out = &mut output.buffer;
    let unsendable = |error| report::from_wire(&error);
    cold::authentication_ok(out);
    for (name, value) in session.take_parameter_changes() {
        cold::parameter_status(out, &name, &value).map_err(unsendable)?;
    }
    cold::backend_key_data(out, entry.process_id(), entry.secret()).map_err(unsendable)?;
    let idle = coeval_pgwire::backend::hot::TransactionStatus::Idle;
    coeval_pgwire::backend::hot::ready_for_query(out, idle);
    Ok((entry, session))
}

/// Settings as command line switches: `-c name=value` and `--name=value`, with a
/// backslash before a blank that belongs to a value.
fn command_line(switches: &str) -> Result<Vec<(String, String)>, Error> {
    let mut words = vec![String::new()];
    let mut characters = switches.chars();
    while let Some(character) = characters.next() {
        let word = match character {
            '\\' => characters.next(),
            blank if blank.is_whitespace() => None,
            other => Some(other),
        };
        match (word, words.last_mut()) {
            (Some(character), Some(last)) => last.push(character),
            _ => words.push(String::new()),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        let pair = setting
            .as_deref()
            .and_then(|setting| setting.split_once('='));
        let Some((name, value)) = pair else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_as_command_line_switches() {
        let settings =
            command_line(r"-c lock_timeout=5s --time-zone=UTC -csearch_path=a\ b").unwrap();
        let settings: Vec<_> = settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            settings,
            [
                ("lock_timeout", "5s"),
                ("time_zone", "UTC"),
                ("search_path", "a b"),
            ]
        );
        assert_eq!(command_line("  ").unwrap(), []);
        for wrong in ["-c", "-c lock_timeout", "-x", "word"] {
            assert!(command_line(wrong).is_err(), "{wrong}");
        }
    }
}
