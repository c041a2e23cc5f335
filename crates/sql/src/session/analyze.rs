//! ANALYZE: takes statistics of tables.

use std::sync::Arc;

use coeval_sql_syntax::tree::Path;

use super::Session;
use crate::catalog::Table;
use crate::definition;
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity, Sink};
use crate::statement::Statement;
use crate::statistics;

impl Session {
    /// Takes statistics of these tables, or of all that the role owns; none in a transaction
    /// that only reads.
    pub(super) async fn analyze(
        &mut self,
        statement: &Statement,
        tables: &[Path],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if !self.database.keeps_statistics() {
            sink.notice(Notice::new(
                Severity::Notice,
                SqlState::SUCCESSFUL_COMPLETION,
                "no statistics are taken before every node of the cluster can read them",
            ));
            return Ok(());
        }
        self.maintain_tables(statement, tables, "analyze", sink)
            .await?;
        self.begin_statement().await?;
        let (catalog, _) = self.current_catalog()?;
        let is_own = |table: &Arc<Table>| {
            let access = catalog.access();
            access.has_privileges_of(self.info.role, table.owned.owner)
        };
        let chosen: Vec<Arc<Table>> = match tables.is_empty() {
            true => catalog.tables().map(Arc::clone).collect(),
            false => tables
                .iter()
                .map(|name| definition::find_table(&catalog, name, statement))
                .collect::<Result<_>>()?,
        };
        // Nothing of a temporary table goes into the storage of statistics, which is in the log.
        let chosen = chosen.into_iter().filter(|table| !table.is_temporary());
        let own: Vec<Arc<Table>> = chosen.filter(is_own).collect();
        if self.require_writable("ANALYZE").is_err() {
            return Ok(());
        }
        let info = &self.info;
        let running = self
            .running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))?;
        for table in own {
            let check = || info.check_canceled();
            statistics::analyze(&mut *running.transaction, &table, &check).await?;
        }
        self.info.around.statistics.note_analyzed();
        Ok(())
    }
}
