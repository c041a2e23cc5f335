//! Raft consensus: replicates one log to the nodes of a cluster, and stays available while a
//! majority of them is.
//!
//! A pure step function. It has no clock, no disk, no network and no thread: messages, ticks
//! and finished writes go in; messages, writes and committed entries come out, by
//! [`Consensus::ready`]. Randomness comes from a seed. So a test, a simulator and a server run
//! the same code, and a run can be repeated to the bit.
//!
//! A cluster of one node, from a caller's point of view:
//!
//! ```
//! use coeval_consensus::{Consensus, Membership, NodeId, Restored, Role, Settings};
//!
//! let alone = Membership::new([NodeId(1)], []);
//! let mut node = Consensus::new(NodeId(1), Settings::default(), &Restored::empty(alone), 7)?;
//!
//! let mut applied = Vec::new();
//! for _ in 0..30 {
//!     node.tick();
//!     loop {
//!         let ready = node.ready();
//!         if ready.is_empty() {
//!             break;
//!         }
//!         // … send `ready.messages` …
//!         if let Some(write) = ready.write {
//!             // … to the disk, truncation before entries; then, whenever it is done:
//!             node.persisted(write.number)?;
//!         }
//!         if let Some(committed) = ready.committed {
//!             applied.push(committed);
//!         }
//!         if let Some(change) = ready.role && change.role == (Role::Leader { serving: true }) {
//!             node.propose("an entry".into())?;
//!         }
//!     }
//! }
//! // The mark that begins term 1, then the entry: a header of 32 bytes each, with 3 and
//! // 8 bytes of payload, at multiples of 8.
//! assert_eq!(applied.last().unwrap().to.to_string(), "1/80");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The log
//!
//! Consensus does not store the log; it decides its contents. An entry has a log offset
//! ([`Lsn`](coeval_types::Lsn)), a term and bytes that consensus does not interpret. Offsets
//! are the caller's bytes of log (decision 0020), so an entry may be one frame or a thousand
//! that are flushed together. `shape` has the state that is kept of a log of any length: a line
//! for each term.
//!
//! The first entry of a term is its *mark*, and nothing follows it before it is committed. That
//! costs a new leader one round trip. It buys: an entry that follows a mark proves that the
//! mark, and everything before it, is committed; a follower finds with one request where its
//! log diverges from its leader's (`recovery`); and no entry of an older term is ever counted
//! by itself.
//!
//! # Obligations of the caller
//!
//! 1. The caller carries out writes in order, and reports them when they survive the loss of
//!    power.
//! 2. A node that has lost its disk does not come back under its old id, unless no other node
//!    treats that id as a voter's, or it starts as a newcomer ([`Restored::newcomer`]), which
//!    neither votes nor campaigns until it is admitted.
//! 3. Ticks come from a clock: the caller makes up for missed ticks before it calls any other
//!    method. Without a lease only liveness and [`Consensus::unchallenged_ticks`] depend on
//!    that. With one, the ticks of any two nodes differ by no more than the stated drift.
//! 4. When [`Write::truncate`] removes entries that the caller has applied ahead of their
//!    commit, it undoes them before it applies new ones.
//!
//! # Guarantees
//!
//! The eight properties of `properties`, each checked there after every step of every simulated
//! run: election safety, log matching, leader completeness, state machine safety, the mark
//! rule, promises that are on the disk before they are given, commits by a majority, reads on
//! followers. And
//! liveness: while a majority is up and connected, it elects a leader, and the leader's
//! proposals are committed.
//!
//! Malformed input never makes it panic: a message that no node would send is refused.
//!
//! Source: Raft (Ongaro and Ousterhout, USENIX ATC 2014; Ongaro's dissertation, 2014) for
//! terms, votes, membership, reads; FRS for marks and recovery, with a correction (`recovery`);
//! the shape of the interface, with asynchronous writes, is that of the Raft libraries of etcd
//! and TiKV.
//!
//! # Words
//!
//! | here | elsewhere |
//! | --- | --- |
//! | LSN, log offset | log index |
//! | append, appended | AppendEntries, its response |
//! | preliminary vote | pre-vote |
//! | campaign | TimeoutNow |
//! | checkpoint | snapshot |
//! | round | read index request |
//! | question, ask | read index request of a follower |

mod consensus;
mod durability;
mod election;
pub mod encoding;
mod entry;
mod follower;
mod follower_reads;
mod follower_recovery;
mod leader;
mod membership;
mod message;
mod outbox;
mod planted;
mod position;
mod progress;
pub mod properties;
mod quorum_set;
mod random;
mod reads;
mod ready;
mod refusal;
mod restored;
mod settings;
mod shape;

pub use consensus::{Consensus, FollowerStatus, StartError, Status};
pub use entry::{Content, Entry, Mark};
pub use membership::{Change, ChangeError, FIRST_VERSION, IDENTITIES, Membership};
pub use message::{Body, Message, Request, Verified};
pub use position::{NodeId, Position};
pub use progress::Stage;
pub use ready::{Checkpoint, Committed, Fetch, ReadAnswer, Ready, Role, RoleChange, Write};
pub use refusal::Refusal;
pub use restored::{HardState, RestoreError, Restored};
pub use settings::{Lease, Recovery, SettingError, Settings, Spacing};
