//! The operating system's clocks. The monotonic one counts from its first use.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::Instant;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

pub(crate) fn now() -> Instant {
    let origin = *ORIGIN.get_or_init(std::time::Instant::now);
    Instant::since_origin(origin.elapsed())
}

pub(crate) fn wall_clock() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
