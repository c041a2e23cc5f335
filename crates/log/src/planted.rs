//! Planted bugs of the log: code of injected known bugs that takes more than one line.

use std::time::Duration;

use coeval_types::planted;

use crate::shared::Shared;

/// Bug: the log reports `end` as durable before it has written the bytes.
pub(crate) async fn acknowledge_before_write(shared: &Shared, end: u64) {
    if planted!(AcknowledgeBeforeWrite) {
        shared.flushed(end);
        coeval_env::sleep(Duration::from_millis(5)).await;
    }
}

/// Wall-clock time of the last commit that recovery has replayed.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    latest: u64,
}

impl Clock {
    /// Bug: whether recovery skips a commit of this time as a remnant.
    pub(crate) fn goes_back(&mut self, time: u64) -> bool {
        if planted!(OrderByClock) && time < self.latest {
            return true;
        }
        self.latest = time;
        false
    }
}
