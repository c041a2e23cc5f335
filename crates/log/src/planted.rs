//! Planted bugs of the log that take more than a line where they stand.

use std::time::Duration;

use coeval_types::planted;

use crate::shared::Shared;

/// The log says durable up to `end` before it has written.
pub(crate) async fn acknowledge_before_write(shared: &Shared, end: u64) {
    if planted!(AcknowledgeBeforeWrite) {
        shared.flushed(end);
        coeval_env::sleep(Duration::from_millis(5)).await;
    }
}

/// What the wall clock said at the last commit that recovery has come across.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    latest: u64,
}

impl Clock {
    /// Whether a commit of this time is taken for a remnant.
    pub(crate) fn goes_back(&mut self, time: u64) -> bool {
        if planted!(OrderByClock) && time < self.latest {
            return true;
        }
        self.latest = time;
        false
    }
}
