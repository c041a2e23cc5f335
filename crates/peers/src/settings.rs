//! The settings of connections between nodes, as data.

use std::time::Duration;

use tokio::sync::Semaphore;

/// How nodes talk to each other. What one node sends another must take: those that
/// bound a frame are the same on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of a frame's payload, from 4096 to 1 GiB.
    pub frame_bytes: usize,
    /// Most bytes that wait to be sent to a node: of urgent kinds so many, and of
    /// everything else as many again. Room for a frame at least.
    pub queue_bytes: usize,
    /// Most bytes received from a node that nobody has taken care of yet. Room for a
    /// frame at least. When they are reached the node's connection is not read, and its
    /// queue fills.
    pub receive_bytes: usize,
    /// How long a connection may take until both sides know who the other is.
    pub handshake_milliseconds: u64,
    /// How often each side shows that it is there.
    pub alive_milliseconds: u64,
    /// How long a node may be silent before its connection is given up. More than
    /// `alive_milliseconds`.
    pub silence_milliseconds: u64,
    /// The wait before a connection that was lost is tried again.
    pub retry_milliseconds: u64,
    /// The longest wait that comes to, when it fails time after time.
    pub longest_retry_milliseconds: u64,
    /// How many may be in the door at once who have not shown yet who they are. Another
    /// one pushes out who has been there longest.
    pub strangers: usize,
    /// How many streams another node may have opened to here. One more is refused.
    pub streams: usize,
    /// How many of them may wait until somebody takes them. One more is refused.
    pub streams_waiting: usize,
    /// Talk to other machines without TLS, too.
    pub insecure: bool,
}

/// What a frame costs beside its payload, in memory and on the wire, about.
pub(crate) const FRAME_COST: usize = 128;

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peer setting {name}: {reason}")]
pub struct SettingError {
    /// The field of [`Settings`].
    pub name: &'static str,
    /// What it must be.
    pub reason: String,
}

impl Settings {
    /// Says which setting cannot be, if one cannot.
    pub fn check(&self) -> Result<(), SettingError> {
        let refuse = |name, reason: String| Err(SettingError { name, reason });
        if !(4096..=1 << 30).contains(&self.frame_bytes) {
            let reason = "must be from 4096 to 1073741824".to_owned();
            return refuse("frame_bytes", reason);
        }
        // A semaphore counts the bytes, and takes them by a word of 32 bits.
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
