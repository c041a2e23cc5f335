//! The cost model of the simulated cluster: times of operations on the virtual clock.

use std::time::Duration;

use coeval_consensus::{Body, Entry, Message, Spacing};

/// Costs of operations. Only `replay` claims to match a machine, as measured by
/// `bench/recovery`; the others have the order of magnitude of a data centre.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Network delay, from the last byte sent to the arrival of the message.
    pub one_way: Duration,
    /// Bandwidth of a node for sending, in bytes per second.
    pub link: u64,
    /// Interval between two ticks of a node.
    pub tick: Duration,
    /// CPU time of the receiver of a message.
    pub message: Duration,
    /// Additional CPU time for each entry in the message.
    pub entry: Duration,
    /// CPU time of a client's write, at the leader.
    pub write: Duration,
    /// CPU time of a client's read, at any node.
    pub read: Duration,
    /// Time in which a follower applies one entry, on processors of its own.
    pub replay: Duration,
    /// Time of one disk sync, without the transfer of the data.
    pub flush: Duration,
    /// Throughput of a disk, in bytes per second, for writing and reading.
    pub disk: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            one_way: Duration::from_micros(50),
            link: 125_000_000,
            tick: Duration::from_millis(50),
            message: Duration::from_micros(5),
            entry: Duration::from_nanos(200),
            write: Duration::from_micros(40),
            read: Duration::from_micros(40),
            replay: Duration::from_nanos(300),
            flush: Duration::from_micros(200),
            disk: 500_000_000,
        }
    }
}

/// Time to transfer `bytes` at this rate.
fn pace(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / bytes_per_second)
}

impl Model {
    /// Time to send bytes from a node.
    #[must_use]
    pub fn sending(&self, bytes: u64) -> Duration {
        pace(bytes, self.link)
    }

    /// Time to transfer bytes to or from a disk.
    #[must_use]
    pub fn moving(&self, bytes: u64) -> Duration {
        pace(bytes, self.disk)
    }

    /// CPU time of the receiver of a message.
    #[must_use]
    pub fn handling(&self, message: &Message) -> Duration {
        self.message + self.entry * u32::try_from(entries_of(message).len()).unwrap_or(u32::MAX)
    }
}

/// The entries that a message carries.
#[must_use]
pub fn entries_of(message: &Message) -> &[Entry] {
    match &message.body {
        Body::Append { entries, .. } => entries,
        Body::Differs { entry, .. } => std::slice::from_ref(entry),
        _ => &[],
    }
}

/// Length of an entry in a message or a file, in bytes: that of a frame of the redo log.
#[must_use]
pub fn entry_bytes(entry: &Entry) -> u64 {
    let payload = match &entry.content {
        coeval_consensus::Content::Payload(payload) => payload.len() as u64,
        coeval_consensus::Content::Mark(_) | coeval_consensus::Content::Membership(_) => 8,
    };
    Spacing::REDO_LOG.space(payload)
}

/// Total length of entries, in bytes.
#[must_use]
pub fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(entry_bytes).sum()
}

/// Length of a message on the network, in bytes.
#[must_use]
pub fn message_bytes(message: &Message) -> u64 {
    64 + bytes_of(entries_of(message))
}
