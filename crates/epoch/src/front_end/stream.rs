//! The stream of a front end to one back end: numbered items, sent again until they are taken.
//!
//! ```text
//!   items   5 Put 7.0.1   6 Put 7.1.1   7 Abort 7.0.1
//!   taken through 6        5 and 6 are there; 7 is sent again at the next tick
//! ```
//!
//! A cumulative number acknowledges any number of transactions at once.

use std::collections::BTreeMap;

use crate::message::{Item, Part, Refusal};
use crate::timestamp::{EpochTimestamp, FrontEndId};

/// See the module.
#[derive(Debug)]
pub(super) struct Stream {
    /// The incarnation of the back end that takes it.
    pub(super) incarnation: u64,
    next: u64,
    /// Items that are not known to be taken.
    items: BTreeMap<u64, Item>,
    /// Items from this number on have not been sent yet.
    unsent: u64,
    /// The number up to which all answers have come.
    through: u64,
}

/// What came of an item.
pub(super) type Taken = (EpochTimestamp, u64, Option<Refusal>);

impl Stream {
    pub(super) fn new(incarnation: u64) -> Self {
        Self {
            incarnation,
            next: 1,
            items: BTreeMap::new(),
            unsent: 1,
            through: 0,
        }
    }

    /// Adds an item, and returns its number.
    pub(super) fn push(&mut self, item: Item) -> u64 {
        let number = self.next;
        self.next += 1;
        self.items.insert(number, item);
        number
    }

    /// What is to be said now: the new items, or with `again` all that are not known to be taken.
    pub(super) fn part(&mut self, id: FrontEndId, again: bool) -> Option<Part> {
        let from = if again { 0 } else { self.unsent };
        self.unsent = self.next;
        let items = self.items.range(from..);
        let items: Vec<(u64, Item)> = items
            .map(|(number, item)| (*number, item.clone()))
            .collect();
        (!items.is_empty()).then(|| Part::Items(id, self.through, items))
    }

    /// Takes in an acknowledgement, and returns the items that it is about.
    pub(super) fn taken(&mut self, through: u64, refused: &[(u64, Refusal)]) -> Vec<Taken> {
        if through <= self.through || through >= self.next {
            return Vec::new();
        }
        let rest = self.items.split_off(&(through + 1));
        let done = std::mem::replace(&mut self.items, rest);
        self.through = through;
        let refusal = |number: u64| {
            let found = refused.iter().find(|(other, _)| *other == number);
            found.map(|(_, refusal)| *refusal)
        };
        done.iter()
            .map(|(number, item)| (item.at(), *number, refusal(*number)))
            .collect()
    }
}
