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
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    #[cfg(debug_assertions)]
    let now = wrong(now);
    now
}

/// The wall clock with the error that a fault test injects.
#[cfg(debug_assertions)]
fn wrong(now: Duration) -> Duration {
    let ahead = super::faults::clock_ahead();
    let by = Duration::from_millis(ahead.unsigned_abs());
    if ahead < 0 {
        now.saturating_sub(by)
    } else {
        now.saturating_add(by)
    }
}

pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn coarse_milliseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn coarse_milliseconds() -> u64 {
    ORIGIN
        .get_or_init(std::time::Instant::now)
        .elapsed()
        .as_millis() as u64
}
