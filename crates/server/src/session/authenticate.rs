//! Authentication of clients: the access rules choose a method, and the client must prove
//! its identity by it.
//!
//! ```text
//!   user, database, address, TLS ──rules──▶ trust ─────────────────────▶ role
//!                                           scram ──exchange──▶ right? ─▶ role
//!                                           reject, or no rule ─▶ 28000
//! ```
//!
//! A name without a role, a role without a password and one whose password has expired go
//! through the same exchange as every other, with made-up keys that are always the same
//! for one name. So neither the server's answers nor their duration tell a client which
//! roles exist; the audit log has the reason, for administrators.
//!
//! Until a client is let in, its messages are limited to the length and the types that
//! the exchange needs.
//!
//! In a cluster, the node that a client is connected to lets it in, by its own rules; the
//! leader, where the session may run, takes that node's word ([`vouched`]).

use std::net::IpAddr;
use std::sync::Arc;

use coeval_pgwire::backend::cold;
use coeval_pgwire::frame::kind;
use coeval_pgwire::frontend::SaslInitial;
use coeval_pgwire::scram::{self, Exchange, Failure, Keys};
use coeval_sql::access::{FIRST_ROLE, LoginSetting, Role, Verifier, password};
use coeval_sql::session::{Account, Database, Login};
use coeval_sql::{Error, SqlState};
use tokio::io::AsyncWriteExt;

use super::input::{Input, Wake};
use super::opening::Vouched;
use super::report;
use super::signal::Signal;
use super::transport::WriteHalf;
use crate::access::{Applicant, Method, Rules};
use crate::metrics::Sheet;
use crate::registry::SessionRequest;
use crate::shared::Doors;

/// A client that wants a session, before authentication.
pub(super) struct Claim<'a> {
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) address: IpAddr,
    pub(super) tls: bool,
    /// The channel binding of the connection, if it has one.
    pub(super) binding: Option<&'a [u8]>,
}

/// An authenticated client.
pub(super) struct Admitted {
    pub(super) login: Login,
    /// The role that the session is counted for, and its limits.
    pub(super) place: SessionRequest,
    pub(super) method: Method,
    /// Whether the client's name has no role: it was let in as the first role, because the
    /// database is open.
    pub(super) as_visitor: bool,
    /// The settings that the role and the database have for the session.
    pub(super) settings: Arc<[LoginSetting]>,
}

impl Admitted {
    /// What this node tells the leader about the client.
    pub(super) const fn vouched(&self) -> Vouched {
        Vouched {
            role: self.login.role,
            as_visitor: self.as_visitor,
        }
    }
}

/// Why a client is not let in.
pub(super) enum Refusal {
    /// The client gets this error; the audit log also gets the detail.
    Error(Error, String),
    /// The client has closed the connection.
    Gone,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error, String::new())
    }
}

/// The connection to the client, as authentication uses it.
pub(super) struct Line<'a> {
    pub(super) input: &'a mut Input,
    /// Messages that have not been sent.
    pub(super) out: &'a mut Vec<u8>,
    pub(super) write: &'a mut WriteHalf,
    pub(super) signal: &'a Signal,
    pub(super) sheet: &'a Sheet,
}

/// Authenticates the client of this account, by the method that the access rules ask for.
pub(super) async fn authenticate(
    doors: &Doors,
    account: &Account,
    claim: &Claim<'_>,
    line: Line<'_>,
) -> Result<Admitted, Refusal> {
    let rules = &doors.rules;
    let method = rules.method(&applicant(claim, account));
    match method {
        Some(Method::Trust) => {}
        Some(Method::Scram) => {
            // The exchange offers the client SASL's mechanisms, not the rules' method.
            exchange(claim, account, line).await?;
        }
        Some(Method::Reject) | None => return Err(rejected(claim, method, rules).into()),
    }
    let method = method.unwrap_or(Method::Reject);
    // After SCRAM the role exists, so only the default rules' `trust` may admit a client
    // without one.
    let by_default = !matches!(rules, Rules::File(_)) && method == Method::Trust;
    admitted(account, claim.user, by_default, method)
}

/// The client as the access rules see it.
fn applicant<'a>(claim: &Claim<'a>, account: &'a Account) -> Applicant<'a> {
    let role = account.role.as_deref();
    Applicant {
        address: claim.address,
        tls: claim.tls,
        user: claim.user,
        database: claim.database,
        groups: &account.groups,
        has_password: role.is_some_and(|role| role.password.is_some()),
        open: account.open,
    }
}

/// Admits a client that was authenticated before: by another node, or for a session that
/// goes on. Its role is known by number if a node vouches for it, and by name else. The node has
/// told the settings, which the session keeps.
pub(super) async fn known(
    database: &Database,
    user: &str,
    vouched: Option<Vouched>,
    settings: &Arc<[LoginSetting]>,
) -> Result<Admitted, Refusal> {
    let mut admitted = admitted_before(database, user, vouched).await?;
    if vouched.is_some() {
        admitted.settings = Arc::clone(settings);
    }
    Ok(admitted)
}

async fn admitted_before(
    database: &Database,
    user: &str,
    vouched: Option<Vouched>,
) -> Result<Admitted, Refusal> {
    let account = match vouched {
        Some(Vouched {
            role,
            as_visitor: false,
        }) => {
            // The name may be another role's by now, and the role may have another name.
            let account = database.login_of_role(role).await?;
            return admitted(&account, user, false, Method::Trust);
        }
        Some(_) | None => database.login(user).await?,
    };
    if vouched.is_some() && account.role.is_some() {
        return Err(no_role(user).into());
    }
    admitted(&account, user, true, Method::Trust)
}

/// Whether a client that was let in by the account `before` would be let in by the account
/// `now`, which is newer, without proving anything again.
pub(super) fn still_holds(
    doors: &Doors,
    claim: &Claim<'_>,
    (before, by): (&Account, &Admitted),
    now: &Account,
) -> Result<(), Refusal> {
    let after = admitted(now, claim.user, by.as_visitor, by.method)?;
    let method = doors.rules.method(&applicant(claim, now));
    let password = |account: &Account| account.role.as_ref()?.password.clone();
    let late = by.method == Method::Scram && now.role.as_deref().is_some_and(expired);
    let same = after.vouched() == by.vouched() && password(before) == password(now);
    if same && method == Some(by.method) && !late {
        return Ok(());
    }
    let message = format!(
        "what user \"{}\" is let in by has changed since the login",
        claim.user
    );
    let error = Error::new(SqlState("28P01"), message)
        .with_detail(
            "No leader could be asked then, and this node's state of the database was out of date.",
        )
        .with_hint("Log in again.");
    Err(error.into())
}

fn no_role(user: &str) -> Error {
    let message = format!("role \"{user}\" does not exist");
    Error::new(SqlState("28000"), message)
}

fn admitted(
    account: &Account,
    user: &str,
    by_default: bool,
    method: Method,
) -> Result<Admitted, Refusal> {
    let Some(role) = account.role.as_deref() else {
        if account.open && by_default {
            return Ok(Admitted {
                login: Login {
                    role: FIRST_ROLE,
                    superuser: true,
                },
                // Any client may use such a name, so the session takes no reserved slot.
                place: SessionRequest {
                    role: FIRST_ROLE,
                    limit: None,
                    privileged: false,
                },
                method,
                as_visitor: true,
                settings: Arc::clone(&account.settings),
            });
        }
        return Err(no_role(user).into());
    };
    if !role.login {
        let message = format!("role \"{user}\" is not permitted to log in");
        return Err(Error::new(SqlState("28000"), message).into());
    }
    Ok(Admitted {
        login: Login {
            role: role.oid,
            superuser: role.superuser,
        },
        place: SessionRequest {
            role: role.oid,
            limit: usize::try_from(role.connection_limit)
                .ok()
                .filter(|_| !role.superuser),
            privileged: role.superuser,
        },
        method,
        as_visitor: false,
        settings: Arc::clone(&account.settings),
    })
}

/// SQLSTATE 28000, `invalid_authorization_specification`: no access rule lets the client
/// in.
fn rejected(claim: &Claim<'_>, method: Option<Method>, rules: &Rules) -> Error {
    let encryption = if claim.tls {
        "SSL encryption"
    } else {
        "no encryption"
    };
    let why = match method {
        Some(_) => "the access rules reject connection",
        None => "no access rule",
    };
    let error = Error::new(
        SqlState("28000"),
        format!(
            "{why} for host \"{}\", user \"{}\", database \"{}\", {encryption}",
            claim.address, claim.user, claim.database
        ),
    );
    match rules {
        Rules::Default => error.with_hint("From other machines, connect with sslmode=require."),
        Rules::File(_) | Rules::Insecure => error,
    }
}

/// Has the client prove by SCRAM that it knows the password.
async fn exchange(claim: &Claim<'_>, account: &Account, mut line: Line<'_>) -> Result<(), Refusal> {
    let (keys, why_not) = keys(claim.user, account);
    let failed = |failure: Failure| {
        let detail = match (failure, why_not) {
            (Failure::Proof, Some(why_not)) => why_not.to_owned(),
            (failure, _) => failure.to_string(),
        };
        let error = match failure {
            Failure::Proof => Error::new(
                SqlState("28P01"),
                format!("password authentication failed for user \"{}\"", claim.user),
            ),
            other => Error::new(SqlState(other.sqlstate()), other.to_string()),
        };
        Refusal::Error(error, detail)
    };
    let offered: &[&str] = match claim.binding {
        Some(_) => &[scram::BOUND, scram::PLAIN],
        None => &[scram::PLAIN],
    };
    cold::authentication_sasl(line.out, offered);
    line.flush().await?;
    let mut nonce = [0; scram::NONCE];
    coeval_env::random_bytes(&mut nonce);
    let begun = line
        .answer(|contents| {
            let initial = SaslInitial::decode(contents);
            let initial = initial.map_err(|error| report::from_wire(&error))?;
            let message = initial.message.unwrap_or_default();
            let mechanism = initial.mechanism;
            Ok(scram::first(
                mechanism,
                message,
                keys,
                claim.binding,
                &nonce,
            ))
        })
        .await?;
    let (exchange, server_first): (Exchange, String) = begun.map_err(failed)?;
    cold::authentication_sasl_continue(line.out, &server_first);
    line.flush().await?;
    let ended = line
        .answer(|contents| Ok(exchange.finish(contents)))
        .await?;
    let server_final = ended.map_err(failed)?;
    cold::authentication_sasl_final(line.out, &server_final);
    Ok(())
}

/// The keys that verify a user's password; and the reason why no password can be right,
/// where there is one.
fn keys(user: &str, account: &Account) -> (Keys, Option<&'static str>) {
    let made_up = |why| {
        let iterations = password::ITERATIONS.get();
        (Keys::made_up(user, &account.secret, iterations), Some(why))
    };
    let Some(role) = account.role.as_deref() else {
        return made_up("there is no such role");
    };
    let Some(verifier) = role.password.as_deref().and_then(Verifier::parse) else {
        return made_up("the role has no password");
    };
    let late = expired(role);
    let keys = Keys {
        iterations: verifier.iterations.get(),
        salt: verifier.salt,
        stored_key: verifier.stored_key,
        server_key: verifier.server_key,
        real: !late,
    };
    (keys, late.then_some("the role's password has expired"))
}

fn expired(role: &Role) -> bool {
    let now = coeval_sql::expression::EvaluationContext::clock();
    role.valid_until.is_some_and(|end| end <= now)
}

impl Line<'_> {
    /// Sends the buffered messages, which depend on no data.
    async fn flush(&mut self) -> Result<(), Refusal> {
        let sent = async {
            self.write.write_all(self.out).await?;
            self.write.flush().await
        };
        sent.await.map_err(|_| Refusal::Gone)?;
        self.sheet.sent(self.out.len());
        self.out.clear();
        Ok(())
    }

    /// Waits for the client's next message, and decodes it with `read`.
    async fn answer<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, Error>,
    ) -> Result<T, Refusal> {
        loop {
            match self.input.buffer.next_frame() {
                Ok(Some(frame)) if frame.kind == kind::PASSWORD => {
                    return read(frame.contents).map_err(Refusal::from);
                }
                Ok(Some(frame)) => {
                    let message = format!(
                        "expected an answer to the authentication request, got a message of \
                         type \"{}\"",
                        char::from(frame.kind)
                    );
                    return Err(report::violation(message).into());
                }
                Ok(None) => match self.input.fill(self.signal, false, None).await {
                    Wake::Bytes => {}
                    Wake::Gone
                    | Wake::Terminated
                    | Wake::Deposed
                    | Wake::Canceled
                    | Wake::Late(_) => {
                        return Err(Refusal::Gone);
                    }
                },
                Err(error) => return Err(report::from_wire(&error).into()),
            }
        }
    }
}
