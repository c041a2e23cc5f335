//! Settings of a consensus node.
//!
//! Durations are counted in ticks, whose length the caller chooses. All nodes of a cluster
//! must have the same settings, except for the size of the send window.

use std::fmt;

/// The settings of one node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Election timeout: a follower that has heard nothing from a leader for this many
    /// ticks may vote for another; it campaigns itself after this many and fewer than twice
    /// as many, chosen at random each time.
    pub election_ticks: u32,
    /// Heartbeat interval of a leader, in ticks.
    pub heartbeat_ticks: u32,
    /// Most space of the entries in one message; one entry is always allowed.
    pub message_space: u64,
    /// Most entries in one message.
    pub message_entries: usize,
    /// Most space of entries that are in flight to one follower.
    pub window_space: u64,
    /// Most entries that are in flight to one follower.
    pub window_entries: usize,
    /// Most space of durable entries that are cached in memory for followers.
    pub entry_cache_bytes: u64,
    /// How a follower finds where its log diverges from the leader's.
    pub recovery: Recovery,
    /// Lease on which a confirmed leader may answer reads without another round.
    pub lease: Option<Lease>,
    /// How much of the log an entry takes.
    pub spacing: Spacing,
    /// Whether entries for non-quorum followers, whose acknowledgements no commit waits
    /// for, are sent in batches when the caller asks for it
    /// ([`send_to_all`](crate::Consensus::send_to_all)) instead of at once.
    pub batches_non_quorum: bool,
}

/// How a follower that meets a new leader, or restarts, finds the first entry of its own
/// log that is not in the leader's. See `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// FRS: the leader finds it in its list of marks. One request.
    Marks,
    /// CHK: one request for each entry, from the last one back. For comparison.
    Checking,
    /// TC: everything after the commit index is fetched again. For comparison.
    Truncating,
}

/// A leader that a majority has confirmed stays the only one for a time, because the
/// confirming voters vote for no other node meanwhile. That depends on clocks: no node's
/// ticks may come faster than another's by more than stated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Bound of the clock drift, in thousandths: with 100, ten ticks of a slow clock take
    /// no longer than eleven of a fast one.
    pub drift_per_mille: u32,
}

/// How much of the log an entry takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Each entry takes one offset: an LSN is an index.
    Entries,
    /// Offsets are bytes: a header before the payload, the whole padded to the alignment.
    Frames {
        /// Bytes of a header.
        header: u64,
        /// Frames start at multiples of this.
        alignment: u64,
    },
}

impl Spacing {
    /// The frames of the redo log.
    pub const REDO_LOG: Self = Self::Frames {
        header: 32,
        alignment: 8,
    };

    /// Space in the log of an entry with `payload_bytes` bytes.
    #[must_use]
    pub const fn space(self, payload_bytes: u64) -> u64 {
        match self {
            Self::Entries => 1,
            Self::Frames { header, alignment } => {
                (header + payload_bytes).next_multiple_of(alignment)
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            election_ticks: 10,
            heartbeat_ticks: 1,
            message_space: 1 << 20,
            message_entries: 4096,
            window_space: 16 << 20,
            window_entries: 1 << 16,
            entry_cache_bytes: 64 << 20,
            recovery: Recovery::Marks,
            lease: None,
            spacing: Spacing::REDO_LOG,
            batches_non_quorum: false,
        }
    }
}

/// Error: a setting is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingError(&'static str);

impl fmt::Display for SettingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for SettingError {}

impl Settings {
    /// Checks that the settings are valid.
    ///
    /// # Errors
    /// When they are not; the text names the setting and the valid range.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrong = if self.heartbeat_ticks == 0 {
            "heartbeat_ticks is 0; a leader must be heard: use 1 or more"
        } else if self.election_ticks <= self.heartbeat_ticks {
            "election_ticks is not above heartbeat_ticks: every leader would be deposed"
        } else if self.election_ticks > u32::MAX / 4 {
            "election_ticks is past its limit of 2³⁰ − 1"
        } else if self.message_entries == 0 || self.window_entries == 0 {
            "message_entries and window_entries must be 1 or more"
        } else if self.window_space == 0 {
            "window_space must be 1 or more"
        } else if matches!(self.spacing, Spacing::Frames { alignment: 0, .. }) {
            "the alignment of frames must be 1 or more"
        } else if self.lease.is_some() && self.lease_ticks() == 0 {
            "a lease with this drift lasts no time: raise election_ticks or lower drift_per_mille"
        } else {
            return Ok(());
        };
        Err(SettingError(wrong))
    }

    /// Duration of a lease, in the leader's ticks.
    ///
    /// Voters that confirmed a round hold their vote back until they have seen
    /// `election_ticks` ticks after that, which takes more than `election_ticks − 1` of
    /// their intervals. The leader counts from when it began the round, which was earlier,
    /// and its `n`-th tick comes within `n` of its intervals, each at most `1 + drift` of
    /// theirs.
    pub(crate) fn lease_ticks(&self) -> u64 {
        let Some(Lease { drift_per_mille }) = self.lease else {
            return 0;
        };
        u64::from(self.election_ticks.saturating_sub(1)) * 1000
            / (1000 + u64::from(drift_per_mille))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_redo_log() {
        assert_eq!(Spacing::REDO_LOG.space(0), 32);
        assert_eq!(Spacing::REDO_LOG.space(9), 48);
        assert_eq!(Spacing::Entries.space(9), 1);
    }

    #[test]
    fn a_lease_ends_before_any_vote() {
        let settings = |drift_per_mille| Settings {
            election_ticks: 12,
            lease: Some(Lease { drift_per_mille }),
            ..Settings::default()
        };
        assert_eq!(settings(0).lease_ticks(), 11);
        assert_eq!(settings(100).lease_ticks(), 10);
        assert!(settings(20_000).check().is_err());
        assert!(Settings::default().check().is_ok());
    }
}
