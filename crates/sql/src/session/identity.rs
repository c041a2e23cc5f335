//! The role as which a session acts: SET ROLE, SET SESSION AUTHORIZATION.
//!
//! ```text
//!   ada logs in                     session_user ada    current_user ada
//!   set role readers                session_user ada    current_user readers
//!   reset role                      session_user ada    current_user ada
//! ```
//!
//! The session keeps its identity with its settings, so a rollback restores the old one
//! and SET LOCAL ends with the transaction. It stores a role by OID, because the role may
//! be renamed meanwhile; a role that was dropped has no privileges.

use std::sync::Arc;

use smol_str::SmolStr;

use super::Session;
use super::transaction::Block;
use crate::access::FIRST_ROLE;
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity, Sink};

/// A role's OID and its name as the session knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) role: u32,
    pub(crate) name: SmolStr,
    pub(crate) superuser: bool,
}

/// The roles that determine a session's privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The role that logged in.
    pub(crate) login: Who,
    /// The role named by SET SESSION AUTHORIZATION.
    pub(crate) session: Option<Who>,
    /// The role named by SET ROLE.
    pub(crate) current: Option<Who>,
}

impl Identity {
    pub(crate) const fn new(login: Who) -> Self {
        Self {
            login,
            session: None,
            current: None,
        }
    }

    /// The value of `session_user`.
    pub(crate) fn session(&self) -> &Who {
        self.session.as_ref().unwrap_or(&self.login)
    }

    /// The value of `current_user`.
    pub(crate) fn current(&self) -> &Who {
        self.current.as_ref().unwrap_or_else(|| self.session())
    }
}

/// The identity of a session that gave no user name: the first role.
impl Default for Identity {
    fn default() -> Self {
        Self::new(Who {
            role: FIRST_ROLE,
            name: SmolStr::default(),
            superuser: true,
        })
    }
}

impl Session {
    /// SET ROLE: changes the current role.
    pub(super) async fn set_role(
        &mut self,
        local: bool,
        name: Option<&str>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        self.warn_of_local(local, sink);
        let mut identity = self.settings.identity().clone();
        identity.current = match name {
            None => None,
            Some(name) => {
                let who = self.find_role(name).await?;
                let (catalog, _) = self.current_catalog()?;
                let session = identity.session().role;
                if !catalog.access().is_member(session, who.role) {
                    return Err(denied(format!("permission denied to set role \"{name}\"")));
                }
                Some(who)
            }
        };
        self.become_identity(local, identity);
        Ok(())
    }

    /// SET SESSION AUTHORIZATION: changes the session's role.
    pub(super) async fn set_authorization(
        &mut self,
        local: bool,
        name: Option<&str>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        self.warn_of_local(local, sink);
        let mut identity = self.settings.identity().clone();
        identity.current = None;
        identity.session = match name {
            Some(name) if name != identity.login.name => {
                let who = self.find_role(name).await?;
                let (catalog, _) = self.current_catalog()?;
                if !catalog.access().is_superuser(identity.login.role) {
                    return Err(denied(
                        "permission denied to set session authorization".to_owned(),
                    ));
                }
                Some(who)
            }
            _ => None,
        };
        self.become_identity(local, identity);
        Ok(())
    }

    /// Fails with SQLSTATE 42501 unless the session acts as a superuser.
    pub(super) async fn require_superuser(&mut self, command: &str) -> Result<()> {
        // The first role is always a superuser.
        if self.info.role == FIRST_ROLE {
            return Ok(());
        }
        self.ensure_running().await?;
        let (catalog, _) = self.current_catalog()?;
        if catalog.access().is_superuser(self.info.role) {
            return Ok(());
        }
        Err(denied(format!("must be superuser to do {command}")))
    }

    async fn find_role(&mut self, name: &str) -> Result<Who> {
        self.ensure_running().await?;
        let (catalog, _) = self.current_catalog()?;
        let alias = self.info.alias.as_deref() == Some(name);
        let role = match catalog.access().find(name) {
            Ok(role) => role,
            // The name under which the client was let in as the bootstrap role.
            Err(_) if alias => {
                return Ok(Who {
                    role: FIRST_ROLE,
                    name: name.into(),
                    superuser: true,
                });
            }
            Err(error) => return Err(error),
        };
        Ok(Who {
            role: role.oid,
            name: role.name.as_str().into(),
            superuser: role.superuser,
        })
    }

    fn warn_of_local(&self, local: bool, sink: &mut dyn Sink) {
        if local && self.block != Block::Explicit {
            sink.notice(Notice::new(
                Severity::Warning,
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            ));
        }
    }

    fn become_identity(&mut self, local: bool, identity: Identity) {
        self.enter_block();
        Arc::make_mut(&mut self.settings).set_identity(identity, local);
        self.apply_settings();
    }
}

fn denied(message: String) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
