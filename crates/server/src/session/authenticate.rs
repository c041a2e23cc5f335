//! Who the client is: what the rules ask of it, and whether it can show that.
//!
//! ```text
//!   user, database, address, TLS ──rules──▶ trust ─────────────────────▶ role
//!                                           scram ──exchange──▶ right? ─▶ role
//!                                           reject, or no rule ─▶ 28000
//! ```
//!
//! A name that no role has, a role without a password and one whose password has
//! run out go through the same exchange as everybody, with keys that are made up
//! and always the same for one name. So neither answers nor their duration say who
//! exists; the audit log says it to whoever may read that.
//!
//! Until somebody is let in, messages may be no longer than the exchange takes, and
//! of no other type.

use std::net::IpAddr;

use coeval_pgwire::backend::cold;
use coeval_pgwire::frame::kind;
use coeval_pgwire::frontend::SaslInitial;
use coeval_pgwire::scram::{self, Exchange, Failure, Keys};
use coeval_sql::access::{FIRST_ROLE, Role, Verifier, password};
use coeval_sql::session::{Account, Database, Login};
use coeval_sql::{Error, SqlState};
use coeval_types::Timestamp;

use super::input::{Input, Wake};
use super::output::Output;
use super::report;
use super::signal::Signal;
use crate::access::{Applicant, Method, Rules};
use crate::registry::Place;
use crate::shared::Doors;

/// Somebody who wants a session, before anything was asked of them.
pub(super) struct Claim<'a> {
    pub(super) user: &'a str,
    pub(super) database: &'a str,
    pub(super) address: IpAddr,
    pub(super) tls: bool,
    /// What the connection is bound to, if it can be.
    pub(super) binding: Option<&'a [u8]>,
}

/// Somebody who was let in.
pub(super) struct Admitted {
    pub(super) login: Login,
    /// The place among the sessions that is theirs.
    pub(super) place: Place,
    pub(super) method: Method,
}

/// Why somebody is not let in.
pub(super) enum Refusal {
    /// They are told this, and the audit log the rest.
    Error(Error, String),
    /// They are gone.
    Gone,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error, String::new())
    }
}

/// The client's side of the conversation.
pub(super) struct Line<'a> {
    pub(super) input: &'a mut Input,
    pub(super) output: &'a mut Output,
    pub(super) signal: &'a Signal,
}

/// Finds out who somebody is.
pub(super) async fn authenticate(
    doors: &Doors,
    database: &Database,
    claim: &Claim<'_>,
    line: Line<'_>,
) -> Result<Admitted, Refusal> {
    let account = database.login(claim.user).await?;
    let rules = &doors.rules;
    let role = account.role.as_deref();
    let applicant = Applicant {
        address: claim.address,
        tls: claim.tls,
        user: claim.user,
        database: claim.database,
        groups: &account.groups,
        has_password: role.is_some_and(|role| role.password.is_some()),
        open: account.open,
    };
    let method = rules.method(&applicant);
    match method {
        Some(Method::Trust) => {}
        Some(Method::Scram) => {
            // The name of the method for clients is not what is asked of them.
            exchange(claim, &account, line).await?;
        }
        Some(Method::Reject) | None => return Err(rejected(claim, method, rules).into()),
    }
    let method = method.unwrap_or(Method::Reject);
    // By SCRAM nobody comes this far without a role.
    let by_default = !matches!(rules, Rules::File(_)) && method == Method::Trust;
    admitted(&account, claim.user, by_default, method)
}

/// Finds out as whom somebody goes on who was let in before, on another node.
pub(super) async fn known(database: &Database, user: &str) -> Result<Admitted, Refusal> {
    let account = database.login(user).await?;
    admitted(&account, user, true, Method::Trust)
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
                // Anybody could come under such a name: nothing is kept for it.
                place: Place {
                    role: FIRST_ROLE,
                    limit: None,
                    privileged: false,
                },
                method,
            });
        }
        let message = format!("role \"{user}\" does not exist");
        return Err(Error::new(SqlState("28000"), message).into());
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
        place: Place {
            role: role.oid,
            limit: usize::try_from(role.connection_limit)
                .ok()
                .filter(|_| !role.superuser),
            privileged: role.superuser,
        },
        method,
    })
}

/// 28000: no rule lets them in.
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

/// Has the client show that it knows the password.
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
    cold::authentication_sasl(&mut line.output.buffer, offered);
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
    cold::authentication_sasl_continue(&mut line.output.buffer, &server_first);
    line.flush().await?;
    let ended = line
        .answer(|contents| Ok(exchange.finish(contents)))
        .await?;
    let server_final = ended.map_err(failed)?;
    cold::authentication_sasl_final(&mut line.output.buffer, &server_final);
    Ok(())
}

/// What a user's password is checked with; and, where it cannot be right, why.
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
    /// Sends what there is: nothing that depends on data.
    async fn flush(&mut self) -> Result<(), Refusal> {
        let flushed = self.output.flush(Timestamp::ZERO).await;
        flushed.map_err(|()| Refusal::Gone)
    }

    /// Waits for the client's next answer, and has it read.
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
