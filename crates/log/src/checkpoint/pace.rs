//! A rate limiter for writes to a file, which keeps a checkpoint from disturbing the
//! log's syncs and the transactions beside it.

use std::time::Duration;

use coeval_env::Instant;

/// The writer does not sleep while it is ahead of the limit by less than this.
const GRAIN: Duration = Duration::from_millis(2);
/// A writer that is slower than the limit by more than this does not catch up: a burst
/// must not follow a slow disk.
const FORGIVEN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Pace {
    /// Limit in bytes per second; 0 for no limit.
    bytes_per_second: u64,
    /// Time from which the next byte may be written.
    next: Instant,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            next: coeval_env::now(),
        }
    }

    /// Removes the limit.
    pub(crate) fn lift(&mut self) {
        self.bytes_per_second = 0;
    }

    /// Called after `bytes` bytes were written: waits until more may be.
    pub(crate) async fn written(&mut self, bytes: u64) {
        if self.bytes_per_second == 0 {
            return;
        }
        let now = coeval_env::now();
        if now.duration_since(self.next) > FORGIVEN {
            self.next = now;
        }
        let taken = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.next += taken;
        let ahead = self.next.duration_since(now);
        if ahead > GRAIN {
            coeval_env::sleep(ahead).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use coeval_env::sim::World;

    use super::*;

    #[test]
    fn a_limit_is_kept_and_no_burst_follows_a_pause() {
        let world = World::new(1);
        let node = world.node();
        world
            .run(node, async {
                let started = coeval_env::now();
                let mut pace = Pace::new(1000);
                for _ in 0..20 {
                    pace.written(100).await;
                }
                let taken = started.elapsed();
                assert!((1.9..2.1).contains(&taken.as_secs_f64()), "{taken:?}");
                coeval_env::sleep(Duration::from_secs(60)).await;
                let resumed = coeval_env::now();
                for _ in 0..10 {
                    pace.written(100).await;
                }
                let taken = resumed.elapsed();
                assert!((0.9..1.1).contains(&taken.as_secs_f64()), "{taken:?}");
                pace.lift();
                let lifted = coeval_env::now();
                pace.written(1 << 30).await;
                assert_eq!(lifted.elapsed(), Duration::ZERO);
            })
            .unwrap();
    }
}
