//! The catalog that the session's statements see: the one that its snapshot shows, with the
//! session's temporary tables over it.

use std::sync::Arc;

use super::Session;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::temporary::Temporary;

impl Session {
    /// The catalog in the running transaction's snapshot. This counts as the statement's
    /// first read of the database; see [`look`](super::read_confirmation::ReadConfirmation::look) for the second value.
    pub(super) fn current_catalog(&mut self) -> Result<(Arc<Catalog>, bool)> {
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        let look = self.read_confirmation.look(running.isolation());
        let catalog = self
            .database
            .store
            .catalog(&mut *running.transaction, self.catalog.as_ref())?;
        if !self
            .catalog
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &catalog))
        {
            self.catalog = Some(Arc::clone(&catalog));
        }
        // After the snapshot, which shows no index that was not in the answer before.
        let catalog = match self.database.engine.unbuilt_indexes() {
            None => catalog,
            Some(unbuilt) => self.database.store.without(&catalog, &unbuilt),
        };
        Ok((self.with_temporary(catalog), look))
    }

    /// The catalog with the session's temporary tables.
    pub(super) fn with_temporary(&self, catalog: Arc<Catalog>) -> Arc<Catalog> {
        match &self.temporary {
            Some(temporary) => temporary.over(&catalog, &self.database.store),
            None => catalog,
        }
    }

    /// Has the session, and its transaction that runs, reach temporary tables.
    pub(super) fn ensure_temporary(&mut self) -> Result<()> {
        if self.temporary.is_some() {
            return Ok(());
        }
        let temporary = Temporary::new(&self.memory);
        if let Some(running) = self.running.take() {
            self.running = Some(running.reach(&temporary)?);
        }
        self.temporary = Some(temporary);
        Ok(())
    }

    /// Begins the transaction of a DISCARD that may drop temporary tables.
    pub(super) async fn begin_discard(&mut self) -> Result<()> {
        if self.temporary.is_some() {
            self.ensure_running().await?;
        }
        Ok(())
    }

    /// DISCARD TEMP: drops the temporary tables.
    pub(super) fn discard_temporary(&mut self) {
        if let Some(temporary) = &self.temporary {
            temporary.discard(self.running.is_some());
        }
    }
}
