//! The first packets: encryption is declined, a cancel request is passed on, a
//! session is let in.

use std::sync::Arc;

use coeval_pgwire::backend::cold;
use coeval_pgwire::startup::{Packet, Protocol};
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Error, SqlState};
use coeval_types::Timestamp;
use tracing::debug;

use super::conversation::Conversation;
use super::input::{Input, Wake};
use super::output::Output;
use super::report;
use super::signal::Signal;
use crate::registry::Entry;
use crate::shared::Shared;

/// A session that was let in.
pub(super) struct Greeted {
    pub(super) user: String,
    pub(super) entry: Entry,
    pub(super) input: Input,
    pub(super) conversation: Conversation,
}

/// What somebody said first.
enum First {
    Start(Request),
    /// Nothing further happens on this connection.
    Done,
    Refused(Error),
}

/// A session start, independent of the bytes it came in.
struct Request {
    protocol: Protocol,
    negotiate: bool,
    options: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Request {
    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.parameters.iter().rposition(|(key, _)| key == name)?;
        Some(self.parameters.swap_remove(place).1)
    }
}

/// Lets a client in, or says why not. `None` when there is nothing more to do.
pub(super) async fn greet(
    shared: &Arc<Shared>,
    mut input: Input,
    stream: coeval_env::WriteHalf,
) -> Option<Greeted> {
    let signal = Arc::new(Signal::default());
    let engine = Arc::clone(&shared.engine);
    let high_water = shared.settings.output_buffer_bytes;
    let most = shared.settings.max_result_bytes;
    let mut output = Output::new(stream, engine, Arc::clone(&signal), high_water, most);

    let patience = shared.startup_timeout();
    let first = coeval_env::timeout(patience, first(shared, &mut input, &mut output, &signal));
    let refused = match first.await {
        Ok(First::Start(request)) => match admit(shared, request, &signal, &mut output).await {
            Ok((user, entry, session)) => {
                // Nothing has been read from the database yet, so all may be sent.
                output.flush(Timestamp::ZERO).await.ok()?;
                return Some(Greeted {
                    user,
                    entry,
                    input,
                    conversation: Conversation::new(session, output, signal, shared.limits()),
                });
            }
            Err(refused) => refused,
        },
        Ok(First::Done) => return None,
        Ok(First::Refused(refused)) => refused,
        Err(coeval_env::Elapsed) => {
            debug!("a client did not say in time who it is");
            return None;
        }
    };
    debug!(error = %refused, "connection refused");
    output.buffer.clear();
    report::fatal(&mut output.buffer, &refused);
    let _ = coeval_env::timeout(patience, output.flush(Timestamp::ZERO)).await;
    None
}

async fn first(shared: &Shared, input: &mut Input, output: &mut Output, signal: &Signal) -> First {
    // Encryption may be asked for once in each kind; then a session has to start.
    let mut declined = 0;
    loop {
        let packet = match input.buffer.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => match input.fill(signal, false, None).await {
                Wake::Bytes => continue,
                Wake::Gone | Wake::Terminated | Wake::Canceled | Wake::Late(_) => {
                    return First::Done;
                }
            },
            Err(error) => return First::Refused(report::from_wire(&error)),
        };
        match packet {
            Packet::SslRequest | Packet::GssEncryptionRequest if declined < 2 => {
                declined += 1;
                output.buffer.push(b'N');
                if output.flush(Timestamp::ZERO).await.is_err() {
                    return First::Done;
                }
            }
            Packet::SslRequest | Packet::GssEncryptionRequest => {
                let error = report::violation("encryption was declined already");
                return First::Refused(error);
            }
            Packet::Cancel { process_id, secret } => {
                shared.registry.cancel(process_id, secret);
                return First::Done;
            }
            Packet::Start(start) => {
                let owned = |text: &&str| (*text).to_owned();
                return First::Start(Request {
                    protocol: start.protocol,
                    negotiate: start.negotiate,
                    options: start.options.iter().map(owned).collect(),
                    parameters: start
                        .parameters
                        .iter()
                        .map(|(name, value)| (owned(name), owned(value)))
                        .collect(),
                });
            }
        }
    }
}

async fn admit(
    shared: &Arc<Shared>,
    mut request: Request,
    signal: &Arc<Signal>,
    output: &mut Output,
) -> Result<(String, Entry, Session), Error> {
    let Some(user) = request.take("user").filter(|user| !user.is_empty()) else {
        let missing = "no PostgreSQL user name specified in startup packet";
        return Err(Error::new(SqlState("28000"), missing));
    };
    if let Some(replication) = request.take("replication")
        && !matches!(replication.as_str(), "false" | "off" | "no" | "0")
    {
        return Err(Error::unsupported("replication by PostgreSQL's protocol"));
    }
    let superuser = is_superuser(&user);
    let entry = shared.registry.enter(signal, request.protocol, superuser)?;
    let mut options = SessionOptions {
        database: request.take("database").unwrap_or_else(|| user.clone()),
        user: user.clone(),
        application_name: request.take("application_name").unwrap_or_default(),
        process_id: entry.process_id(),
        cancel: signal.cancel_flag(),
        defaults: shared.settings.of_sessions(),
        parameters: Vec::new(),
        limits: shared.limits(),
        privileged: superuser,
    };
    if let Some(switches) = request.take("options") {
        options.parameters.extend(command_line(&switches)?);
    }
    options.parameters.append(&mut request.parameters);
    let mut session = Session::new(Arc::clone(&shared.database), options)?;

    let out = &mut output.buffer;
    let unsendable = |error| report::from_wire(&error);
    if request.negotiate {
        let options: Vec<_> = request.options.iter().map(String::as_str).collect();
        cold::negotiate_protocol_version(out, request.protocol, &options).map_err(unsendable)?;
    }
    cold::authentication_ok(out);
    for (name, value) in session.take_parameter_changes() {
        cold::parameter_status(out, &name, &value).map_err(unsendable)?;
    }
    cold::backend_key_data(out, entry.process_id(), entry.secret()).map_err(unsendable)?;
    let idle = coeval_pgwire::backend::hot::TransactionStatus::Idle;
    coeval_pgwire::backend::hot::ready_for_query(out, idle);
    Ok((user, entry, session))
}

/// Whether this user may take the connections that are reserved, and need not wait
/// for admission. Without authentication a name is all there is to go by.
fn is_superuser(user: &str) -> bool {
    matches!(user, "coeval" | "postgres")
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
