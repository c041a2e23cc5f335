//! Faults that models put back: each leaves out one step that ranges need to be replaced
//! while commits go on.

use coeval_memory::sync::Fault;

/// A writer that has registered does not look whether the range was retired meanwhile.
pub(super) static NO_SECOND_LOOK: Fault = Fault::new();
/// A validator does not follow a retired range's link.
pub(super) static NO_LINKS: Fault = Fault::new();
/// A range is replaced before everybody who registered there has drawn.
pub(super) static COPY_UNDRAWN: Fault = Fault::new();
