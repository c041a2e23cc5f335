//! The receiving end of a front end's stream: which items are there, and what was refused.
//!
//! Items are taken in whatever order they come; what is acknowledged is the number up to which
//! none is missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Part, Refusal};
use crate::timestamp::FrontEndId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// No item up to here is missing.
    through: u64,
    /// Items after a missing one.
    beyond: BTreeSet<u64>,
    /// Refusals of which the front end may not know.
    refused: BTreeMap<u64, Refusal>,
}

impl Incoming {
    /// Notes an item, and returns whether it is new.
    pub(super) fn note(&mut self, number: u64) -> bool {
        if number <= self.through || !self.beyond.insert(number) {
            return false;
        }
        while self.beyond.remove(&(self.through + 1)) {
            self.through += 1;
        }
        true
    }

    pub(super) fn refuse(&mut self, number: u64, refusal: Refusal) {
        self.refused.insert(number, refusal);
    }

    /// The front end has the answers up to this number.
    pub(super) fn confirmed(&mut self, through: u64) {
        self.refused = self.refused.split_off(&through.saturating_add(1));
    }

    pub(super) fn part(&self, id: FrontEndId, incarnation: u64) -> Part {
        let refused = self.refused.range(..=self.through);
        let refused = refused.map(|(number, refusal)| (*number, *refusal));
        Part::Taken(id, incarnation, self.through, refused.collect())
    }
}
