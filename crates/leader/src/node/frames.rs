//! The kinds of frames that nodes send each other, by their numbers on the wire.
//!
//! A number is never given to another kind, for nodes of several builds talk to each other:
//! one that does not know a kind skips its frames. Two are taken by kinds that no node
//! sends: 2 (log beside consensus) and 4 (what a client's session says).

use coeval_peers::{Kind, Kinds};

/// A message of consensus, with the log that it carries.
pub(super) const CONSENSUS: Kind = Kind::new(1);
/// A piece of a checkpoint, or an answer to some: see `transfer`.
pub(super) const CHECKPOINT: Kind = Kind::new(3);
/// A leader admits a newcomer.
pub(super) const ADMISSION: Kind = Kind::new(5);
/// A follower says how far it has come.
pub(super) const REACHED: Kind = Kind::new(6);

/// What a node takes.
pub(super) const KINDS: Kinds = Kinds {
    urgent: &[CONSENSUS],
    other: &[CHECKPOINT, ADMISSION, REACHED],
};
