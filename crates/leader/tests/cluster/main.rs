//! Three nodes in one process, under one seed: a bank whose transfers go through whichever
//! node leads, while nodes are killed and cut off.

mod bank;
mod changes;
mod checkpoints;
mod faults;
mod flushes;
mod follower_memory;
mod follower_reads;
mod founding;
mod judge;
mod lag;
mod lost;
mod nodes;
mod planted;
mod questions;
mod reads;
mod removed;
mod room;
mod runs;
mod spared;
mod table;
mod unawaited;
mod versions;
