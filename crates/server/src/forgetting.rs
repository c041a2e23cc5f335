//! What the leader tends in the background: it deletes transaction outcomes that no client
//! may ask for any more, and takes statistics of tables that have grown or shrunk.

use std::sync::Arc;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_sql::session::Database;
use tracing::{debug, warn};

use crate::Settings;

/// Interval between two checks, a small part of the shortest retention, an hour.
const BETWEEN: Duration = Duration::from_secs(60);

/// Deletes expired outcomes and analyzes tables until the task is aborted or the database is gone.
pub(crate) fn start(database: &Arc<Database>, settings: &Settings) -> JoinHandle<()> {
    let hours = settings.transaction_outcome_retention_hours;
    let retention = Duration::from_secs(hours * 3600);
    let database = Arc::downgrade(database);
    coeval_env::spawn("forgetting", async move {
        let mut failing = false;
        loop {
            let Some(database) = database.upgrade() else {
                return;
            };
            let forgotten = database.forget_outcomes(retention).await;
            if let Err(error) = &forgotten
                && !failing
            {
                warn!(%error, "outcomes of old transactions are kept until writes are taken again");
            }
            failing = forgotten.is_err();
            // What cannot be analyzed, for want of room or of a quorum, is so in a minute.
            if let Err(error) = database.analyze_changed().await {
                debug!(%error, "tables could not be analyzed");
            }
            drop(database);
            coeval_env::sleep(BETWEEN).await;
        }
    })
}
