//! A transaction's notes for validation: predicates of its scans, and registrations of
//! its writes.

use crate::ranges::map::Registration;
use crate::ranges::predicate::Predicate;
#[cfg(feature = "comparators")]
use crate::validation::comparators::RivalNotes;

/// The predicates of a transaction's scans, and the registrations of its writes.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) predicates: Vec<Predicate>,
    pub(super) registrations: Vec<Registration>,
    /// State of a rival validator, instead of the fields above or besides them.
    #[cfg(feature = "comparators")]
    pub(super) of_rival: Option<Box<dyn RivalNotes>>,
}

impl Notes {
    /// Whether a scan, or a read of an absent key, has left a note.
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

    /// Number of slots that the transaction's writes have taken.
    pub(crate) fn registered(&self) -> usize {
        #[cfg(feature = "comparators")]
        if let Some(notes) = &self.of_rival {
            return self.registrations.len() + notes.registered();
        }
        self.registrations.len()
    }

    /// Clears the notes for the next transaction, and frees buffers of more than `kept`
    /// bytes.
    pub(crate) fn clear(&mut self, kept: usize) {
        clear(&mut self.predicates, kept);
        clear(&mut self.registrations, kept);
        #[cfg(feature = "comparators")]
        if let Some(notes) = &mut self.of_rival {
            notes.clear(kept);
        }
    }
}

/// Empties a list, and frees its memory if that is more than `kept` bytes.
pub fn clear<T>(list: &mut Vec<T>, kept: usize) {
    list.clear();
    if list.capacity() * size_of::<T>() > kept {
        *list = Vec::new();
    }
}
