//! Injected bugs for model checking: each omits one step that makes it safe to replace
//! ranges while transactions commit.

use coeval_memory::sync::Fault;

/// A writer that has registered does not check whether the range was retired meanwhile.
pub(super) static NO_SECOND_LOOK: Fault = Fault::new();
/// A validator does not follow a retired range's link.
pub(super) static NO_LINKS: Fault = Fault::new();
/// A range is replaced before every writer that registered there was assigned its
/// timestamp.
pub(super) static COPY_UNASSIGNED: Fault = Fault::new();
