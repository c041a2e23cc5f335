//! Fencing by term: a receiver of a leader's orders keeps out leaders of earlier terms.
//!
//! ```
//! use coeval_council::{Fence, Term};
//!
//! let mut fence = Fence::default();
//! fence.admit(Term(4))?;
//! fence.admit(Term(5))?;
//! assert!(fence.admit(Term(4)).is_err(), "the leader of term 4 was replaced");
//! # Ok::<(), coeval_council::Fenced>(())
//! ```

use coeval_types::Term;

/// The newest term whose leader has been heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence(Term);

/// Error: an order comes from a leader that another one has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an order of term {found}, and the leader of term {newest} has replaced its sender")]
pub struct Fenced {
    /// The order's term.
    pub found: Term,
    /// The newest term heard of.
    pub newest: Term,
}

impl Fence {
    /// Admits an order of this term, and from then on none of an earlier one.
    ///
    /// # Errors
    /// When a later term was admitted before.
    pub fn admit(&mut self, term: Term) -> Result<(), Fenced> {
        if term < self.0 {
            return Err(Fenced {
                found: term,
                newest: self.0,
            });
        }
        self.0 = term;
        Ok(())
    }

    /// The newest term admitted.
    #[must_use]
    pub const fn newest(self) -> Term {
        self.0
    }
}
