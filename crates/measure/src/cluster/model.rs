//! What things cost on the virtual clock.

use std::time::Duration;

use coeval_consensus::{Body, Entry, Message, Spacing};

/// Prices. None of them is a claim about a machine but `replay`, which `bench/recovery`
/// measures; the others are of the order of a data centre's.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// From the last byte that leaves to the message that arrives.
    pub one_way: Duration,
    /// Bytes that leave a node in a second.
    pub link: u64,
    /// Between two ticks of a node.
    pub tick: Duration,
    /// Processor time of whoever receives a message.
    pub message: Duration,
    /// And for each entry in it.
    pub entry: Duration,
    /// Processor time of a client's write, at the leader.
    pub write: Duration,
    /// Processor time of a client's read, wherever it is done.
    pub read: Duration,
    /// Time in which a follower applies one entry, on processors of its own.
    pub replay: Duration,
    /// One flush of a disk, however little is written.
    pub flush: Duration,
    /// Bytes that a disk takes in a second, or gives back.
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

/// How long so many bytes take at so many in a second.
fn pace(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / bytes_per_second)
}

impl Model {
    /// How long bytes take to leave a node.
    #[must_use]
    pub fn sending(&self, bytes: u64) -> Duration {
        pace(bytes, self.link)
    }

    /// How long bytes take to or from a disk.
    #[must_use]
    pub fn moving(&self, bytes: u64) -> Duration {
        pace(bytes, self.disk)
    }

    /// What a message costs its receiver.
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

/// What an entry takes in a message or a file: a frame of the redo log.
#[must_use]
pub fn entry_bytes(entry: &Entry) -> u64 {
    let payload = match &entry.content {
        coeval_consensus::Content::Payload(payload) => payload.len() as u64,
        coeval_consensus::Content::Mark(_) | coeval_consensus::Content::Membership(_) => 8,
    };
    Spacing::REDO_LOG.space(payload)
}

/// What entries take together.
#[must_use]
pub fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(entry_bytes).sum()
}

/// What a message takes on its way.
#[must_use]
pub fn message_bytes(message: &Message) -> u64 {
    64 + bytes_of(entries_of(message))
}
