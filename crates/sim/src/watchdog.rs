//! A run that does not come to its end is named, so that it can be had again.
//!
//! Virtual time ends every wait, but a task that never waits stops the clock, and nobody
//! in the world can say so. From outside, after [`PATIENCE`] of real time, the command
//! of the run is printed, and again each time it has taken twice as long. It is no
//! verdict: a slow machine takes long over runs that are well.
#![expect(
    clippy::disallowed_methods,
    reason = "it watches simulated worlds from outside, in real time"
)]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Runs take seconds at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Watches over a run until it is dropped.
pub(crate) struct Watchdog {
    _ends_with_it: Sender<()>,
}

impl Watchdog {
    /// Says so on standard error when `command` takes long.
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
        // Whoever speaks is gone when the run is.
        while heard.recv().is_ok() {}
    }
}
