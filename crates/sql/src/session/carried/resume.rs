//! Sessions that began on another node.
//!
//! Prepared statements are asleep until they are used: a new leader is asked by all
//! clients at once, and most of what they have prepared will not be needed for a while.

use std::sync::Arc;

use super::{Carried, CarriedRole, CarriedStatement, Session, fingerprint};
use crate::catalog::Catalog;
use crate::error::{Error, Result, SqlState};
use crate::session::identity::{Identity, Who};
use crate::session::transaction::Block;
use crate::session::{Database, SessionOptions};
use crate::statement::{self, Statement};

impl Session {
    /// A session that goes on with what it carried when another node served it. Returns
    /// what could not be taken over as well, such as a setting that may not be set any
    /// more.
    ///
    /// `lost_transaction` says that it was in a transaction block: then it is in one that
    /// has failed. Its next statement is answered with 40001, also if that is COMMIT, and
    /// those after it with 25P02, until the block ends. ROLLBACK simply ends it.
    pub async fn resume(
        database: Arc<Database>,
        options: SessionOptions,
        carried: Carried,
        lost_transaction: bool,
    ) -> Result<(Self, Vec<Error>)> {
        let mut refused = Vec::new();
        let mut session = Self::begin(database, options, &mut |error| {
            refused.push(error);
            Ok(())
        })?;
        session.resume_settings(&carried, &mut refused).await?;
        session.asleep = carried.statements;
        if lost_transaction {
            session.block = Block::Failed;
            session.lost_transaction = true;
            session.rest();
        }
        Ok((session, refused))
    }

    async fn resume_settings(&mut self, carried: &Carried, refused: &mut Vec<Error>) -> Result<()> {
        let roles = &carried.acts;
        if carried.settings.is_empty() && *roles == super::ActsAs::default() {
            return Ok(());
        }
        let settings = Arc::make_mut(&mut self.settings);
        for (name, value) in &carried.settings {
            if let Err(error) = settings.take_over(name, value) {
                refused.push(error);
            }
        }
        if *roles != super::ActsAs::default() {
            let catalog = self.database.newest_catalog().await?;
            let who = |role: &Option<CarriedRole>| role.as_ref().map(|role| who(role, &catalog));
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

    /// Whether the statement of this name was prepared when another node served the
    /// session, and not used since. The empty name is the unnamed one's.
    #[must_use]
    pub fn is_asleep(&self, name: &str) -> bool {
        !self.asleep.is_empty() && self.asleep.contains_key(name)
    }

    /// Prepares the statement of this name if it [is asleep](Session::is_asleep), as
    /// [`Session::prepare`] does. One that cannot be prepared any more stays asleep and
    /// fails each time.
    pub async fn wake(&mut self, name: &str) -> Result<()> {
        let Some(carried) = self.asleep_statement(name) else {
            return Ok(());
        };
        let (statement, parameters) = match carried.statement(self) {
            Ok(statement) => (statement, &carried.parameters),
            Err(error) => {
                self.fail();
                return Err(error);
            }
        };
        let prepared = self.prepare(statement, parameters).await?;
        let woken = self.woken(name, &carried, prepared);
        woken.inspect_err(|_| self.fail())
    }

    /// [`Session::wake`] within a statement, which will have its effect on the
    /// transaction.
    pub(in crate::session) async fn wake_within(&mut self, name: &str) -> Result<()> {
        let Some(carried) = self.asleep_statement(name) else {
            return Ok(());
        };
        let statement = carried.statement(self)?;
        let preparing = self.prepare_statement(statement, &carried.parameters);
        // Preparing an EXECUTE wakes what it executes.
        let prepared = Box::pin(preparing).await?;
        self.woken(name, &carried, prepared)
    }

    fn asleep_statement(&self, name: &str) -> Option<CarriedStatement> {
        if self.asleep.is_empty() {
            return None;
        }
        self.asleep.get(name).cloned()
    }

    fn woken(
        &mut self,
        name: &str,
        carried: &CarriedStatement,
        prepared: Arc<crate::session::Prepared>,
    ) -> Result<()> {
        let same = prepared.columns().map(fingerprint) == carried.columns
            && *prepared.parameter_types() == *carried.parameters;
        if !same {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        self.asleep.remove(name);
        if name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            self.named.insert(name.to_owned(), prepared);
        }
        Ok(())
    }
}

impl CarriedStatement {
    fn statement(&self, session: &Session) -> Result<Statement> {
        let mut statements = statement::parse(&self.text, session.room())?.into_iter();
        let statement = statements.next().unwrap_or_else(Statement::empty);
        if self.within {
            return Ok(statement.within_prepare().unwrap_or(statement));
        }
        Ok(statement)
    }
}

/// The role of that number, under the name it has now. One that was dropped may do
/// nothing.
fn who(role: &CarriedRole, catalog: &Catalog) -> Who {
    let known = catalog.access().role(role.number);
    Who {
        role: role.number,
        name: known.map_or(role.name.as_str(), |known| &known.name).into(),
        superuser: known.is_some_and(|known| known.superuser),
    }
}
