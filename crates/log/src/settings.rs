//! Settings of the log, as data.

use coeval_memory::ring::AppendRing;
use coeval_types::Protocol;

use crate::Error;
use crate::frame::{HEADER_BYTES, frame_bytes};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Settings of a log. Every field may change from one start to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a segment file, its header included: a multiple of 4096, and 8192 or
    /// more. Existing segments keep their size.
    pub segment_bytes: u64,
    /// Bytes of the ring that holds log on its way to the disk: a power of two. Commits
    /// wait while it is full.
    pub ring_bytes: u64,
    /// Most bytes of entries in one frame, and so the longest entry; the log writes
    /// larger transactions in several frames. At most a quarter of the ring, and 4 MiB.
    pub frame_payload_bytes: usize,
    /// Threads that replay entries when the log is opened. With 1, the thread that reads
    /// the log replays it, and no other is started.
    pub recovery_threads: usize,
    /// Approximate bytes of records in one block of a checkpoint, the unit in which
    /// recovery reads, checks and loads it. At least 1 and at most 16 MiB.
    pub checkpoint_block_bytes: usize,
    /// Bytes of log kept before its end although no recovery needs them: for
    /// point-in-time restores, and for followers that fall behind.
    pub log_keep_bytes: u64,
    /// Disk space that is given up when the disk is full, for commits that only free space
    /// and for checkpoints; 0 for none. At most a sixteenth of the disk is taken.
    pub reserve_bytes: u64,
    /// The protocol of the cluster whose node keeps the log. A directory of another one's is
    /// refused; in a log that is not replicated it has no meaning.
    pub protocol: Protocol,
}

impl Settings {
    const SEGMENT_UNIT: u64 = 4096;
    const MAX_FRAME_PAYLOAD_BYTES: usize = 4 << 20;
    const MAX_CHECKPOINT_BLOCK_BYTES: usize = 16 << 20;

    pub(crate) fn check(&self) -> Result<(), Error> {
        let complain = |what: &str| Err(Error::Setting(what.to_owned()));
        if !self.segment_bytes.is_multiple_of(Self::SEGMENT_UNIT)
            || self.segment_bytes < SEGMENT_HEADER_BYTES + Self::SEGMENT_UNIT
        {
            return complain("segment_bytes must be a multiple of 4096, and at least 8192");
        }
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < 4 * AppendRing::MIN_REGION {
            return complain("ring_bytes must be a power of two, and at least 128");
        }
        if self.frame_payload_bytes == 0
            || self.frame_payload_bytes > Self::MAX_FRAME_PAYLOAD_BYTES
            || frame_bytes(self.frame_payload_bytes as u64) > self.ring_bytes / 4
        {
            return complain(
                "frame_payload_bytes must be at least 1, at most 4 MiB, and with a frame's \
                 header at most a quarter of ring_bytes",
            );
        }
        if self.recovery_threads == 0 {
            return complain("recovery_threads must be at least 1");
        }
        if !(1..=Self::MAX_CHECKPOINT_BLOCK_BYTES).contains(&self.checkpoint_block_bytes) {
            return complain("checkpoint_block_bytes must be from 1 to 16 MiB");
        }
        Ok(())
    }

    /// Most bytes a commit frame may have, its references to chunks included.
    pub(crate) fn max_frame_bytes(&self) -> u64 {
        AppendRing::MAX_REGION.min(self.ring_bytes / 2)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            ring_bytes: 16 << 20,
            frame_payload_bytes: 1 << 20,
            recovery_threads: std::thread::available_parallelism().map_or(1, usize::from),
            checkpoint_block_bytes: 256 << 10,
            log_keep_bytes: 0,
            reserve_bytes: 0,
            protocol: Protocol::default(),
        }
    }
}

const _: () = assert!(
    frame_bytes(Settings::MAX_FRAME_PAYLOAD_BYTES as u64) <= AppendRing::MAX_REGION / 2 + 64,
    "a commit frame has room for references beside its last part"
);
const _: () = assert!(
    HEADER_BYTES as u64 >= AppendRing::MIN_REGION,
    "every frame is long enough for a region of the ring"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_sound_and_nonsense_is_refused() {
        let good = Settings::default();
        good.check().unwrap();
        for bad in [
            Settings {
                segment_bytes: 4096,
                ..good.clone()
            },
            Settings {
                segment_bytes: 10_000,
                ..good.clone()
            },
            Settings {
                ring_bytes: 100_000,
                ..good.clone()
            },
            Settings {
                frame_payload_bytes: 0,
                ..good.clone()
            },
            Settings {
                frame_payload_bytes: 8 << 20,
                ..good.clone()
            },
            Settings {
                ring_bytes: 1 << 20,
                ..good.clone()
            },
            Settings {
                recovery_threads: 0,
                ..good.clone()
            },
            Settings {
                checkpoint_block_bytes: 0,
                ..good.clone()
            },
        ] {
            assert!(matches!(bad.check(), Err(Error::Setting(_))), "{bad:?}");
        }
    }
}
