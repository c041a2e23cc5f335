//! Login on a node that follows: the node that a client is connected to lets it in, by its own
//! access file, TLS and limits.
//!
//! ```text
//!   client ──▶ access file, TLS and limits of this node
//!              roles and passwords of the newest state             (account)
//!                │ let in
//!                ├─ the session is to run on the leader ─▶ the leader takes this node's word
//!                └─ it reads here, or no leader answers ─▶ it begins here; the leader gets it
//!                                                          once the client needs it
//! ```
//!
//! The leader authenticates no client of another node. It is told the role's number, looks up
//! the role in its own state, and counts the session against the role's limit and its own
//! ([`known`](super::authenticate::known)). So a session gains nothing by the node that it
//! came through.
//!
//! From cluster version 4 on. Below it the leader lets the clients of all nodes in.

use std::sync::Arc;

use coeval_leader::node::Node;
use coeval_peers::NodeId;
use coeval_sql::instance::activity::Listing;
use coeval_sql::session::settings::ReadFrom;
use coeval_sql::session::{Account, Database, Session};
use coeval_sql::{Error, SqlState};

use super::SessionLocation;
use super::account::{self, FoundAccount};
use super::authenticate::{Admitted, Claim, Line, Refusal, authenticate};
use super::first::{Request, Start};
use super::greet::{at_start, negotiate, options, take_names, tell_beginning, turn_away};
use super::input::Input;
use super::opening::{self, Origin};
use super::relay::{self, Leader, Relay, Unconfirmed};
use super::signal::Signal;
use crate::audit::Client;
use crate::metrics::Sheet;
use crate::serving_term::Lead;
use crate::shared::Shared;

/// The audit log's remark about a login that no leader was asked for.
const AS_SHOWN: &str = "no leader answered: by the newest state that this node shows";

/// A client that this node has let in.
struct LetIn {
    client: Client,
    /// The request without the client's names.
    rest: Request,
    admitted: Admitted,
    found: FoundAccount,
}

/// Lets a client in, or refuses it with an error. `None` when the connection is finished.
pub(super) async fn login(
    shared: &Arc<Shared>,
    node: &Node,
    start: Box<Start>,
    mut client: Client,
    sheet: &Arc<Sheet>,
) -> Option<SessionLocation> {
    let Start {
        transport,
        buffer,
        request,
        binding,
    } = *start;
    let (read, mut write) = transport.into_split();
    let signal = Arc::<Signal>::default();
    let mut input = Input::new(read, buffer, Arc::clone(sheet));
    let mut out = Vec::new();
    let line = Line {
        input: &mut input,
        out: &mut out,
        write: &mut write,
        signal: &signal,
        sheet,
    };
    let mut rest = request.clone();
    let admitting = async {
        take_names(&mut rest, &mut client)?;
        let found = account::find(shared, node, &client.user).await?;
        let binding = binding.as_deref();
        let admitted = admit(shared, (&rest, &client, binding), &found.account, line).await;
        let admitted = admitted.map_err(|refusal| remark(refusal, &found))?;
        let entry = shared
            .registry
            .enter(&signal, request.protocol, &admitted.place)?;
        Ok((found, admitted, entry))
    };
    let (found, admitted, entry) = match admitting.await {
        Ok(let_in) => let_in,
        Err(refusal) => {
            turn_away(shared, &client, refusal, &mut write, sheet).await;
            return None;
        }
    };
    let origin = Box::new(Origin {
        process_id: entry.process_id(),
        secret: entry.secret().to_vec(),
        peer: client.peer,
        tls: client.tls,
        binding,
        request,
        vouched: Some(admitted.vouched()),
        settings: Arc::clone(&admitted.settings),
    });
    let line = relay::Line {
        input,
        output: write,
        rest: out,
    };
    let relay = Box::new(Relay::new(shared, origin, (entry, signal), line, sheet));
    let let_in = LetIn {
        client,
        rest,
        admitted,
        found,
    };
    begin(shared, node, relay, let_in, sheet).await
}

/// Authenticates a client of this node.
pub(super) async fn admit(
    shared: &Shared,
    (request, client, binding): (&Request, &Client, Option<&[u8]>),
    account: &Account,
    line: Line<'_>,
) -> Result<Admitted, Refusal> {
    negotiate(request, line.out)?;
    let claim = Claim {
        user: &client.user,
        database: &client.database,
        address: client.peer.ip(),
        tls: client.tls,
        binding,
    };
    authenticate(&shared.access(), account, &claim, line).await
}

/// Adds to the reason of a refusal, for the audit log, that no leader was asked.
fn remark(refusal: Refusal, found: &FoundAccount) -> Refusal {
    match refusal {
        Refusal::Error(error, detail) if !found.is_newest => {
            let reason = match &*detail {
                "" => &error.report().message,
                detail => detail,
            };
            let detail = format!("{reason} ({AS_SHOWN})");
            Refusal::Error(error, detail)
        }
        other => other,
    }
}

/// Begins the session of a client that was let in.
async fn begin(
    shared: &Arc<Shared>,
    node: &Node,
    mut relay: Box<Relay>,
    let_in: LetIn,
    sheet: &Arc<Sheet>,
) -> Option<SessionLocation> {
    relay.input.buffer.set_limits(relay::limits(shared));
    let wants_leader = reads_at_leader(shared, &relay.origin);
    let database = database_here(shared);
    if let_in.found.is_newest
        && (wants_leader || database.is_none())
        && let Some(mut leader) = open(shared, node, &relay.origin).await
    {
        if !relay.admit(shared, &mut leader).await {
            sheet.refused();
            return None;
        }
        log(shared, &let_in);
        return Some(SessionLocation::Elsewhere(relay, Some(leader)));
    }
    let begun = database
        .ok_or_else(leader_changed)
        .and_then(|database| begin_here(shared, &mut relay, &let_in, database));
    let listing = match begun {
        Ok(listing) => listing,
        Err(error) => {
            sheet.refused();
            shared.logins.refused(&let_in.client, &error, "");
            relay.say_last(&error).await;
            return None;
        }
    };
    log(shared, &let_in);
    relay.begin(let_in.admitted.login, !wants_leader, listing);
    if !let_in.found.is_newest {
        relay.unconfirmed = Some(Box::new(Unconfirmed {
            account: let_in.found.account,
            admitted: let_in.admitted,
        }));
    }
    Some(SessionLocation::Elsewhere(relay, None))
}

fn log(shared: &Shared, let_in: &LetIn) {
    let method = let_in.admitted.method.as_str();
    let remark = if let_in.found.is_newest { "" } else { AS_SHOWN };
    shared.logins.admitted(&let_in.client, method, remark);
}

/// Whether a client's reads are for the leader, by what it or its role asks for.
fn reads_at_leader(shared: &Shared, origin: &Origin) -> bool {
    let from = at_start(shared, origin, "coeval.read_from");
    let from = from.and_then(|name| ReadFrom::named(&name.to_ascii_lowercase()));
    from.unwrap_or_default() == ReadFrom::Leader
}

/// A database that checks the settings with which a session begins: that of this node's
/// tables.
fn database_here(shared: &Shared) -> Option<Arc<Database>> {
    if let Some(serving_term) = shared.serving_term() {
        return Some(Arc::clone(&serving_term.database));
    }
    let reader = shared.reader.borrow();
    Some(Arc::clone(&reader.as_ref()?.database))
}

/// Opens the session on the leader, if there is one that answers.
async fn open(shared: &Shared, node: &Node, origin: &Origin) -> Option<Leader> {
    let Lead::There(leader) = shared.lead() else {
        return None;
    };
    let leads = shared.lead.subscribe();
    let opening = opening::session(origin, None);
    relay::open_unless_replaced(&node.streams(), NodeId(leader.0), &opening, &leads).await
}

/// Tells the client that its session has begun, which the leader does not know yet. Returns
/// its entry in the list of this node's sessions.
fn begin_here(
    shared: &Shared,
    relay: &mut Relay,
    let_in: &LetIn,
    database: Arc<Database>,
) -> Result<Listing, Error> {
    let mut rest = let_in.rest.clone();
    let place = (&relay.entry, &relay.signal);
    let options = options(shared, &mut rest, &let_in.client, &let_in.admitted, place)?;
    // It is the home session, or the leader's, that will execute something.
    let mut session = Session::new(database, options)?;
    tell_beginning(&mut session, &relay.entry, relay.client.buffer())?;
    Ok(session.listing())
}

/// SQLSTATE 57P03, `cannot_connect_now`.
fn leader_changed() -> Error {
    let words = "the leader of the cluster has changed while you were logging in";
    Error::new(SqlState("57P03"), words).with_hint("Connect again.")
}
