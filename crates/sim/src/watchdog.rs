//! The watchdog: prints the command of a run that does not end, so that the run can be
//! repeated.
//!
//! Virtual time ends every wait, but a task that never waits stops the clock, and no
//! simulated task can detect that. So a real thread prints the command of the run after
//! [`PATIENCE`] of real time, and again each time the duration has doubled. This is no
//! verdict: a slow machine takes long over correct runs.
#![expect(
    clippy::disallowed_methods,
    reason = "it watches simulated worlds from outside, in real time"
)]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time after which a run is reported; runs take seconds at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Watches a run until it is dropped.
pub(crate) struct Watchdog {
    _ends_with_it: Sender<()>,
}

impl Watchdog {
    /// Reports on standard error when the run of `command` takes long.
    pub(crate) fn over(command: String) -> Self {
        Self::with(PATIENCE, move |taken| {
            eprintln!("has run for {} s: {command}", taken.as_secs());
        })
    }

    fn with(patience: Duration, say: impl Fn(Duration) + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut taken = Duration::ZERO;
            let mut wait = patience;
            while receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                taken += wait;
                say(taken);
                wait = taken;
            }
        });
        Self {
            _ends_with_it: sender,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_long_is_named_until_it_ends() {
        let (said, heard) = channel();
        let dog = Watchdog::with(Duration::from_millis(1), move |taken| {
            let _ = said.send(taken);
        });
        let times: Vec<Duration> = heard.iter().take(4).collect();
        assert_eq!(times, [1, 2, 4, 8].map(Duration::from_millis));
        drop(dog);
        // Blocks until the watchdog's thread has exited.
        while heard.recv().is_ok() {}
    }
}
