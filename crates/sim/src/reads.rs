//! Where the clients of a cluster have their reads executed: the seed decides.
//!
//! ```text
//!   engine     at the leader              at home
//!   cluster    the clients' own reads     besides, a reader on each node's machine
//!   servers    coeval.read_from = leader  coeval.read_from = fresh
//! ```
//!
//! Reads at home are follower reads: the node asks its leader for the newest commit (a read
//! index asked by a follower) and reads its own tables. They are recorded in the same
//! histories as all other transactions, so the same judges hold them to the same promises.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Engine;

/// Where reads are executed in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// All reads are executed by the leader, or by the only node.
    AtLeader,
    /// Every client of a cluster has what only reads executed by its own node.
    AtHome,
    /// Every other client of a cluster has it so.
    Mixed,
}

impl Reads {
    /// Where the clients of an engine read under this seed: of clusters each way as often.
    #[must_use]
    pub fn draw(engine: Engine, seed: u64) -> Self {
        if engine.nodes() == 1 {
            return Self::AtLeader;
        }
        // A random stream other than the world's.
        let mut random = StdRng::seed_from_u64(seed ^ 0x7265_6164);
        match random.random_range(0..3) {
            0 => Self::AtLeader,
            1 => Self::AtHome,
            _ => Self::Mixed,
        }
    }

    /// Whether a client's reads are executed by its own node.
    #[must_use]
    pub const fn at_home(self, client: usize) -> bool {
        match self {
            Self::AtLeader => false,
            Self::AtHome => true,
            Self::Mixed => client % 2 == 1,
        }
    }
}
