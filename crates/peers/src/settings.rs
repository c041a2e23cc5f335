//! Settings of the connections between nodes, as plain data.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Settings of the connections between nodes. A receiver must accept what a sender sends:
/// limits of a frame are the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum bytes of a frame's payload, from 4096 to 1 GiB.
    pub frame_bytes: usize,
    /// Maximum bytes queued for a node, in each of the two lanes: urgent kinds and all
    /// others. At least the size of one frame.
    pub queue_bytes: usize,
    /// Maximum bytes received from another node that this node has not handled yet. At
    /// least the size of one frame. When the limit is reached this node stops reading that
    /// connection, and the sender's queue fills.
    pub receive_bytes: usize,
    /// How long a handshake may take, until both sides are identified.
    pub handshake_milliseconds: u64,
    /// Interval of pings and keep-alives.
    pub alive_milliseconds: u64,
    /// How long a node may be silent before its connection is closed. More than
    /// `alive_milliseconds`.
    pub silence_milliseconds: u64,
    /// Wait before the first attempt to reconnect.
    pub retry_milliseconds: u64,
    /// Longest wait between attempts to reconnect, after repeated failures.
    pub longest_retry_milliseconds: u64,
    /// Maximum number of connections in the handshake. A further one aborts the oldest.
    pub strangers: usize,
    /// Maximum number of streams that another node may have opened to this one. A further
    /// one is refused.
    pub streams: usize,
    /// Maximum number of such streams that may wait until this node takes them. A further
    /// one is refused.
    pub streams_waiting: usize,
    /// Allow connections to other machines without TLS.
    pub insecure: bool,
}

/// Overhead of a frame in addition to its payload, in memory and on the wire, about.
pub(crate) const FRAME_COST: usize = 128;

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peer setting {name}: {reason}")]
pub struct SettingError {
    /// Name of the field of [`Settings`].
    pub name: &'static str,
    /// The requirement that the value does not meet.
    pub reason: String,
}

impl Settings {
    /// Rejects the first invalid setting.
    pub fn check(&self) -> Result<(), SettingError> {
        let refuse = |name, reason: String| Err(SettingError { name, reason });
        if !(4096..=1 << 30).contains(&self.frame_bytes) {
            let reason = "must be from 4096 to 1073741824".to_owned();
            return refuse("frame_bytes", reason);
        }
        // A semaphore counts the bytes, and acquires them by a word of 32 bits.
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize >> 1);
        for (name, bytes) in [
            ("queue_bytes", self.queue_bytes),
            ("receive_bytes", self.receive_bytes),
        ] {
            let least = self.frame_bytes + FRAME_COST;
            if !(least..=most).contains(&bytes) {
                let reason = format!(
                    "must be from {least}, which is frame_bytes and {FRAME_COST}, to {most}"
                );
                return refuse(name, reason);
            }
        }
        for (name, milliseconds) in [
            ("handshake_milliseconds", self.handshake_milliseconds),
            ("alive_milliseconds", self.alive_milliseconds),
            ("silence_milliseconds", self.silence_milliseconds),
            ("retry_milliseconds", self.retry_milliseconds),
            (
                "longest_retry_milliseconds",
                self.longest_retry_milliseconds,
            ),
        ] {
            if !(1..=3_600_000).contains(&milliseconds) {
                return refuse(name, "must be from 1 to 3600000".to_owned());
            }
        }
        if self.silence_milliseconds <= self.alive_milliseconds {
            let reason = format!(
                "must be more than alive_milliseconds, which is {}",
                self.alive_milliseconds
            );
            return refuse("silence_milliseconds", reason);
        }
        if self.longest_retry_milliseconds < self.retry_milliseconds {
            let reason = format!(
                "must be no less than retry_milliseconds, which is {}",
                self.retry_milliseconds
            );
            return refuse("longest_retry_milliseconds", reason);
        }
        if !(1..=10_000).contains(&self.strangers) {
            return refuse("strangers", "must be from 1 to 10000".to_owned());
        }
        for (name, count) in [
            ("streams", self.streams),
            ("streams_waiting", self.streams_waiting),
        ] {
            if !(1..=1_000_000).contains(&count) {
                return refuse(name, "must be from 1 to 1000000".to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn handshake(&self) -> Duration {
        Duration::from_millis(self.handshake_milliseconds)
    }

    pub(crate) fn alive(&self) -> Duration {
        Duration::from_millis(self.alive_milliseconds)
    }

    pub(crate) fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_milliseconds)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            frame_bytes: 8 << 20,
            queue_bytes: 32 << 20,
            receive_bytes: 32 << 20,
            handshake_milliseconds: 3000,
            alive_milliseconds: 500,
            silence_milliseconds: 3000,
            retry_milliseconds: 50,
            longest_retry_milliseconds: 2000,
            strangers: 64,
            streams: 10_000,
            streams_waiting: 256,
            insecure: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        Settings::default().check().unwrap();
        type Change = fn(&mut Settings);
        let changes: [(&str, Change); 10] = [
            ("frame_bytes", |settings| settings.frame_bytes = 4095),
            ("queue_bytes", |settings| settings.queue_bytes = 8 << 20),
            ("receive_bytes", |settings| settings.receive_bytes = 1 << 40),
            ("handshake_milliseconds", |settings| {
                settings.handshake_milliseconds = 0;
            }),
            ("silence_milliseconds", |settings| {
                settings.silence_milliseconds = settings.alive_milliseconds;
            }),
            ("retry_milliseconds", |settings| {
                settings.retry_milliseconds = 0
            }),
            ("longest_retry_milliseconds", |settings| {
                settings.longest_retry_milliseconds = 1;
            }),
            ("strangers", |settings| settings.strangers = 0),
            ("streams", |settings| settings.streams = 0),
            ("streams_waiting", |settings| settings.streams_waiting = 0),
        ];
        for (name, change) in changes {
            let mut settings = Settings::default();
            change(&mut settings);
            assert_eq!(settings.check().unwrap_err().name, name);
        }
    }
}
