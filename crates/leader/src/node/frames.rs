//! Frame kinds of the node-to-node protocol, by their numbers on the wire.
//!
//! A number is never reused for another kind, because nodes of several builds are connected
//! with each other: a node that does not know a kind skips its frames. Two numbers belong
//! to kinds that no node sends: 2 (log beside consensus) and 4 (statements of a client's
//! session).

use coeval_peers::{Kinds, MessageKind};

/// A consensus message, with the log entries that it carries.
pub(super) const CONSENSUS: MessageKind = MessageKind::new(1);
/// A piece of a checkpoint, or an acknowledgement: see `transfer`.
pub(super) const CHECKPOINT: MessageKind = MessageKind::new(3);
/// A leader admits a newcomer.
pub(super) const ADMISSION: MessageKind = MessageKind::new(5);
/// A follower reports its apply progress.
pub(super) const REACHED: MessageKind = MessageKind::new(6);

/// A node's origin, while a cluster is founded from restored directories: see `origin`.
pub(super) const ORIGIN: MessageKind = MessageKind::new(7);

/// Whether a node has room on its disk, while a leader has none: see `room`.
pub(super) const ROOM: MessageKind = MessageKind::new(8);

/// The members that a founder names: see `member_lists`.
pub(super) const LIST: MessageKind = MessageKind::new(10);

/// The kinds that a node accepts.
pub(super) const KINDS: Kinds = Kinds {
    // A leader says why it goes before it has another elected.
    urgent: &[CONSENSUS, ROOM],
    other: &[CHECKPOINT, ADMISSION, REACHED, ORIGIN, LIST],
};
