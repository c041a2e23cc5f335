//! Login: takes a connection from its first byte to a session, through authentication and
//! the session limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_leader::node::Node;
use coeval_peers::{NodeId, PeerStream};
use coeval_pgwire::backend::cold;
use coeval_pgwire::{Limits as BufferLimits, ReadBuffer};
use coeval_sql::access::LoginSetting;
use coeval_sql::catalog::MAX_NAME_BYTES;
use coeval_sql::instance::activity::Interrupt;
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Error, SqlState};
use coeval_types::{Remedy, Timestamp};
use tokio::io::AsyncWriteExt;
use tracing::{debug, warn};

use super::authenticate::{Admitted, Line, Refusal, known};
use super::conversation::{Conversation, Moves};
use super::first::{First, Request, first, say};
use super::input::Input;
use super::opening::{self, ACCEPTED, NOT_LEADING, NOT_VOUCHED, Opening, Origin, Vouched};
use super::output::Output;
use super::relay::{self, Leader, Relay};
use super::signal::{ElsewhereToo, Signal};
use super::transport::{ReadHalf, Transport, WriteHalf};
use super::{Here, SessionLocation, elsewhere, login, report, resume};
use crate::audit::Client;
use crate::cluster_view;
use crate::metrics::Sheet;
use crate::registry::{self, Entry};
use crate::serving_term::{Lead, ServingTerm};
use crate::shared::Shared;

/// Lets a client in, or refuses it with an error. `None` when the connection is finished.
///
/// The startup timeout bounds the whole exchange, so a client that sends a byte now and
/// then cannot prolong it.
pub(super) async fn greet(
    shared: &Arc<Shared>,
    stream: coeval_env::Stream,
    peer: SocketAddr,
    sheet: &Arc<Sheet>,
) -> Option<SessionLocation> {
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

/// Lets the client of another node in, on a stream from that node.
pub(super) async fn greet_elsewhere(
    shared: &Arc<Shared>,
    mut stream: PeerStream,
    sheet: &Arc<Sheet>,
) -> Option<Here> {
    let patience = shared.startup_timeout();
    let greeted = async {
        let (origin, resumed) = match opening::read(&mut stream).await? {
            Opening::Cancel { process_id, secret } => {
                shared.registry.cancel(process_id, &secret);
                return None;
            }
            Opening::Account { user } => {
                tell_account(shared, stream, &user).await;
                return None;
            }
            // A node reports its own estimate only.
            Opening::Gamma { node, summary } => {
                if node == stream.node().0 {
                    shared.gamma.take(node, summary);
                }
                return None;
            }
            Opening::Sessions => {
                elsewhere::tell(shared, stream).await;
                return None;
            }
            Opening::Interrupt {
                process_id,
                stay,
                how,
            } => {
                shared.registry.interrupt(process_id, stay, how);
                return None;
            }
            Opening::Session(origin, resumed) => (origin, resumed),
        };
        let node = stream.node();
        if !registry::is_number_of(node.0, origin.process_id) {
            warn!(%node, session = origin.process_id, "a node has opened the session of another one");
            return None;
        }
        let serving_term = shared.serving_term();
        // A session that has begun was let in before.
        let may_begin =
            origin.vouched.is_some() || resumed.is_some() || !cluster_view::lets_clients_in(shared);
        let word = match &serving_term {
            None => NOT_LEADING,
            Some(_) if !may_begin => NOT_VOUCHED,
            Some(_) => ACCEPTED,
        };
        stream.write_all(&[word]).await.ok()?;
        stream.flush().await.ok()?;
        let serving_term = serving_term.filter(|_| may_begin)?;
        let (read, write) = Transport::Peer(Box::new(stream)).into_split();
        let arrival = Arrival {
            client: Client::new(origin.peer, origin.tls),
            binding: origin.binding.clone(),
            request: origin.request.clone(),
            buffer: ReadBuffer::new(BufferLimits::BEFORE_AUTHENTICATION),
            read,
            write,
            number: Some((origin.process_id, origin.secret.clone())),
            vouched: origin.vouched,
            settings: Arc::clone(&origin.settings),
        };
        match resumed {
            None => welcome(shared, &serving_term, arrival, sheet).await,
            Some(resumed) => {
                resume::for_another(shared, &serving_term, arrival, resumed, sheet).await
            }
        }
    };
    coeval_env::timeout(patience, greeted).await.ok().flatten()
}

/// Tells another node, if this one leads, what the login of a user is checked against.
async fn tell_account(shared: &Shared, mut stream: PeerStream, user: &str) {
    let answer = match shared.serving_term() {
        None => vec![NOT_LEADING],
        Some(serving_term) => match serving_term.database.login(user).await {
            Ok(account) => [vec![ACCEPTED], opening::account(&account)].concat(),
            Err(error) => {
                debug!(%error, "no account for the login on another node");
                return;
            }
        },
    };
    let told = async {
        stream.write_all(&answer).await?;
        stream.flush().await?;
        stream.shutdown().await
    };
    if let Err(error) = told.await {
        debug!(%error, "an account for the login on another node is not told");
    }
}

/// A client that wants a session, with its connection.
pub(super) struct Arrival {
    pub(super) client: Client,
    /// The channel binding of the connection.
    pub(super) binding: Option<Arc<[u8]>>,
    pub(super) request: Request,
    pub(super) buffer: ReadBuffer,
    pub(super) read: ReadHalf,
    pub(super) write: WriteHalf,
    /// The number and the secret of the session on the node that the client is connected
    /// to.
    pub(super) number: Option<(i32, Vec<u8>)>,
    /// As whom that node has let the client in, if it has.
    pub(super) vouched: Option<Vouched>,
    /// What that node has told of the client's settings.
    pub(super) settings: Arc<[LoginSetting]>,
}

async fn let_in(
    shared: &Arc<Shared>,
    stream: coeval_env::Stream,
    peer: SocketAddr,
    sheet: &Arc<Sheet>,
) -> Option<SessionLocation> {
    let (start, tls) = match first(shared, stream).await {
        First::Start(start) => {
            let tls = start.transport.is_tls();
            (start, tls)
        }
        First::Done => return None,
        First::Refused(transport, refused) => {
            refuse(transport, &refused, sheet).await;
            return None;
        }
    };
    let route = match &shared.node {
        None => Ok(SessionRoute::Here(shared.serving_term()?)),
        Some(node) => {
            let who = (peer, tls, start.binding.as_ref());
            leader(shared, node, &start.request, who).await
        }
    };
    let serving_term = match route {
        Ok(SessionRoute::Here(serving_term)) => serving_term,
        Ok(SessionRoute::OwnLogin(node)) => {
            return login::login(shared, &node, start, Client::new(peer, tls), sheet).await;
        }
        Ok(SessionRoute::Leader(leader, entry, signal, origin)) => {
            let (read, write) = start.transport.into_split();
            let line = relay::Line {
                input: Input::new(read, start.buffer, Arc::clone(sheet)),
                output: write,
                rest: Vec::new(),
            };
            let mut leader = leader;
            let mut relay = Box::new(Relay::new(shared, origin, (entry, signal), line, sheet));
            if !relay.admit(shared, &mut leader).await {
                sheet.refused();
                return None;
            }
            relay.input.buffer.set_limits(relay::limits(shared));
            return Some(SessionLocation::Elsewhere(relay, Some(leader)));
        }
        Err(refused) => {
            refuse(start.transport, &refused, sheet).await;
            return None;
        }
    };
    let (read, write) = start.transport.into_split();
    let arrival = Arrival {
        client: Client::new(peer, tls),
        binding: start.binding,
        request: start.request,
        buffer: start.buffer,
        read,
        write,
        number: None,
        vouched: None,
        settings: Arc::default(),
    };
    let here = welcome(shared, &serving_term, arrival, sheet).await;
    here.map(|here| SessionLocation::Here(Box::new(here)))
}

async fn refuse(mut transport: Transport, refused: &Error, sheet: &Sheet) {
    debug!(error = %refused, "connection refused");
    sheet.refused();
    sheet.error(refused.state());
    let mut out = Vec::new();
    report::fatal(&mut out, refused);
    say(&mut transport, &out).await;
}

/// The node where a new session runs.
enum SessionRoute {
    Here(Arc<ServingTerm>),
    /// On the leader, which authenticates the client.
    Leader(Leader, Entry, Arc<Signal>, Box<Origin>),
    /// On the leader, or beside a relay; this node authenticates the client.
    OwnLogin(Arc<Node>),
}

/// Interval of the checks for a leader, and for this node's removal.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// Finds the leader of the cluster, for a new session.
async fn leader(
    shared: &Shared,
    node: &Arc<Node>,
    request: &Request,
    (peer, tls, binding): (SocketAddr, bool, Option<&Arc<[u8]>>),
) -> Result<SessionRoute, Error> {
    let patience = Duration::from_millis(shared.settings.cluster_wait_milliseconds);
    let looking = async {
        let streams = node.streams();
        let mut leads = shared.lead.subscribe();
        loop {
            let lead = leads.borrow_and_update().clone();
            if !matches!(lead, Lead::Here(_)) && shared.cluster.is_removed() {
                return Err(relay::removed(shared));
            }
            let is_elsewhere = !matches!(lead, Lead::Here(_));
            if is_elsewhere && cluster_view::lets_clients_in_asked(shared, node).await {
                return Ok(SessionRoute::OwnLogin(Arc::clone(node)));
            }
            let wait = match lead {
                Lead::Here(serving_term) => return Ok(SessionRoute::Here(serving_term)),
                Lead::There(node) => {
                    let signal = Arc::<Signal>::default();
                    let protocol = request.protocol;
                    let entry = shared.registry.enter(&signal, protocol, &RELAYED)?;
                    let origin = Box::new(Origin {
                        process_id: entry.process_id(),
                        secret: entry.secret().to_vec(),
                        peer,
                        tls,
                        binding: binding.cloned(),
                        request: request.clone(),
                        vouched: None,
                        settings: Arc::default(),
                    });
                    let opening = opening::session(&origin, None);
                    match relay::open_or_refused(&streams, node, &opening, &leads).await {
                        Ok(leader) => {
                            return Ok(SessionRoute::Leader(leader, entry, signal, origin));
                        }
                        // A node that joins may not know its cluster's version yet.
                        Err(Some(NOT_VOUCHED)) => {
                            cluster_view::note_own_logins(shared);
                            continue;
                        }
                        Err(_) => relay::BETWEEN,
                    }
                }
                Lead::Nowhere => LOOK,
            };
            // Whether the lead has changed or not, the loop reads it again.
            let _ = coeval_env::timeout(wait, leads.changed()).await;
        }
    };
    let found = coeval_env::timeout(patience, looking).await;
    found.unwrap_or_else(|coeval_env::Elapsed| Err(relay::no_leader()))
}

/// Lets in a client whose session runs here, or refuses it with an error.
async fn welcome(
    shared: &Arc<Shared>,
    serving_term: &Arc<ServingTerm>,
    arrival: Arrival,
    sheet: &Arc<Sheet>,
) -> Option<Here> {
    let Arrival {
        mut client,
        binding,
        mut request,
        buffer,
        read,
        mut write,
        number,
        vouched,
        settings,
    } = arrival;
    // A copy of the request for other nodes, should the session move there.
    let whole = (shared.node.is_some() && number.is_none()).then(|| request.clone());
    let signal = Arc::new(Signal::default());
    let mut input = Input::new(read, buffer, Arc::clone(sheet));
    let mut out = Vec::new();
    let line = Line {
        input: &mut input,
        out: &mut out,
        write: &mut write,
        signal: &signal,
        sheet,
    };
    let place = (shared, &**serving_term);
    let admitted = match take_names(&mut request, &mut client) {
        Err(refused) => Err(refused.into()),
        Ok(()) => match vouched {
            Some(_) => known(&serving_term.database, &client.user, vouched, &settings).await,
            None => admit(place, &request, &client, binding.as_deref(), line).await,
        },
    };
    let refusal = match admitted {
        Ok(admitted) => {
            let number = number.as_ref().map(|(number, secret)| (*number, &**secret));
            let who = (&client, &admitted);
            let opened = open(place, request, number, who, &signal, &mut out);
            match opened {
                Ok((entry, mut session)) => {
                    // The node that has let the client in has logged that.
                    if vouched.is_none() {
                        shared
                            .logins
                            .admitted(&client, admitted.method.as_str(), "");
                    }
                    input.buffer.set_limits(match number {
                        None => relay::limits(shared),
                        Some(_) => relay::limits_of_node(shared),
                    });
                    let mut output = new_output(shared, serving_term, write, &signal, sheet);
                    output.begin_with(out);
                    // The session has not read the database yet, so its messages depend
                    // on no commit.
                    output.flush(Timestamp::ZERO).await.ok()?;
                    output.show_on(session.activity());
                    let origin = whole.map(|request| {
                        Box::new(Origin {
                            process_id: entry.process_id(),
                            secret: entry.secret().to_vec(),
                            peer: client.peer,
                            tls: client.tls,
                            binding,
                            request,
                            vouched: cluster_view::lets_clients_in(shared)
                                .then(|| admitted.vouched()),
                            settings: Arc::clone(&admitted.settings),
                        })
                    });
                    if number.is_some() {
                        session.note_changes();
                    }
                    let limits = shared.limits();
                    let mut conversation =
                        Conversation::new(session, output, signal, limits, client);
                    conversation.moves = match (&shared.node, number) {
                        (None, _) => Moves::Never,
                        (Some(_), None) => Moves::Away,
                        (Some(_), Some(_)) => Moves::Back,
                    };
                    conversation.tells_reads = Some(Arc::clone(&shared.tells_reads));
                    conversation.carries_blocks = Some(Arc::clone(&shared.carries_blocks));
                    conversation.look_again(shared, serving_term);
                    return Some(Here {
                        entry,
                        input,
                        conversation,
                        origin,
                    });
                }
                Err(refused) => Refusal::from(refused),
            }
        }
        Err(refusal) => refusal,
    };
    turn_away(shared, &client, refusal, &mut write, sheet).await;
    None
}

/// Tells a client that it is not let in, and closes the connection.
pub(super) async fn turn_away(
    shared: &Shared,
    client: &Client,
    refusal: Refusal,
    write: &mut WriteHalf,
    sheet: &Sheet,
) {
    sheet.refused();
    let Refusal::Error(mut refused, detail) = refusal else {
        return;
    };
    if shared.node.is_some() && refused.remedy() == Remedy::Fatal {
        refused = relay::no_leader();
    }
    sheet.error(refused.state());
    shared.logins.refused(client, &refused, &detail);
    let mut out = Vec::new();
    report::fatal(&mut out, &refused);
    let told = async {
        write.write_all(&out).await?;
        write.flush().await?;
        sheet.sent(out.len());
        write.shutdown().await
    };
    if let Err(error) = told.await {
        debug!(%error, "a client that is not let in is not told so");
    }
}

/// A new output buffer for the session's answers.
pub(super) fn new_output(
    shared: &Shared,
    serving_term: &ServingTerm,
    write: WriteHalf,
    signal: &Arc<Signal>,
    sheet: &Arc<Sheet>,
) -> Output {
    let engine = Arc::clone(&serving_term.engine);
    let high_water = shared.settings.output_buffer_bytes;
    let most = shared.settings.max_result_bytes;
    let (signal, sheet) = (Arc::clone(signal), Arc::clone(sheet));
    Output::new(write, engine, signal, high_water, most, sheet)
}

/// Takes the client's name and database from its request.
pub(super) fn take_names(request: &mut Request, client: &mut Client) -> Result<(), Error> {
    let Some(user) = request.take("user").filter(|user| !user.is_empty()) else {
        let missing = "no PostgreSQL user name specified in startup packet";
        return Err(Error::new(SqlState("28000"), missing));
    };
    client.user = coeval_sql::catalog::truncate_name(&user, MAX_NAME_BYTES).to_owned();
    client.database = request
        .take("database")
        .filter(|database| !database.is_empty())
        .unwrap_or_else(|| client.user.clone());
    if let Some(replication) = request.take("replication")
        && !matches!(replication.as_str(), "false" | "off" | "no" | "0")
    {
        return Err(Error::unsupported("replication by PostgreSQL's protocol"));
    }
    Ok(())
}

/// Tells a client that speaks a newer protocol which one this server speaks.
pub(super) fn negotiate(request: &Request, out: &mut Vec<u8>) -> Result<(), Error> {
    if !request.negotiate {
        return Ok(());
    }
    let options: Vec<_> = request.options.iter().map(String::as_str).collect();
    cold::negotiate_protocol_version(out, request.protocol, &options)
        .map_err(|error| report::from_wire(&error))
}

/// Authenticates a client whose session runs here.
async fn admit(
    (shared, serving_term): (&Arc<Shared>, &ServingTerm),
    request: &Request,
    client: &Client,
    binding: Option<&[u8]>,
    line: Line<'_>,
) -> Result<Admitted, Refusal> {
    let account = serving_term.database.login(&client.user).await?;
    login::admit(shared, (request, client, binding), &account, line).await
}

/// The registration of a relayed session: the leader counts it against its role's limit.
const RELAYED: registry::SessionRequest = registry::SessionRequest {
    role: 0,
    limit: None,
    privileged: true,
};

/// The session's options, which are the same for a new session and for one that
/// continues.
pub(super) fn options(
    shared: &Shared,
    request: &mut Request,
    client: &Client,
    admitted: &Admitted,
    (entry, signal): (&Entry, &Arc<Signal>),
) -> Result<SessionOptions, Error> {
    let mut options = SessionOptions {
        database: client.database.clone(),
        user: client.user.clone(),
        role: Some(admitted.login),
        application_name: request.take("application_name").unwrap_or_default(),
        process_id: entry.process_id(),
        cancel: signal.cancel_flag(),
        interrupt: Some(interrupt(shared, entry, signal)),
        client: Some(client.peer),
        defaults: shared.settings.of_sessions(),
        stored: Arc::clone(&admitted.settings),
        parameters: Vec::new(),
        limits: shared.limits(),
        privileged: admitted.place.privileged,
    };
    if let Some(switches) = request.take("options") {
        options.parameters.extend(command_line(&switches)?);
    }
    options.parameters.append(&mut request.parameters);
    Ok(options)
}

/// The handle by which other sessions cancel the session's statement. The statement of another
/// node's client may run there.
fn interrupt(shared: &Shared, entry: &Entry, signal: &Arc<Signal>) -> Arc<dyn Interrupt> {
    let of_client = registry::node_of(entry.process_id());
    match &shared.node {
        Some(node) if of_client != shared.settings.cluster_node => Arc::new(ElsewhereToo {
            signal: Arc::clone(signal),
            streams: node.streams(),
            of_client: NodeId(of_client),
            process_id: entry.process_id(),
            secret: entry.secret().to_vec(),
        }),
        _ => Arc::clone(signal) as _,
    }
}

/// The value with which the session of this client begins: the client's, its role's, or this
/// node's; `None` if none of them says one.
pub(super) fn at_start(shared: &Shared, origin: &Origin, name: &str) -> Option<String> {
    let request = &origin.request;
    let last = |settings: &[(String, String)]| {
        let mut settings = settings.iter().rev();
        let found = settings.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    };
    let switches = || {
        let mut parameters = request.parameters.iter();
        let (_, switches) = parameters.find(|(key, _)| key == "options")?;
        last(&command_line(switches).ok()?)
    };
    let asked = last(&request.parameters).or_else(switches);
    let of_role = || {
        let mut settings = origin.settings.iter().rev();
        let found = settings.find(|setting| setting.name.eq_ignore_ascii_case(name));
        found.map(|setting| setting.value.clone())
    };
    let asked = asked.or_else(of_role);
    asked.or_else(|| last(&shared.settings.of_sessions()))
}

/// Opens the session of an authenticated client.
fn open(
    (shared, serving_term): (&Arc<Shared>, &ServingTerm),
    mut request: Request,
    number: Option<(i32, &[u8])>,
    (client, admitted): (&Client, &Admitted),
    signal: &Arc<Signal>,
    out: &mut Vec<u8>,
) -> Result<(Entry, Session), Error> {
    let (place, registry) = (&admitted.place, &shared.registry);
    let entry = match number {
        None => registry.enter(signal, request.protocol, place)?,
        Some(number) => registry.enter_from_elsewhere(signal, place, number)?,
    };
    let options = options(shared, &mut request, client, admitted, (&entry, signal))?;
    let mut session = Session::new(Arc::clone(&serving_term.database), options)?;
    tell_beginning(&mut session, &entry, out)?;
    Ok((entry, session))
}

/// Tells a client that its session has begun.
pub(super) fn tell_beginning(
    session: &mut Session,
    entry: &Entry,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let unsendable = |error| report::from_wire(&error);
    cold::authentication_ok(out);
    for warning in session.take_login_warnings() {
        report::notice(out, &warning);
    }
    for (name, value) in session.take_parameter_changes() {
        cold::parameter_status(out, &name, &value).map_err(unsendable)?;
    }
    cold::backend_key_data(out, entry.process_id(), entry.secret()).map_err(unsendable)?;
    let idle = coeval_pgwire::backend::hot::TransactionStatus::Idle;
    coeval_pgwire::backend::hot::ready_for_query(out, idle);
    Ok(())
}

/// Parses settings in the form of command line switches: `-c name=value` and
/// `--name=value`, with a backslash before a blank within a value.
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
    use coeval_pgwire::startup::Protocol;
    use coeval_sql::access::SettingSource;
    use coeval_sql::session::Database;

    use super::*;

    #[test]
    fn a_setting_of_a_role_that_cannot_be_set_is_a_warning() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let engine = coeval_occ::Engine::ephemeral(coeval_occ::Settings::default()).unwrap();
        let opening = Database::open(Arc::new(engine));
        let database = runtime.block_on(opening).unwrap();
        let stored = |name: &str, value: &str| LoginSetting {
            source: SettingSource::Role,
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let warnings = |settings: &[LoginSetting]| {
            let options = SessionOptions {
                stored: settings.into(),
                ..SessionOptions::default()
            };
            let mut session = Session::new(Arc::clone(&database), options).unwrap();
            let registry = crate::registry::Registry::new(10, 0, 1);
            let entry = registry.enter(&Arc::default(), Protocol::V3_0, &RELAYED);
            let mut out = Vec::new();
            tell_beginning(&mut session, &entry.unwrap(), &mut out).unwrap();
            let mut messages = Vec::new();
            while let [kind, length @ .., _] = &out[..]
                && let Some(length) = length.first_chunk()
            {
                let end = 1 + u32::from_be_bytes(*length) as usize;
                let contents = String::from_utf8_lossy(&out[5..end]).into_owned();
                messages.push((*kind, contents));
                out.drain(..end);
            }
            let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).collect();
            assert!(kinds.ends_with("KZ"), "{kinds}");
            let warnings = messages.into_iter().filter(|(kind, _)| *kind == b'N');
            warnings.map(|(_, contents)| contents).collect::<Vec<_>>()
        };
        let bad = stored("no_longer", "1");
        let told = warnings(&[bad.clone(), stored("work_mem", "8MB")]);
        assert_eq!(told.len(), 1, "{told:?}");
        for part in [
            "WARNING",
            "C42704",
            "unrecognized configuration parameter \"no_longer\"",
        ] {
            assert!(told[0].contains(part), "{told:?}");
        }
        let quiet = [bad, stored("client_min_messages", "error")];
        assert!(warnings(&quiet).is_empty());
    }

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
