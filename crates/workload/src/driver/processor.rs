//! The CPU time used by this process, for reports.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads together, in user and kernel mode, since the process began. It
/// is real time in a simulation too, so simulated behaviour must not depend on it.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = processor_time();
        let mut sum = 0_u64;
        while processor_time() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processor_time() > before);
    }
}
