//! What a look at a log says of it, for people.

use std::collections::BTreeMap;

use super::{Recovered, torn};
use crate::timestamp::Epoch;

/// What is in the directory of a back end's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The checkpoint that a start would load: its epoch, versions and bytes.
    pub checkpoint: Option<(Epoch, usize, u64)>,
    /// Files of log after it, and their bytes.
    pub files: usize,
    /// Bytes of these files.
    pub bytes: u64,
    /// Transactions in them.
    pub transactions: usize,
    /// The newest epoch with a closing record.
    pub sealed: Epoch,
    /// Bytes at the end of the newest file that make no whole record: a start cuts them off.
    pub cut_bytes: usize,
}

impl Inspected {
    pub(super) fn of(
        recovered: &Recovered,
        logs: &BTreeMap<Epoch, Vec<u8>>,
        checkpoint_bytes: u64,
    ) -> Self {
        let checkpoint = recovered.checkpoint.as_ref();
        let after = checkpoint.map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        let read = logs.range(after.plus(1)..);
        let newest = logs.last_key_value().filter(|(epoch, _)| **epoch > after);
        Self {
            checkpoint: checkpoint
                .map(|found| (found.epoch, found.versions.len(), checkpoint_bytes)),
            files: read.clone().count(),
            bytes: read.map(|(_, bytes)| bytes.len() as u64).sum(),
            transactions: recovered.pieces.len(),
            sealed: recovered.sealed.max(after),
            cut_bytes: newest.map_or(0, |(_, bytes)| torn(bytes).0),
        }
    }
}
