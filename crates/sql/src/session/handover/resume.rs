//! Resuming a session, on a new leader, that began on another node.
//!
//! Prepared statements stay asleep, that is unplanned, until they are used: after an
//! election all clients reconnect to the new leader at once, and most of their statements
//! are not needed soon.

use std::sync::Arc;

use coeval_types::Timestamp;

use super::{HandoverRole, HandoverStatement, Pinned, Session, SessionHandover, fingerprint};
use crate::catalog::Catalog;
use crate::error::{Error, Result, SqlState};
use crate::instance::MemoryBudget;
use crate::session::identity::{Identity, Who};
use crate::session::lost_block::LostBlock;
use crate::session::prepared::without_tree;
use crate::session::transaction::Block;
use crate::session::{Database, SessionOptions};
use crate::statement::{self, Statement};
use crate::temporary::lost_with_leader;

impl Session {
    /// Creates a session with the state it had on another node. Also returns an error for
    /// each item that could not be restored, such as a setting that can no longer be set.
    ///
    /// `lost_transaction` means that the session was in a transaction block: then it
    /// starts in a failed one. The session answers its next statement with 40001, even a
    /// COMMIT, and the statements after that with 25P02, until the block ends. ROLLBACK
    /// simply ends the block.
    ///
    /// # Errors
    /// SQLSTATE 57P01 for a session that had temporary tables: they were its leader's.
    pub async fn resume(
        database: Arc<Database>,
        options: SessionOptions,
        handover: SessionHandover,
        lost_transaction: bool,
    ) -> Result<(Self, Vec<Error>)> {
        if handover.pinned == Pinned::Session && !database.follows() {
            return Err(lost_with_leader());
        }
        let mut refused = Vec::new();
        let mut session = Self::begin(database, options, &mut |error| {
            refused.push(error);
            Ok(())
        })?;
        session.resume_settings(&handover, &mut refused).await?;
        for used in handover.used() {
            session.info.sequences.take_over(used);
        }
        session.commit_elsewhere = handover.committed.unwrap_or(Timestamp::ZERO);
        let asleep = handover.statements.iter();
        let asleep: u64 = asleep.map(|(name, statement)| statement.bytes(name)).sum();
        session.asleep_charge = (asleep > 0).then(|| session.memory.charge_anyway(asleep));
        session.asleep = handover.statements;
        if lost_transaction {
            session.block = Block::Failed;
            session.lost_block = LostBlock::Untold;
            session.rest();
        }
        Ok((session, refused))
    }

    async fn resume_settings(
        &mut self,
        handover: &SessionHandover,
        refused: &mut Vec<Error>,
    ) -> Result<()> {
        let roles = &handover.acts;
        if handover.settings.is_empty() && *roles == super::ActsAs::default() {
            return Ok(());
        }
        let settings = Arc::make_mut(&mut self.settings);
        for (name, value) in &handover.settings {
            if let Err(error) = settings.take_over(name, value) {
                refused.push(error);
            }
        }
        if *roles != super::ActsAs::default() {
            let catalog = self.database.newest_catalog().await?;
            let who = |role: &Option<HandoverRole>| role.as_ref().map(|role| who(role, &catalog));
            let identity = Identity {
                login: settings.identity().login.clone(),
                session: who(&roles.session),
                current: who(&roles.current),
            };
            settings.set_identity(identity, false);
        }
        self.apply_settings();
        Ok(())
    }

    /// Whether the statement of this name was prepared while another node served the
    /// session, and has not been used since. The empty name is the unnamed statement's.
    #[must_use]
    pub fn is_asleep(&self, name: &str) -> bool {
        !self.asleep.is_empty() && self.asleep.contains_key(name)
    }

    /// Prepares the statement of this name if it [is asleep](Session::is_asleep), as
    /// [`Session::prepare`] does. A statement that can no longer be prepared stays asleep
    /// and fails each time.
    pub async fn wake(&mut self, name: &str) -> Result<()> {
        let Some(handover) = self.asleep_statement(name) else {
            return Ok(());
        };
        let (statement, parameters) = match handover.statement(self).await {
            Ok(statement) => (statement, &handover.parameters),
            Err(error) => {
                self.fail();
                return Err(error);
            }
        };
        let prepared = self.prepare(statement, parameters).await?;
        let woken = self.woken(name, &handover, prepared);
        woken.inspect_err(|_| self.fail())
    }

    /// [`Session::wake`] for a caller inside a statement, whose own error handling takes
    /// effect on the transaction.
    pub(in crate::session) async fn wake_within(&mut self, name: &str) -> Result<()> {
        let Some(handover) = self.asleep_statement(name) else {
            return Ok(());
        };
        let statement = handover.statement(self).await?;
        let preparing = self.prepare_statement(statement, &handover.parameters);
        // Preparing an EXECUTE wakes the statement that it executes.
        let prepared = Box::pin(preparing).await?;
        self.woken(name, &handover, prepared)
    }

    fn asleep_statement(&self, name: &str) -> Option<HandoverStatement> {
        if self.asleep.is_empty() {
            return None;
        }
        self.asleep.get(name).cloned()
    }

    fn woken(
        &mut self,
        name: &str,
        handover: &HandoverStatement,
        prepared: Arc<crate::session::Prepared>,
    ) -> Result<()> {
        let same = prepared.columns().map(fingerprint) == handover.columns
            && *prepared.parameter_types() == *handover.parameters;
        if !same {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        self.clock_runs = false;
        let prepared = without_tree(prepared);
        self.charge_statement(name, &prepared)?;
        self.remove_asleep(name);
        if name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.to_owned(), prepared);
        }
        Ok(())
    }
}

impl HandoverStatement {
    async fn statement(&self, session: &mut Session) -> Result<Statement> {
        let mut statements = session.read(&self.text).await?.into_iter();
        let statement = statements.next().unwrap_or_else(Statement::empty);
        if self.within {
            return Ok(statement.within_prepare().unwrap_or(statement));
        }
        Ok(statement)
    }

    /// The statement, parsed for a look at it.
    pub(in crate::session) fn parsed(&self, budget: &MemoryBudget) -> Option<Statement> {
        let statement = statement::parse(&self.text, budget).ok()?.pop()?;
        Some(match self.within {
            true => statement.within_prepare().unwrap_or(statement),
            false => statement,
        })
    }
}

/// The role of that OID, under its present name. A role that was dropped has no
/// privileges.
pub(super) fn who(role: &HandoverRole, catalog: &Catalog) -> Who {
    let known = catalog.access().role(role.number);
    Who {
        role: role.number,
        name: known.map_or(role.name.as_str(), |known| &known.name).into(),
        superuser: known.is_some_and(|known| known.superuser),
    }
}
