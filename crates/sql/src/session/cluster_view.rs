//! Cluster membership changes requested by SQL functions.
//!
//! A membership change cannot be rolled back with a transaction, and may take a while. So
//! a function such as `coeval.cluster_add()` only records the request; when its query has
//! ended, the session has the server perform the change, and waits for it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Session;
use crate::error::{Error, Result};
use crate::instance::{ClusterChange, alone};

impl Session {
    /// Has the server perform the changes that a query's functions requested. By then the
    /// session has nothing left to commit, and keeps no snapshot meanwhile. A canceled
    /// statement only stops waiting; the change continues.
    pub(super) async fn change_cluster(&mut self, changes: Vec<ClusterChange>) -> Result<()> {
        /// Interval at which the session checks whether the statement was canceled.
        const LOOK: Duration = Duration::from_millis(50);
        for change in changes {
            self.refuse_in_transaction(&format!("{} cannot be called", change.function()))?;
            self.note_seen();
            self.abort_running();
            self.cluster_changes += 1;
            let host = self.info.around.host();
            let changing = host.map(|host| host.change_cluster(change));
            let mut changing = changing.ok_or_else(alone)?;
            loop {
                match coeval_env::timeout(LOOK, &mut changing).await {
                    Ok(done) => break done?,
                    Err(coeval_env::Elapsed) if self.info.cancel.load(Ordering::Relaxed) => {
                        return Err(Error::canceled().with_detail(
                            "The change of the cluster may go on; coeval.cluster_members shows it.",
                        ));
                    }
                    Err(coeval_env::Elapsed) => {}
                }
            }
        }
        Ok(())
    }
}
