//! What one transaction has noted of its scans, and registered of its writes.

use crate::ranges::map::Registration;
use crate::ranges::predicate::Predicate;
#[cfg(feature = "comparators")]
use crate::validation::comparators::RivalNotes;

/// What one transaction has noted of its scans, and registered of its writes.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) predicates: Vec<Predicate>,
    pub(super) registrations: Vec<Registration>,
    /// What a rival keeps instead, or besides.
    #[cfg(feature = "comparators")]
    pub(super) of_rival: Option<Box<dyn RivalNotes>>,
}

impl Notes {
    /// Whether any scan has left a note, or a key that was not there.
    pub(crate) fn has_scans(&self) -> bool {
        #[cfg(feature = "comparators")]
        if self
            .of_rival
            .as_ref()
            .is_some_and(|notes| notes.has_scans())
        {
            return true;
        }
        !self.predicates.is_empty()
    }

    /// How many slots its writes have taken.
    pub(crate) fn registered(&self) -> usize {
        #[cfg(feature = "comparators")]
        if let Some(notes) = &self.of_rival {
            return self.registrations.len() + notes.registered();
        }
        self.registrations.len()
    }

    /// For the next transaction; buffers of more than `kept` bytes go.
    pub(crate) fn clear(&mut self, kept: usize) {
        clear(&mut self.predicates, kept);
        clear(&mut self.registrations, kept);
        #[cfg(feature = "comparators")]
        if let Some(notes) = &mut self.of_rival {
            notes.clear(kept);
        }
    }
}

/// Empties a list, and gives its memory back if that is more than `kept` bytes.
pub fn clear<T>(list: &mut Vec<T>, kept: usize) {
    list.clear();
    if list.capacity() * size_of::<T>() > kept {
        *list = Vec::new();
    }
}
